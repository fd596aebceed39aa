package personalhttp

import (
	"net/http"

	"github.com/cms-personal/personal/shared/personal"
)

// newRoutes returns the table of the HTTP contract, section 3, in its order. The
// OpenAPI document is made from it.
func newRoutes() []*route {
	const (
		get  = http.MethodGet
		post = http.MethodPost

		invalidCredentials = personal.CodeInvalidCredentials
		accountDisabled    = personal.CodeAccountDisabled
		validationFailed   = personal.CodeValidationFailed
		invalidToken       = personal.CodeInvalidToken
		alreadyExists      = personal.CodeAlreadyExists
	)
	var (
		ownPassword = required("password", secret(0, 0, "The account's password."))
		newPassword = required("password", secret(minPassword, maxPassword, "The new password. The site may ask for more characters; common ones are refused."))
		confirm     = required("confirm_password", secret(0, 0, "The new password once more."))
		newEmail    = required("email", email("A plain ASCII address; its domain may be given in Unicode."))
		token       = required("token", text(0, 0, "From the mail."))
	)
	codes := func(c ...personal.Code) []personal.Code { return c }
	refreshing := func(method string) operation {
		return operation{method: method, summary: "Rotate the hash", call: refresh, data: schemaCredentials, identified: true}
	}
	return []*route{
		newRoute("auth", operation{method: post, summary: "Sign in", call: authorize, done: doneSignedIn, data: schemaSignedIn,
			parameters: []parameter{required("login", text(0, 0, "A login, or an e-mail address unless the site has turned that off.")), ownPassword},
			codes:      codes(invalidCredentials, accountDisabled, validationFailed)}),
		newRoute("auth_refresh", refreshing(get), refreshing(post)),
		newRoute("register", operation{method: post, summary: "Create an account and sign in", call: register, done: doneRegistered, data: schemaSignedIn,
			parameters: []parameter{required("login", text(minLogin, maxLogin, "Letters of one script, digits and signs; no @.")),
				newPassword, confirm, newEmail, displayName()},
			userFields: everyField,
			codes:      codes(validationFailed, alreadyExists)}),
		newRoute("recover", operation{method: post, summary: "Ask for a mail with a recovery token", call: recoverPassword, done: doneRecoveryRequested,
			parameters: []parameter{optional("login", text(0, 0, "Given together with email, both must be the same account's.")), optional("email", text(0, 0, ""))},
			oneOf:      []string{"login", "email"},
			codes:      codes(validationFailed)}),
		newRoute("recover_confirm", operation{method: post, summary: "Set a new password by a mailed token", call: confirmRecovery, done: donePasswordChanged,
			parameters: []parameter{token, newPassword, confirm},
			codes:      codes(validationFailed, invalidToken)}),
		newRoute("profile",
			operation{method: get, summary: "Read the profile", call: profile, data: schemaProfileData, identified: true},
			operation{method: post, summary: "Change what is sent of the profile", call: updateProfile, done: doneProfileSaved, data: schemaProfileData, identified: true,
				parameters: []parameter{displayName()},
				userFields: changedField,
				codes:      codes(validationFailed)}),
		newRoute("password", operation{method: post, summary: "Change the password", call: changePassword, done: donePasswordChanged, data: schemaCredentials, identified: true,
			parameters: []parameter{required("old_password", secret(0, 0, "The account's password.")), newPassword, confirm},
			codes:      codes(validationFailed)}),
		newRoute("email", operation{method: post, summary: "Ask for another e-mail address", call: changeEmail, done: doneEmailRequested, identified: true,
			parameters: []parameter{ownPassword, newEmail},
			codes:      codes(validationFailed, alreadyExists)}),
		newRoute("email_confirm", operation{method: post, summary: "Confirm the new address by a mailed token", call: confirmEmail, done: doneEmailChanged,
			parameters: []parameter{token},
			codes:      codes(validationFailed, invalidToken, alreadyExists)}),
		newRoute("logout", operation{method: post, summary: "End this session, or all", call: logout, done: doneLoggedOut, identified: true,
			parameters: []parameter{optional("all", boolean("Every session of the account, this one too."))},
			codes:      codes(validationFailed)}),
		newRoute("sessions", operation{method: get, summary: "List the living sessions", call: sessions, data: schemaSessions, identified: true}),
		newRoute("sessions_revoke", operation{method: post, summary: "End one session of the account", call: revokeSession, done: doneSessionEnded, identified: true,
			parameters: []parameter{required("id", text(0, 0, "As listed by sessions/; an unknown one is the same success."))},
			codes:      codes(validationFailed)}),
		newRoute("fields", operation{method: get, summary: "List the user fields of a form", call: fields, data: schemaFields}),
		newRoute("openapi.json", operation{method: get, summary: "This document", call: describe, data: schemaDocument, bare: true}),
	}
}
