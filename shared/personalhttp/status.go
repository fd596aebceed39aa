package personalhttp

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// statusOf returns the HTTP status of a code (HTTP contract, section 2), false
// for a code that the contract does not know.
func statusOf(code personal.Code) (int, bool) {
	switch code {
	case personal.CodeMalformedRequest:
		return http.StatusBadRequest, true
	case personal.CodeInvalidCredentials, personal.CodeUnauthenticated:
		return http.StatusUnauthorized, true
	case personal.CodeAccountDisabled:
		return http.StatusForbidden, true
	case personal.CodeNotFound:
		return http.StatusNotFound, true
	case personal.CodeMethodNotAllowed:
		return http.StatusMethodNotAllowed, true
	case personal.CodeAlreadyExists:
		return http.StatusConflict, true
	case personal.CodeTooLarge:
		return http.StatusRequestEntityTooLarge, true
	case personal.CodeUnsupportedMediaType:
		return http.StatusUnsupportedMediaType, true
	case personal.CodeValidationFailed, personal.CodeInvalidToken:
		return http.StatusUnprocessableEntity, true
	case personal.CodeTooManyAttempts:
		return http.StatusTooManyRequests, true
	case personal.CodeInternal:
		return http.StatusInternalServerError, true
	case personal.CodeUnavailable:
		return http.StatusServiceUnavailable, true
	}
	return 0, false
}

// classify returns the contract's error for any error. What is none of the
// contract's is internal, unless the call ran out of time.
func classify(err error) *personal.Error {
	var e *personal.Error
	known := errors.As(err, &e)
	if known && e == nil { // a nil pointer in an error: its methods would panic
		return personal.NewError(personal.CodeInternal, errors.New("a nil error was returned as one"))
	}
	if known {
		_, known = statusOf(e.Code)
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

// retryAfter returns the whole seconds for Retry-After, rounded up and at least
// 1, and 0 where the header has no place. An unavailable service that does not
// say when it will be back is tried again within 5 seconds, spread out so that
// its callers do not all come at once.
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
