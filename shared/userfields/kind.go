package userfields

import (
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
)

// kind is what all fields of one type have in common.
type kind struct {
	list    bool               // holds several items
	textual bool               // has max_length and pattern
	ranged  bool               // has min and max
	native  personal.InputKind // the JSON kind it is read from, beside text
	read    func(string) (any, personal.FieldErrorCode)
}

// kindOf returns the kind of a field's type. It depends on the type alone, but
// for the options of an enum.
func kindOf(f personal.Field) (_ kind, known bool) {
	switch f.Type {
	case personal.TypeText:
		return kind{textual: true, read: readText}, true
	case personal.TypeLongText:
		return kind{textual: true, read: readLongText}, true
	case personal.TypeInteger:
		return kind{ranged: true, native: personal.InputNumber, read: readInteger}, true
	case personal.TypeNumber:
		return kind{ranged: true, native: personal.InputNumber, read: readNumber}, true
	case personal.TypeBoolean:
		return kind{native: personal.InputBoolean, read: readBoolean}, true
	case personal.TypeDate:
		return kind{read: readDate}, true
	case personal.TypeDateTime:
		return kind{read: readDateTime}, true
	case personal.TypeEnum:
		return kind{read: optionReader(f.Options)}, true
	case personal.TypeFile:
		return kind{textual: true, read: readFile}, true
	case personal.TypeLink:
		return kind{textual: true, read: readLink}, true
	case personal.TypeLinkSet:
		return kind{textual: true, list: true, read: readLink}, true
	case personal.TypeTags:
		return kind{textual: true, list: true, read: readText}, true
	}
	return kind{}, false
}

func readText(s string) (any, personal.FieldErrorCode) {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return nil, personal.FieldErrorInvalidFormat
	}
	return s, ""
}

func readLongText(s string) (any, personal.FieldErrorCode) {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, isUnprintable) {
		return nil, personal.FieldErrorInvalidFormat
	}
	return s, ""
}

// isUnprintable tells the control characters that have no place even in a text
// of several lines.
func isUnprintable(r rune) bool {
	return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r)
}

func readBoolean(s string) (any, personal.FieldErrorCode) {
	switch s {
	case "true", "1", "on":
		return true, ""
	case "false", "0", "off":
		return false, ""
	}
	return nil, personal.FieldErrorInvalidType
}

func readDate(s string) (any, personal.FieldErrorCode) {
	if _, err := time.Parse(time.DateOnly, s); err != nil {
		return nil, personal.FieldErrorInvalidFormat
	}
	return s, ""
}

// rfc3339 is stricter than time.Parse, which also takes one-digit hours, commas
// and offsets of a day.
var rfc3339 = regexp.MustCompile(`\A[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])\z`)

// readDateTime reads RFC 3339 and keeps the moment in UTC, to the nanosecond.
func readDateTime(s string) (any, personal.FieldErrorCode) {
	if !rfc3339.MatchString(s) {
		return nil, personal.FieldErrorInvalidFormat
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(s))
	if err != nil {
		return nil, personal.FieldErrorInvalidFormat
	}
	// In UTC the year may fall out of the four digits that RFC 3339 has.
	utc, err := t.UTC().MarshalText()
	if err != nil {
		return nil, personal.FieldErrorInvalidFormat
	}
	return string(utc), ""
}

func optionReader(options []personal.Option) func(string) (any, personal.FieldErrorCode) {
	return func(s string) (any, personal.FieldErrorCode) {
		if !slices.ContainsFunc(options, func(o personal.Option) bool { return o.Value == s }) {
			return nil, personal.FieldErrorNotInList
		}
		return s, ""
	}
}

// readLink reads the id of an object of the CMS, which is opaque to us.
func readLink(s string) (any, personal.FieldErrorCode) {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, isGap) {
		return nil, personal.FieldErrorInvalidFormat
	}
	return s, ""
}

func isGap(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }
