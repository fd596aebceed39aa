package personalhttp

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// statuses are the HTTP statuses of the contract's codes (HTTP contract, section 2).
var statuses = map[personal.Code]int{
	personal.CodeMalformedRequest:     http.StatusBadRequest,
	personal.CodeInvalidCredentials:   http.StatusUnauthorized,
	personal.CodeUnauthenticated:      http.StatusUnauthorized,
	personal.CodeAccountDisabled:      http.StatusForbidden,
	personal.CodeEmailUnverified:      http.StatusForbidden,
	personal.CodeCodeRequired:         http.StatusUnauthorized,
	personal.CodeInvalidCode:          http.StatusUnauthorized,
	personal.CodeCodesBlocked:         http.StatusUnauthorized,
	personal.CodeProfileIncomplete:    http.StatusForbidden,
	personal.CodeRefused:              http.StatusForbidden,
	personal.CodeCrossOrigin:          http.StatusForbidden,
	personal.CodeNotFound:             http.StatusNotFound,
	personal.CodeMethodNotAllowed:     http.StatusMethodNotAllowed,
	personal.CodeAlreadyExists:        http.StatusConflict,
	personal.CodeTwoFactorOn:          http.StatusConflict,
	personal.CodeTwoFactorOff:         http.StatusConflict,
	personal.CodeTooManyPasskeys:      http.StatusConflict,
	personal.CodeTooManyIdentities:    http.StatusConflict,
	personal.CodeLastWayIn:            http.StatusConflict,
	personal.CodeTooLarge:             http.StatusRequestEntityTooLarge,
	personal.CodeUnsupportedMediaType: http.StatusUnsupportedMediaType,
	personal.CodeValidationFailed:     http.StatusUnprocessableEntity,
	personal.CodeInvalidToken:         http.StatusUnprocessableEntity,
	personal.CodeTooManyAttempts:      http.StatusTooManyRequests,
	personal.CodeInternal:             http.StatusInternalServerError,
	personal.CodeUnavailable:          http.StatusServiceUnavailable,
}

// FieldError says what is wrong with one parameter. Its JSON form is that of FIELDS in
// the HTTP contract, section 2.
type FieldError struct {
	Code    personal.FieldErrorCode `json:"CODE"`
	Message string                  `json:"MESSAGE"` // in the caller's language
}

// ErrorResponse is the API's response to an error, for hosts whose own pages call the
// service.
type ErrorResponse struct {
	Status      int // HTTP status
	Code        personal.Code
	Message     string                // in the caller's language
	FieldErrors map[string]FieldError // by parameter; nil if no parameter is invalid
	RetryAfter  int64                 // seconds; 0 if a retry does not help
}

// ErrorResponse returns the API's response to an error of the service, in the language of
// the request's [personal.Call]; the site's own message of a refusal, its texts of a [personal.AdmissionError], and pattern
// messages of user fields, are chosen like [Handler.Labels]. Like the API it logs the cause of internal and unavailable errors, so
// explain each error only once.
func (h *Handler) ErrorResponse(r *http.Request, err error) ErrorResponse {
	e := classify(err)
	h.logFailure(r, e)
	t := h.texts(r)
	message := cmp.Or(t["code."+h.operation(r)+"."+string(e.Code)], t["code."+string(e.Code)])
	x := ErrorResponse{Status: statuses[e.Code], Code: e.Code, Message: message, RetryAfter: retryAfter(e)}
	if e.Code == personal.CodeRefused {
		x.Message = h.locales.labels(r).choose(e.Messages, x.Message)
	}
	if len(e.FieldErrors) > 0 {
		x.FieldErrors = h.FieldErrors(r, e.FieldErrors, h.userFields(r))
		labels := h.locales.labels(r)
		for name, text := range e.FieldTexts {
			if field, ok := x.FieldErrors[name]; ok {
				field.Message = labels.choose(text, field.Message)
				x.FieldErrors[name] = field
			}
		}
	}
	return x
}

// FieldErrors returns what [Handler.ErrorResponse] says about parameters, under other user fields
// than those in force: for a page that changes the schema.
func (h *Handler) FieldErrors(r *http.Request, invalid personal.FieldErrors, fields []personal.Field) map[string]FieldError {
	t, l := h.texts(r), h.locales.labels(r)
	operation := h.operation(r)
	explained := make(map[string]FieldError, len(invalid))
	for name, code := range invalid {
		explained[name] = FieldError{Code: code, Message: t.fieldError(operation, name, code, fields, l)}
	}
	return explained
}

// operation returns the path of the operation that a request calls; "" of a page.
func (h *Handler) operation(r *http.Request) string {
	if route := h.findRoute(r.URL); route != nil {
		return route.name
	}
	return ""
}

// userFields returns the fields in force, or none if the host does not tell: messages then
// follow the codes alone.
func (h *Handler) userFields(r *http.Request) []personal.Field {
	schema, err := h.options.UserFields(r.Context())
	if err != nil {
		return nil
	}
	return schema.Fields
}

// classify returns err as an error of the contract. Any other error is internal, or
// unavailable if the call ran out of time.
func classify(err error) *personal.Error {
	var e *personal.Error
	known := errors.As(err, &e)
	if known && e == nil { // a nil pointer in an error: its methods would panic
		return personal.NewError(personal.CodeInternal, errors.New("the service returned a nil *personal.Error"))
	}
	if known {
		_, known = statuses[e.Code]
	}
	late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case late && (!known || e.Code == personal.CodeInternal):
		return personal.NewError(personal.CodeUnavailable, err)
	case !known:
		return personal.NewError(personal.CodeInternal, err)
	}
	return e
}

// retryAfter returns the seconds for Retry-After, rounded up and at least 1, or 0 for
// codes without the header. Without a RetryAfter an unavailable service is retried
// after 1 to 5 seconds, at random, so that its callers do not retry at the same time.
func retryAfter(e *personal.Error) int64 {
	switch {
	case e.Code != personal.CodeUnavailable && e.Code != personal.CodeTooManyAttempts:
		return 0
	case e.Code == personal.CodeUnavailable && e.RetryAfter <= 0:
		return 1 + rand.Int64N(5)
	}
	seconds := int64(e.RetryAfter / time.Second)
	if e.RetryAfter%time.Second > 0 {
		seconds++
	}
	return max(1, seconds)
}
