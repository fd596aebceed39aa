package personal

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// Code classifies an error for programs. Codes are stable: HTTP responses contain
// them, and they cross the process boundary.
type Code string

// The codes of the HTTP contract, section 2.
const (
	CodeMalformedRequest     Code = "malformed_request"
	CodeInvalidCredentials   Code = "invalid_credentials"
	CodeUnauthenticated      Code = "unauthenticated"
	CodeAccountDisabled      Code = "account_disabled"
	CodeEmailUnverified      Code = "email_unverified"
	CodeCodeRequired         Code = "code_required" // of the second factor
	CodeInvalidCode          Code = "invalid_code"
	CodeCodesBlocked         Code = "codes_blocked" // codes of the app; recovery codes are accepted
	CodeProfileIncomplete    Code = "profile_incomplete"
	CodeRefused              Code = "refused"      // by an [Admission]
	CodeCrossOrigin          Code = "cross_origin" // a browser sent the request for another site
	CodeNotFound             Code = "not_found"
	CodeMethodNotAllowed     Code = "method_not_allowed"
	CodeAlreadyExists        Code = "already_exists"
	CodeTwoFactorOn          Code = "two_factor_on"
	CodeTwoFactorOff         Code = "two_factor_off"
	CodeTooManyPasskeys      Code = "too_many_passkeys"
	CodeTooManyIdentities    Code = "too_many_identities"
	CodeLastWayIn            Code = "last_way_in" // it would leave an account to which no one can sign in
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
	FieldErrorInvalidFormat FieldErrorCode = "invalid_format" // pattern, e-mail, date, or the characters of a login
	FieldErrorInvalidType   FieldErrorCode = "invalid_type"   // cannot be read as a value of the type
	FieldErrorNotInList     FieldErrorCode = "not_in_list"
	FieldErrorOutOfRange    FieldErrorCode = "out_of_range"
	FieldErrorMismatch      FieldErrorCode = "mismatch"
	FieldErrorTaken         FieldErrorCode = "taken"
	FieldErrorTooCommon     FieldErrorCode = "too_common"
	FieldErrorUnknownField  FieldErrorCode = "unknown_field"
	FieldErrorReadOnly      FieldErrorCode = "read_only"
)

// FieldErrors maps the name of each invalid parameter to what is wrong with it.
//
// In a request it has the errors that the decoder found, such as a list instead of a
// text. The operation returns them together with its own, and only after the checks
// that come first, such as rate limits (429) and authentication (401).
type FieldErrors map[string]FieldErrorCode

// Add adds an error unless the parameter already has one: the first error, which is
// the most basic one, is reported. It allocates the map if necessary.
func (f *FieldErrors) Add(parameter string, code FieldErrorCode) {
	if *f == nil {
		*f = FieldErrors{}
	}
	if _, known := (*f)[parameter]; !known {
		(*f)[parameter] = code
	}
}

// Err returns a validation_failed error with these field errors, or nil if there are
// none.
func (f FieldErrors) Err() error {
	if len(f) == 0 {
		return nil
	}
	return &Error{Code: CodeValidationFailed, FieldErrors: f}
}

// Error is the one error type of the contract.
type Error struct {
	Code        Code
	FieldErrors FieldErrors          // nil unless parameters are invalid
	RetryAfter  time.Duration        // for too_many_attempts and unavailable; 0 for other codes
	RequestID   string               // of the failed call, if the error crossed a process boundary
	UserID      int64                // the user whose stolen session the call has ended, or failed to end; 0 for none; not shown to visitors
	Messages    LocalText            // for refused: what visitors read instead of the code's usual message; nil for that; it does not cross a process boundary
	FieldTexts  map[string]LocalText // of an [AdmissionError]: what visitors read about these parameters instead of the usual messages; they do not cross a process boundary
	Cause       error                // for the log; it does not cross a process boundary and is not shown to users
}

// NewError returns an error of the given code; cause may be nil.
func NewError(code Code, cause error) *Error {
	return &Error{Code: code, Cause: cause}
}

// Error describes the error for a log. It contains no values that a caller sent, but
// may contain names of parameters that they invented.
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
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
