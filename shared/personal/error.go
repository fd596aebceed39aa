package personal

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// Code classifies an error for programs. Codes are stable: they stand in HTTP
// answers and cross the process boundary.
type Code string

// The codes of the HTTP contract, section 2.
const (
	CodeMalformedRequest     Code = "malformed_request"
	CodeInvalidCredentials   Code = "invalid_credentials"
	CodeUnauthenticated      Code = "unauthenticated"
	CodeAccountDisabled      Code = "account_disabled"
	CodeNotFound             Code = "not_found"
	CodeMethodNotAllowed     Code = "method_not_allowed"
	CodeAlreadyExists        Code = "already_exists"
	CodeTooLarge             Code = "too_large"
	CodeUnsupportedMediaType Code = "unsupported_media_type"
	CodeValidationFailed     Code = "validation_failed"
	CodeInvalidToken         Code = "invalid_token"
	CodeTooManyAttempts      Code = "too_many_attempts"
	CodeInternal             Code = "internal"
	CodeUnavailable          Code = "unavailable"
)

// FieldErrorCode says what is wrong with one parameter.
type FieldErrorCode string

// The codes of FIELDS in the HTTP contract, section 2.
const (
	FieldErrorRequired      FieldErrorCode = "required"
	FieldErrorTooShort      FieldErrorCode = "too_short"
	FieldErrorTooLong       FieldErrorCode = "too_long"
	FieldErrorInvalidFormat FieldErrorCode = "invalid_format" // pattern, e-mail, date, a login's characters
	FieldErrorInvalidType   FieldErrorCode = "invalid_type"   // not readable as the type
	FieldErrorNotInList     FieldErrorCode = "not_in_list"
	FieldErrorOutOfRange    FieldErrorCode = "out_of_range"
	FieldErrorMismatch      FieldErrorCode = "mismatch"
	FieldErrorTaken         FieldErrorCode = "taken"
	FieldErrorTooCommon     FieldErrorCode = "too_common"
	FieldErrorUnknownField  FieldErrorCode = "unknown_field"
	FieldErrorReadOnly      FieldErrorCode = "read_only"
)

// FieldErrors names the parameters at fault: parameter name -> what is wrong.
//
// In a request it holds what its decoder could not read (a list where one text
// is meant, say), so that the operation reports it along with its own findings
// and in its proper order: behind a 429 or a 401, never before.
type FieldErrors map[string]FieldErrorCode

// Add notes a fault unless the parameter has one already: the first found, and
// so the most basic, is the one reported. It allocates the map when needed.
func (f *FieldErrors) Add(parameter string, code FieldErrorCode) {
	if *f == nil {
		*f = FieldErrors{}
	}
	if _, known := (*f)[parameter]; !known {
		(*f)[parameter] = code
	}
}

// Err returns validation_failed with these faults, or nil if there are none.
func (f FieldErrors) Err() error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Code: CodeValidationFailed, FieldErrors: f}
}

// Error is the one error type of the contract.
type Error struct {
	Code        Code
	FieldErrors FieldErrors   // only where parameters are at fault
	RetryAfter  time.Duration // only with too_many_attempts and unavailable; 0 elsewhere
	RequestID   string        // of the call that failed, where it crossed a process boundary
	Cause       error         // for the log of the process where it arose; never crosses, never shown
}

// NewError returns an error of the given code; cause may be nil.
func NewError(code Code, cause error) *Error {
	return &Error{Code: code, Cause: cause}
}

// Error describes the error for a log. It holds no value that a user sent, but
// may hold the names of parameters that he made up.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	for i, name := range slices.Sorted(maps.Keys(e.FieldErrors)) {
		if i == 0 {
			b.WriteString(":")
		}
		b.WriteString(" " + name + "=" + string(e.FieldErrors[name]))
	}
	if e.Cause != nil {
		b.WriteString(": " + e.Cause.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// CodeOf returns the code of the first [*Error] in err's chain, "" for nil, and
// [CodeInternal] for any other error.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
