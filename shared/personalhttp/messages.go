package personalhttp

import (
	"net/http"

	"github.com/cms-personal/personal/shared/personal"
)

// texts are the messages of one language. End users read them. Each code has one
// text, because a text must not reveal more than its code.
type texts struct {
	success         map[string]string // after a POST, by the route's name; others have no message
	unverified      string            // after a registration whose e-mail must be confirmed first
	codes           map[personal.Code]string
	fieldErrors     map[personal.FieldErrorCode]string
	otherFieldError string // for a code that a newer module added
}

// Confirm returns the API's message after a successful POST to an operation, such as
// "profile", in the language of the request's call. It is empty if the operation has
// no message or does not exist.
func (h *Handler) Confirm(r *http.Request, operation string) string {
	return h.texts(r).success[operation]
}

// successMessage returns the message for a success of the request.
func (h *Handler) successMessage(r *http.Request, route *route) string {
	if route == nil || r.Method != http.MethodPost {
		return ""
	}
	return h.Confirm(r, route.name)
}

func english() texts {
	return texts{
		success: map[string]string{
			"auth":                   "You are signed in.",
			"register":               "Your account has been created.",
			"recover":                "If the account exists, an e-mail with further instructions is on its way.",
			"recover_confirm":        "Your password has been changed.",
			"profile":                "Your profile has been saved.",
			"password":               "Your password has been changed.",
			"email":                  "Please confirm the change: we have sent an e-mail to the new address.",
			"email_confirm":          "Your e-mail address has been confirmed.",
			"logout":                 "You are signed out.",
			"sessions_revoke":        "The session has been ended.",
			"sessions_revoke_others": "You are signed out everywhere else.",
			"email_resend":           "If the address still has to be confirmed, an e-mail with further instructions is on its way.",
			"export":                 "This is what is kept about you.",
			"delete":                 "Your account is disabled and will be erased. If it has an e-mail address, our e-mail says when, and how to undo this.",
			"delete_undo":            "Your account will not be erased. You can sign in again.",

			"two_factor":         "Add this secret to your authenticator app, then enter the code that the app shows.",
			"two_factor_confirm": "Two-factor sign-in is on. Keep the recovery codes in a safe place.",
			"two_factor_codes":   "These are your new recovery codes. The earlier ones no longer work.",
			"two_factor_remove":  "Two-factor sign-in is off.",
		},
		unverified: "Please confirm your e-mail address: we have sent you an e-mail. After that you can sign in.",
		codes: map[personal.Code]string{
			personal.CodeMalformedRequest:     "The request could not be read.",
			personal.CodeInvalidCredentials:   "The login or the password is wrong.",
			personal.CodeUnauthenticated:      "You are not signed in, or your session has ended. Please sign in.",
			personal.CodeAccountDisabled:      "This account is disabled. If you have deleted it, our e-mail says how to undo that; otherwise please contact the administrator of the site.",
			personal.CodeEmailUnverified:      "Please confirm your e-mail address first. You can have the e-mail for that sent again.",
			personal.CodeCodeRequired:         "Please enter the code that your authenticator app shows, or a recovery code.",
			personal.CodeInvalidCode:          "This code is wrong or has been used. Please enter the next code that your app shows, or another recovery code.",
			personal.CodeCodesBlocked:         "Too many wrong codes were entered. Please use a recovery code, or sign in where you have signed in since your password, e-mail or two-factor sign-in last changed. Then change your password.",
			personal.CodeProfileIncomplete:    "Please complete your profile first.",
			personal.CodeRefused:              "This site does not accept this request. Please contact the administrator of the site.",
			personal.CodeCrossOrigin:          "Another website has sent this request. Please use this site itself.",
			personal.CodeNotFound:             "This page or operation does not exist.",
			personal.CodeMethodNotAllowed:     "This operation cannot be called in this way.",
			personal.CodeAlreadyExists:        "Such an account already exists.",
			personal.CodeTwoFactorOn:          "Two-factor sign-in is on already.",
			personal.CodeTwoFactorOff:         "Two-factor sign-in is off, or there is nothing to confirm.",
			personal.CodeTooLarge:             "Too much data was sent.",
			personal.CodeUnsupportedMediaType: "The data was sent in a format that is not supported.",
			personal.CodeValidationFailed:     "Please check what you have entered.",
			personal.CodeInvalidToken:         "This link or code is not valid or has expired. Please request a new one.",
			personal.CodeTooManyAttempts:      "Too many attempts. Please try again later.",
			personal.CodeInternal:             "Something went wrong on our side. Please try again later.",
			personal.CodeUnavailable:          "The service is not available at the moment. Please try again shortly.",
		},
		fieldErrors: map[personal.FieldErrorCode]string{
			personal.FieldErrorRequired:      "Please fill this in.",
			personal.FieldErrorTooShort:      "This is too short.",
			personal.FieldErrorTooLong:       "This is too long.",
			personal.FieldErrorInvalidFormat: "This does not have the expected format.",
			personal.FieldErrorInvalidType:   "A value of another type is expected here.",
			personal.FieldErrorNotInList:     "Please choose one of the listed values.",
			personal.FieldErrorOutOfRange:    "This value is outside the allowed range.",
			personal.FieldErrorMismatch:      "This does not match.",
			personal.FieldErrorTaken:         "This is already taken.",
			personal.FieldErrorTooCommon:     "This is too easy to guess.",
			personal.FieldErrorUnknownField:  "There is no such field.",
			personal.FieldErrorReadOnly:      "This field cannot be changed.",
		},
		otherFieldError: "This value is not accepted.",
	}
}

