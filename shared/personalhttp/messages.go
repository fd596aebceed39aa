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
