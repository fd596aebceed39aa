package password

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/secure/precis"

	"github.com/cms-personal/personal/shared/personal"
)

const (
	// MaxBytes is the maximum length of a prepared password: HTTP contract, section 3,
	// register.
	MaxBytes = 1024
	// maxRawBytes is the maximum length of a password before preparation. Preparation
	// shortens a text to a third at most (an ideographic space, three Hangul jamo), so
	// no longer text can fit into MaxBytes.
	maxRawBytes = 4 * MaxBytes
)

// Policy decides which new passwords are acceptable. It has no composition rules:
// NIST SP 800-63B advises against them.
type Policy struct {
	MinLength int      // characters, after preparation
	SiteWords []string // of the site; a password that holds one must have 8 more characters
}

// Check checks a new password and returns its prepared form. The password must
// differ from identifiers: the login, the e-mail address, and so on; empty ones are
// ignored. The code is "" for an acceptable password, else required, too_short,
// too_long, invalid_format (PRECIS does not allow the text) or too_common.
func (p Policy) Check(password string, identifiers ...string) (prepared string, code personal.FieldErrorCode) {
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
	isIdentifier := func(id string) bool { return strings.EqualFold(prepared, id) }
	switch {
	case utf8.RuneCountInString(prepared) < p.MinLength:
		return "", personal.FieldErrorTooShort
	case len(prepared) > MaxBytes:
		return "", personal.FieldErrorTooLong
	case isCommon(prepared) || slices.ContainsFunc(identifiers, isIdentifier) || isMainlyOf(prepared, p.SiteWords):
		return "", personal.FieldErrorTooCommon
	}
	return prepared, ""
}

// Canonical returns the prepared form of a password that a user entered: that of
// PRECIS OpaqueString (RFC 8265), so that the same password typed on another device
// is the same. It returns false if no stored password can match. Its work is bounded.
func Canonical(password string) (string, bool) {
	if len(password) > maxRawBytes {
		return "", false
	}
	prepared, ok := prepare(password)
	if !ok || len(prepared) > MaxBytes {
		return "", false
	}
	return prepared, true
}

// prepare refuses invalid UTF-8 itself: PRECIS would replace it by U+FFFD and make
// different passwords equal.
func prepare(password string) (string, bool) {
	if !utf8.ValidString(password) {
		return "", false
	}
	prepared, err := precis.OpaqueString.String(password)
	return prepared, err == nil
}

// commonText holds common passwords in lower case, sorted by bytes, one a line.
// common/LICENSE.txt names its source and licence.
//
//go:embed common/passwords.txt
var commonText string

var commonList = sync.OnceValue(func() []string {
	return strings.Split(strings.TrimSuffix(commonText, "\n"), "\n")
})

// isCommon reports whether a password is a common one, in any case.
func isCommon(password string) bool {
	_, found := slices.BinarySearch(commonList(), strings.ToLower(password))
	return found
}

const (
	maxWords      = 100
	minWordLength = 3  // characters; shorter words are part of too many others
	maxWordLength = 64 // characters
	// minBesideWords is how many characters a password must have besides the site's
	// words: the minimum length that any site can set.
	minBesideWords = 8
)

// ValidateWords returns an error that names the first word that is invalid as one of
// the site's words, see [Policy.SiteWords]. There may be 100 words, of 3 to 64 characters
// that passwords may have.
func ValidateWords(words []string) error {
	if len(words) > maxWords {
		return fmt.Errorf("words: got %d, the maximum is %d", len(words), maxWords)
	}
	for _, word := range words {
		folded, ok := foldedWord(word)
		if n := utf8.RuneCountInString(folded); !ok || n < minWordLength || n > maxWordLength {
			return fmt.Errorf("words: %q must have %d to %d characters, none of them a control character", word, minWordLength, maxWordLength)
		}
	}
	return nil
}

// isMainlyOf reports whether a prepared password holds some of the words and too
// little besides, in any case.
func isMainlyOf(password string, words []string) bool {
	var folded, pairs []string
	for _, word := range words {
		if f, ok := foldedWord(word); ok {
			folded = append(folded, f)
		}
	}
	// The longest is replaced first, so that a word within it does not break it up.
	slices.SortFunc(folded, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, word := range folded {
		pairs = append(pairs, word, "")
	}
	whole := cases.Fold().String(password)
	beside := strings.NewReplacer(pairs...).Replace(whole)
	return beside != whole && utf8.RuneCountInString(beside) < minBesideWords
}

// foldedWord prepares a word like a password and removes differences of case.
func foldedWord(word string) (string, bool) {
	prepared, ok := prepare(word)
	return cases.Fold().String(prepared), ok
}