func russian() texts {
	return texts{
		success: map[string]string{
			"auth":                   "Вход выполнен.",
			"register":               "Учётная запись создана.",
			"recover":                "Если такая учётная запись существует, на её адрес отправлено письмо с инструкциями.",
			"recover_confirm":        "Пароль изменён.",
			"profile":                "Профиль сохранён.",
			"password":               "Пароль изменён.",
			"email":                  "Подтвердите изменение: на новый адрес отправлено письмо.",
			"email_confirm":          "Адрес электронной почты подтверждён.",
			"logout":                 "Вы вышли из учётной записи.",
			"sessions_revoke":        "Сеанс завершён.",
			"sessions_revoke_others": "Все остальные сеансы завершены.",
			"email_resend":           "Если адрес ещё нужно подтвердить, на него отправлено письмо с инструкциями.",
			"export":                 "Вот что хранится о вас.",
			"delete":                 "Учётная запись отключена и будет удалена. Если у неё есть адрес электронной почты, в нашем письме сказано, когда это произойдёт и как это отменить.",
			"delete_undo":            "Учётная запись не будет удалена. Теперь вы можете войти.",

			"two_factor":         "Добавьте этот ключ в приложение для кодов и введите код, который оно покажет.",
			"two_factor_confirm": "Вход по двум факторам включён. Сохраните коды восстановления в надёжном месте.",
			"two_factor_codes":   "Это ваши новые коды восстановления. Прежние больше не действуют.",
			"two_factor_remove":  "Вход по двум факторам выключен.",
		},
		unverified: "Подтвердите адрес электронной почты: мы отправили вам письмо. После этого вы сможете войти.",
		codes: map[personal.Code]string{
			personal.CodeMalformedRequest:     "Не удалось прочитать запрос.",
			personal.CodeInvalidCredentials:   "Неверный логин или пароль.",
			personal.CodeUnauthenticated:      "Вы не вошли, или ваш сеанс завершён. Пожалуйста, войдите.",
			personal.CodeAccountDisabled:      "Учётная запись отключена. Если вы её удалили, в нашем письме сказано, как это отменить; иначе обратитесь к администратору сайта.",
			personal.CodeEmailUnverified:      "Сначала подтвердите адрес электронной почты. Письмо для этого можно отправить ещё раз.",
			personal.CodeCodeRequired:         "Введите код из приложения для кодов или код восстановления.",
			personal.CodeInvalidCode:          "Код неверен или уже использован. Введите следующий код из приложения или другой код восстановления.",
			personal.CodeCodesBlocked:         "Введено слишком много неверных кодов. Введите код восстановления или войдите оттуда, где вы входили после последнего изменения пароля, почты или входа по двум факторам. Затем смените пароль.",
			personal.CodeProfileIncomplete:    "Сначала заполните профиль.",
			personal.CodeRefused:              "Сайт не принимает этот запрос. Обратитесь к администратору сайта.",
			personal.CodeCrossOrigin:          "Этот запрос отправил другой сайт. Воспользуйтесь страницами этого сайта.",
			personal.CodeNotFound:             "Такой страницы или операции нет.",
			personal.CodeMethodNotAllowed:     "Эту операцию нельзя вызвать таким способом.",
			personal.CodeAlreadyExists:        "Такая учётная запись уже есть.",
			personal.CodeTwoFactorOn:          "Вход по двум факторам уже включён.",
			personal.CodeTwoFactorOff:         "Вход по двум факторам выключен, или подтверждать нечего.",
			personal.CodeTooLarge:             "Отправлено слишком много данных.",
			personal.CodeUnsupportedMediaType: "Данные отправлены в неподдерживаемом формате.",
			personal.CodeValidationFailed:     "Проверьте введённые данные.",
			personal.CodeInvalidToken:         "Ссылка или код недействительны либо устарели. Запросите новые.",
			personal.CodeTooManyAttempts:      "Слишком много попыток. Попробуйте позже.",
			personal.CodeInternal:             "На нашей стороне произошла ошибка. Попробуйте позже.",
			personal.CodeUnavailable:          "Сервис сейчас недоступен. Попробуйте немного позже.",
		},
		fieldErrors: map[personal.FieldErrorCode]string{
			personal.FieldErrorRequired:      "Заполните это поле.",
			personal.FieldErrorTooShort:      "Слишком короткое значение.",
			personal.FieldErrorTooLong:       "Слишком длинное значение.",
			personal.FieldErrorInvalidFormat: "Неверный формат.",
			personal.FieldErrorInvalidType:   "Здесь нужно значение другого типа.",
			personal.FieldErrorNotInList:     "Выберите одно из предложенных значений.",
			personal.FieldErrorOutOfRange:    "Значение вне допустимого диапазона.",
			personal.FieldErrorMismatch:      "Не совпадает.",
			personal.FieldErrorTaken:         "Уже занято.",
			personal.FieldErrorTooCommon:     "Слишком легко угадать.",
			personal.FieldErrorUnknownField:  "Такого поля нет.",
			personal.FieldErrorReadOnly:      "Это поле нельзя изменить.",
		},
		otherFieldError: "Недопустимое значение.",
	}
}
