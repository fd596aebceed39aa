package personalhttp

import "github.com/cms-personal/personal/shared/personal"

func russian() texts {
	return texts{
		done: map[done]string{
			doneSignedIn:          "Вы вошли.",
			doneRegistered:        "Учётная запись создана.",
			doneRecoveryRequested: "Если такая учётная запись существует, на её адрес отправлено письмо с дальнейшими указаниями.",
			donePasswordChanged:   "Пароль изменён.",
			doneProfileSaved:      "Профиль сохранён.",
			doneEmailRequested:    "Подтвердите изменение: письмо отправлено на новый адрес.",
			doneEmailChanged:      "Адрес электронной почты изменён.",
			doneLoggedOut:         "Вы вышли.",
			doneSessionEnded:      "Сеанс завершён.",
		},
		codes: map[personal.Code]string{
			personal.CodeMalformedRequest:     "Не удалось прочитать запрос.",
			personal.CodeInvalidCredentials:   "Неверный логин или пароль.",
			personal.CodeUnauthenticated:      "Вы не вошли, или ваш сеанс завершён. Пожалуйста, войдите.",
			personal.CodeAccountDisabled:      "Учётная запись отключена. Обратитесь к администратору сайта.",
			personal.CodeNotFound:             "Такой страницы или операции нет.",
			personal.CodeMethodNotAllowed:     "Эту операцию нельзя вызвать таким способом.",
			personal.CodeAlreadyExists:        "Такая учётная запись уже есть.",
			personal.CodeTooLarge:             "Отправлено слишком много данных.",
			personal.CodeUnsupportedMediaType: "Данные отправлены в неподдерживаемом формате.",
			personal.CodeValidationFailed:     "Проверьте введённые данные.",
			personal.CodeInvalidToken:         "Ссылка или код недействительны или уже не действуют. Запросите новые.",
			personal.CodeTooManyAttempts:      "Слишком много попыток. Повторите позже.",
			personal.CodeInternal:             "На нашей стороне произошла ошибка. Повторите позже.",
			personal.CodeUnavailable:          "Служба сейчас недоступна. Повторите немного позже.",
		},
		faults: map[personal.FieldErrorCode]string{
			personal.FieldErrorRequired:      "Заполните это поле.",
			personal.FieldErrorTooShort:      "Слишком короткое значение.",
			personal.FieldErrorTooLong:       "Слишком длинное значение.",
			personal.FieldErrorInvalidFormat: "Неверный формат.",
			personal.FieldErrorInvalidType:   "Здесь ожидается значение другого вида.",
			personal.FieldErrorNotInList:     "Выберите одно из предложенных значений.",
			personal.FieldErrorOutOfRange:    "Значение вне допустимых пределов.",
			personal.FieldErrorMismatch:      "Не совпадает.",
			personal.FieldErrorTaken:         "Уже занято.",
			personal.FieldErrorTooCommon:     "Слишком легко угадать.",
			personal.FieldErrorUnknownField:  "Такого поля нет.",
			personal.FieldErrorReadOnly:      "Это поле нельзя изменить.",
		},
		fault: "Недопустимое значение.",
	}
}
