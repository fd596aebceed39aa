package personal

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"
)

// The limits of what a Judge says about parameters.
const (
	maxAdmissionFields = 50
	maxAdmissionText   = 500 // characters, in each language
)

// AdmissionError is the decision of a Judge that refuses parameters in its own words: the caller
// gets 422 validation_failed with exactly these field errors.
type AdmissionError struct {
	// FieldErrors are by parameter: one of the operation, a user field, or a transient parameter. They
	// are 1 to 50, and the names are in lower snake case, with 64 characters at most. A decision
	// with anything else is 503 unavailable, and the log says what is wrong.
	FieldErrors map[string]AdmissionFieldError
}

// AdmissionFieldError says what is wrong with one parameter.
type AdmissionFieldError struct {
	// Code is one of the contract's, but not taken, which is that of a 409.
	Code FieldErrorCode

	// Text is what users read, by language, of 500 characters without line breaks at most. It is
	// shown in the caller's language, else in the site's default language, else in any. Without
	// texts it is the standard message of the code.
	Text LocalText
}

// Error describes the decision by its size: names and texts may quote what was typed.
func (e *AdmissionError) Error() string {
	return fmt.Sprintf("the admission refuses %d parameters", len(e.FieldErrors))
}

var parameterName = regexp.MustCompile(`\A[a-z][a-z0-9]*(_[a-z0-9]+)*\z`)

// decision returns what the caller gets, or an error, without the Judge's texts, if that is invalid.
func (e *AdmissionError) decision() (*Error, error) {
	if n := len(e.FieldErrors); n == 0 || n > maxAdmissionFields {
		return nil, fmt.Errorf("the Judge's AdmissionError has %d field errors, want 1 to %d", n, maxAdmissionFields)
	}
	decision := &Error{Code: CodeValidationFailed, FieldErrors: FieldErrors{}, FieldTexts: map[string]LocalText{}}
	for _, name := range slices.Sorted(maps.Keys(e.FieldErrors)) {
		if len(name) > MaxUnknownName || !parameterName.MatchString(name) {
			return nil, fmt.Errorf("the Judge's AdmissionError names a parameter that is not in lower snake case, or longer than %d characters", MaxUnknownName)
		}
		field := e.FieldErrors[name]
		if !isJudgedCode(field.Code) {
			return nil, fmt.Errorf("the Judge's AdmissionError has a code for parameter %s that no 422 of the contract has", name)
		}
		for _, text := range field.Text {
			if !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxAdmissionText || slices.ContainsFunc([]rune(text), unicode.IsControl) {
				return nil, fmt.Errorf("the Judge's AdmissionError has a text for parameter %s that is not one line of at most %d characters", name, maxAdmissionText)
			}
		}
		decision.FieldErrors[name] = field.Code
		if len(field.Text) > 0 {
			decision.FieldTexts[name] = maps.Clone(field.Text)
		}
	}
	return decision, nil
}

// isJudgedCode reports whether a 422 may have the code: clients have a list of these.
func isJudgedCode(code FieldErrorCode) bool {
	return slices.Contains([]FieldErrorCode{
		FieldErrorRequired, FieldErrorTooShort, FieldErrorTooLong, FieldErrorInvalidFormat, FieldErrorInvalidType, FieldErrorNotInList,
		FieldErrorOutOfRange, FieldErrorMismatch, FieldErrorTooCommon, FieldErrorUnknownField, FieldErrorReadOnly,
	}, code)
}

// decisionOf returns what the caller gets for a Judge's error.
func decisionOf(err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	switch known := errors.As(err, &e); {
	case known && e == nil: // its methods would panic
	case known && e.Code == CodeRefused:
		return Refuse(e.Messages)
	case known && e.Code == CodeValidationFailed && len(e.FieldErrors) > 0:
		return maps.Clone(e.FieldErrors).Err()
	default:
		if own, ok := errors.AsType[*AdmissionError](err); ok && own != nil {
			decision, invalid := own.decision()
			if invalid != nil {
				return undecided(invalid)
			}
			return decision
		}
	}
	return undecided(fmt.Errorf("the Judge returned no decision but an error of type %s", typesOf(err)))
}
