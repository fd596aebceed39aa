package personalhttp

import "net/http"

// newRoutes returns the operations of the HTTP contract, section 3, in its order.
// openapi.yaml describes them.
func newRoutes() []*route {
	const (
		get  = http.MethodGet
		post = http.MethodPost
	)
	return []*route{
		newRoute("auth", operation{method: post, call: authorize, done: doneSignedIn}),
		newRoute("auth_refresh", operation{method: get, call: refresh}, operation{method: post, call: refresh}),
		newRoute("register", operation{method: post, call: register, done: doneRegistered}),
		newRoute("recover", operation{method: post, call: recoverPassword, done: doneRecoveryRequested}),
		newRoute("recover_confirm", operation{method: post, call: confirmRecovery, done: donePasswordChanged}),
		newRoute("profile", operation{method: get, call: profile}, operation{method: post, call: updateProfile, done: doneProfileSaved}),
		newRoute("password", operation{method: post, call: changePassword, done: donePasswordChanged}),
		newRoute("email", operation{method: post, call: changeEmail, done: doneEmailRequested}),
		newRoute("email_confirm", operation{method: post, call: confirmEmail, done: doneEmailChanged}),
		newRoute("logout", operation{method: post, call: logout, done: doneLoggedOut}),
		newRoute("sessions", operation{method: get, call: sessions}),
		newRoute("sessions_revoke", operation{method: post, call: revokeSession, done: doneSessionEnded}),
		newRoute("fields", operation{method: get, call: fields}),
		newRoute("openapi.json", operation{method: get, call: describe, bare: true}),
	}
}
