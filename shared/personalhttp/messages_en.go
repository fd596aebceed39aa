package personalhttp

import "github.com/cms-personal/personal/shared/personal"

func english() texts {
	return texts{
		done: map[done]string{
			doneSignedIn:          "You are signed in.",
			doneRegistered:        "Your account has been created.",
			doneRecoveryRequested: "If the account exists, an e-mail with further instructions is on its way.",
			donePasswordChanged:   "Your password has been changed.",
			doneProfileSaved:      "Your profile has been saved.",
			doneEmailRequested:    "Please confirm the change by the e-mail sent to the new address.",
			doneEmailChanged:      "Your e-mail address has been changed.",
			doneLoggedOut:         "You are signed out.",
			doneSessionEnded:      "The session has been ended.",
		},
		codes: map[personal.Code]string{
			personal.CodeMalformedRequest:     "The request could not be read.",
			personal.CodeInvalidCredentials:   "The login or the password is wrong.",
			personal.CodeUnauthenticated:      "You are not signed in, or your session has ended. Please sign in.",
			personal.CodeAccountDisabled:      "This account is disabled. Please contact the administrator of the site.",
			personal.CodeNotFound:             "This page or operation does not exist.",
			personal.CodeMethodNotAllowed:     "This operation cannot be called in this way.",
			personal.CodeAlreadyExists:        "Such an account already exists.",
			personal.CodeTooLarge:             "Too much data was sent.",
			personal.CodeUnsupportedMediaType: "The data was sent in a format that is not supported.",
			personal.CodeValidationFailed:     "Please check what you have entered.",
			personal.CodeInvalidToken:         "This link or code is not valid, or not any more. Please ask for a new one.",
			personal.CodeTooManyAttempts:      "Too many attempts. Please try again later.",
			personal.CodeInternal:             "Something went wrong on our side. Please try again later.",
			personal.CodeUnavailable:          "The service is not available at the moment. Please try again shortly.",
		},
		faults: map[personal.FieldErrorCode]string{
			personal.FieldErrorRequired:      "Please fill this in.",
			personal.FieldErrorTooShort:      "This is too short.",
			personal.FieldErrorTooLong:       "This is too long.",
			personal.FieldErrorInvalidFormat: "This is not in the expected form.",
			personal.FieldErrorInvalidType:   "A value of another kind is expected here.",
			personal.FieldErrorNotInList:     "Please choose one of the values on offer.",
			personal.FieldErrorOutOfRange:    "This value is outside the allowed range.",
			personal.FieldErrorMismatch:      "This does not match.",
			personal.FieldErrorTaken:         "This is already taken.",
			personal.FieldErrorTooCommon:     "This is too easy to guess.",
			personal.FieldErrorUnknownField:  "There is no such field.",
			personal.FieldErrorReadOnly:      "This field cannot be changed.",
		},
		fault: "This value is not accepted.",
	}
}
