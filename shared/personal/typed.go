package personal

import (
	"reflect"
	"strings"
	"unicode"
)

// typedFields are the fields of requests that people type or paste.
var typedFields = []string{"Login", "Email", "Token", "Code"}

// AsTyped returns a request with its logins, e-mails, tokens and codes as their users mean them:
// without the white space around them (Unicode White_Space), and with ASCII digits in codes in
// place of those of other scripts. What is empty then was not sent. Services call it first, so
// that limits, lookups and what is stored see the same text.
func AsTyped[R any](r R) R {
	v := reflect.ValueOf(&r).Elem()
	for _, name := range typedFields {
		f := v.FieldByName(name)
		if !f.IsValid() || f.Kind() != reflect.String {
			continue
		}
		text := strings.TrimSpace(f.String()) // exactly Unicode White_Space
		if name == "Code" {
			text = strings.Map(asciiDigit, text)
		}
		f.SetString(text)
	}
	return r
}

// asciiDigit returns the ASCII digit of a decimal digit of any script (general category Nd), and
// other characters as they are. Digits of a script follow each other, from zero to nine (Unicode
// Standard, section 4.6).
func asciiDigit(c rune) rune {
	if c <= unicode.MaxASCII || !unicode.Is(unicode.Nd, c) {
		return c
	}
	zero := c
	for zero > 0 && unicode.Is(unicode.Nd, zero-1) {
		zero--
	}
	return '0' + (c-zero)%10
}
