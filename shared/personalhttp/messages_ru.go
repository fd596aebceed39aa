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
		faults: map[personal.FaultCode]string{
			personal.FaultRequired:      "Заполните это поле.",
			personal.FaultTooShort:      "Слишком короткое значение.",
			personal.FaultTooLong:       "Слишком длинное значение.",
			personal.FaultInvalidFormat: "Неверный формат.",
			personal.FaultInvalidType:   "Здесь ожидается значение другого вида.",
			personal.FaultNotInList:     "Выберите одно из предложенных значений.",
			personal.FaultOutOfRange:    "Значение вне допустимых пределов.",
			personal.FaultMismatch:      "Не совпадает.",
			personal.FaultTaken:         "Уже занято.",
			personal.FaultTooCommon:     "Слишком легко угадать.",
			personal.FaultUnknownField:  "Такого поля нет.",
			personal.FaultReadOnly:      "Это поле нельзя изменить.",
		},
		fault: "Недопустимое значение.",
	}
}
