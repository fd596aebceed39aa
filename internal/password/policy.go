package password

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/secure/precis"

	"github.com/cms-personal/personal/shared/personal"
)

const (
	// maxBytes bounds a prepared password: HTTP contract, section 3, register.
	maxBytes = 1024
	// maxRawBytes bounds what is prepared at all. Preparation shortens at most to
	// a third (an ideographic space, three Hangul jamo), so that nothing above
	// this could come out within maxBytes.
	maxRawBytes = 4 * maxBytes
)

// Policy says which new passwords are good enough. There are no rules of
// composition: NIST SP 800-63B advises against them.
type Policy struct {
	MinLength int      // characters, after preparation
	Words     []string // of the site: with no more than 7 characters besides, they are no password
}

// Check prepares a new password and judges it. personalWords are what the
// password must not be equal to: the login, the e-mail address, and so on; empty
// ones are ignored. The fault is "" for a good one, else required, too_short,
// too_long, invalid_format (PRECIS allows no such text) or too_common.
func (p Policy) Check(password string, personalWords ...string) (prepared string, fault personal.FieldErrorCode) {
	if password == "" {
		return "", personal.FieldErrorRequired
	}
	if len(password) > maxRawBytes {
		return "", personal.FieldErrorTooLong
	}
	prepared, ok := prepare(password)
	if !ok {
		return "", personal.FieldErrorInvalidFormat
	}
	switch {
	case utf8.RuneCountInString(prepared) < p.MinLength:
		return "", personal.FieldErrorTooShort
	case len(prepared) > maxBytes:
		return "", personal.FieldErrorTooLong
	case isCommon(prepared) || isPersonal(prepared, personalWords) || isMainlyOf(prepared, p.Words):
		return "", personal.FieldErrorTooCommon
	}
	return prepared, ""
}

// Canonical prepares a password that was entered, with PRECIS OpaqueString
// (RFC 8265): the same password typed on another device has the same form. It
// returns false if no stored password can match. Its work is bounded.
func Canonical(password string) (string, bool) {
	if len(password) > maxRawBytes {
		return "", false
	}
	prepared, ok := prepare(password)
	if !ok || len(prepared) > maxBytes {
		return "", false
	}
	return prepared, true
}

// formsOf returns the forms of an entered password that a stored hash may have
// been made of: the prepared one, if there is one, which every hash of ours is of,
// and the very bytes, which other systems hashed.
func formsOf(entered, prepared string) (forms []string) {
	if prepared != "" {
		forms = append(forms, prepared)
	}
	if entered != prepared && len(entered) <= maxRawBytes {
		forms = append(forms, entered)
	}
	return forms
}

// prepare refuses bytes that are not UTF-8 itself: PRECIS would make U+FFFD of
// them, and different passwords equal.
func prepare(password string) (string, bool) {
	if !utf8.ValidString(password) {
		return "", false
	}
	prepared, err := precis.OpaqueString.String(password)
	return prepared, err == nil
}

func isPersonal(password string, words []string) bool {
	for _, word := range words {
		if strings.EqualFold(password, word) {
			return true
		}
	}
	return false
}
