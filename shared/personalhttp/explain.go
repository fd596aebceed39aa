package personalhttp

import (
	"net/http"

	"github.com/cms-personal/personal/shared/personal"
)

// FieldError says what is wrong with one parameter. Its JSON form is that of FIELDS in
// the HTTP contract, section 2.
type FieldError struct {
	Code    personal.FieldErrorCode `json:"CODE"`
	Message string                  `json:"MESSAGE"` // in the caller's language
}

// Explanation is what the API answers to an error, for hosts whose own pages
// call the service.
type Explanation struct {
	Status     int // HTTP's
	Code       personal.Code
	Message    string                // in the caller's language
	Fields     map[string]FieldError // by parameter; nil if none is at fault
	RetryAfter int64                 // seconds; 0 where trying again would not help
}

// Explain tells what the API would answer to an error of the service, in the
// language of the request's [personal.Call]. As the API does, it logs the cause
// of what is nobody's fault but ours, so explain each error once.
func (h *Handler) Explain(r *http.Request, err error) Explanation {
	e := classify(err)
	h.logFailure(r, e)
	t := h.texts(r)
	status, _ := statusOf(e.Code)
	x := Explanation{Status: status, Code: e.Code, Message: t.codes[e.Code], RetryAfter: retryAfter(e)}
	if len(e.FieldErrors) > 0 {
		x.Fields = make(map[string]FieldError, len(e.FieldErrors))
	}
	for name, code := range e.FieldErrors {
		x.Fields[name] = FieldError{Code: code, Message: t.ofFault(code)}
	}
	return x
}

// Confirm returns what the API says when a POST to an operation has succeeded,
// "profile" say, in the language of the request's call; empty if it says
// nothing or there is no such operation.
func (h *Handler) Confirm(r *http.Request, operation string) string {
	route := h.named(operation)
	if route == nil {
		return ""
	}
	op, _ := route.operation(http.MethodPost)
	return h.texts(r).done[op.done]
}

// Labels returns a function that chooses a label's text for the caller, as the
// API does: in the best of his languages that it has, else in the host's
// default, else in any; the fallback if it has no text.
func (h *Handler) Labels(r *http.Request) func(label personal.LocalText, fallback string) string {
	return h.locales.labels(r).choose
}

// texts returns the messages in the language of the request's call.
func (h *Handler) texts(r *http.Request) texts {
	return h.locales.textsIn(personal.CallFrom(r.Context()).Locale)
}
