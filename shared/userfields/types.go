package userfields

import (
	"math"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
)

// kind is the kind of a field, and how its values are read.
type kind struct {
	personal.FieldKind
	native personal.InputKind // the JSON kind of its values, besides text
	read   func(string) (any, personal.FieldErrorCode)
	check  func(string) personal.FieldErrorCode // of values that are texts: what read returns, without reading; else nil
}

// readers read the values of each type. Those of an enum depend on its options.
var readers = map[personal.FieldType]kind{
	personal.TypeText:     {check: checkText},
	personal.TypeLongText: {read: readLongText, check: checkLongText},
	personal.TypeInteger:  {native: personal.InputNumber, read: readInteger},
	personal.TypeNumber:   {native: personal.InputNumber, read: readNumber},
	personal.TypeBoolean:  {native: personal.InputBoolean, read: readBoolean},
	personal.TypeDate:     {check: checkDate},
	personal.TypeDateTime: {read: readDateTime, check: checkDateTime},
	personal.TypeEnum:     {},
	personal.TypeFile:     {check: checkFile},
	personal.TypeLink:     {check: checkObjectID},
	personal.TypeLinkSet:  {check: checkObjectID},
	personal.TypeTags:     {check: checkText},
}

// typeNames lists the types for an error.
func typeNames() string {
	var names []string
	for _, t := range personal.FieldTypes() {
		names = append(names, string(t))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// kindOf returns the kind of a field, or false if its type is unknown.
func kindOf(f personal.Field) (k kind, known bool) {
	k, known = readers[f.Type]
	k.FieldKind = f.Type.Kind()
	if f.Type == personal.TypeEnum {
		k.check = func(s string) personal.FieldErrorCode {
			if !slices.ContainsFunc(f.Options, func(o personal.Option) bool { return o.Value == s }) {
				return personal.FieldErrorNotInList
			}
			return ""
		}
	}
	if check := k.check; k.read == nil && check != nil { // the value is the text itself
		k.read = func(s string) (any, personal.FieldErrorCode) {
			if code := check(s); code != "" {
				return nil, code
			}
			return s, ""
		}
	}
	return k, known
}

// checkRunes checks for UTF-8 without the forbidden characters.
func checkRunes(s string, forbidden func(rune) bool) personal.FieldErrorCode {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, forbidden) {
		return personal.FieldErrorInvalidFormat
	}
	return ""
}

func checkText(s string) personal.FieldErrorCode { return checkRunes(s, unicode.IsControl) }

// lineBreaks makes LF of every line break.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// readLongText returns the text with LF as its line breaks: forms send CR LF, JSON what a program has.
func readLongText(s string) (any, personal.FieldErrorCode) {
	if code := checkLongText(s); code != "" {
		return nil, code
	}
	return lineBreaks.Replace(s), ""
}

// checkLongText checks a text of several lines.
func checkLongText(s string) personal.FieldErrorCode {
	return checkRunes(s, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r) })
}

// checkObjectID checks the id of an object of the CMS. Ids are opaque.
func checkObjectID(s string) personal.FieldErrorCode {
	return checkRunes(s, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) })
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

func checkDate(s string) personal.FieldErrorCode {
	if _, err := time.Parse(time.DateOnly, s); err != nil {
		return personal.FieldErrorInvalidFormat
	}
	return ""
}

// rfc3339 is stricter than time.Parse, which also admits one-digit hours, commas and
// offsets of a day.
var rfc3339 = regexp.MustCompile(`\A[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])\z`)

// readDateTime reads RFC 3339 and returns the time in UTC, to the nanosecond.
func readDateTime(s string) (any, personal.FieldErrorCode) {
	t, code := parseDateTime(s)
	if code != "" {
		return nil, code
	}
	return t.Format(time.RFC3339Nano), ""
}

func checkDateTime(s string) personal.FieldErrorCode {
	_, code := parseDateTime(s)
	return code
}

func parseDateTime(s string) (time.Time, personal.FieldErrorCode) {
	if !rfc3339.MatchString(s) {
		return time.Time{}, personal.FieldErrorInvalidFormat
	}
	t, err := time.Parse(time.RFC3339, strings.ToUpper(s))
	if t = t.UTC(); err != nil || t.Year() < 0 || t.Year() > 9999 { // RFC 3339 has years of four digits
		return time.Time{}, personal.FieldErrorInvalidFormat
	}
	return t, ""
}

// maxInteger is the largest integer that every JSON reader represents exactly: 2^53−1
// (RFC 8259, section 6).
const maxInteger = 1<<53 - 1

// numberLiteral is a JSON number in its parts (RFC 8259, section 6). A number that is
// sent as text has the same form.
var numberLiteral = regexp.MustCompile(`\A(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?\z`)

// readInteger reads an integral number in any notation: 42, 42.0, 4.2e1. It works on
// the digits: a float64 would round, and 1e999999999 as digits does not fit into
// memory.
func readInteger(s string) (any, personal.FieldErrorCode) {
	part := numberLiteral.FindStringSubmatch(s)
	if part == nil {
		return nil, personal.FieldErrorInvalidType
	}
	sign, whole, fraction := part[1], part[2], part[3]
	// On an error the exponent is 0 if there is none, or the nearest int32 if it is out
	// of range. That is good enough, since no literal has as many digits.
	exponent, _ := strconv.ParseInt(part[4], 10, 32)
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= int64(len(fraction))
	significant := strings.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(significant))

	switch {
	case significant == "":
		return int64(0), ""
	case exponent < 0:
		return nil, personal.FieldErrorInvalidType
	case int64(len(significant))+exponent > int64(len("9007199254740991")):
		return nil, personal.FieldErrorOutOfRange
	}
	n, err := strconv.ParseInt(sign+significant+strings.Repeat("0", int(exponent)), 10, 64)
	if err != nil || n < -maxInteger || n > maxInteger {
		return nil, personal.FieldErrorOutOfRange
	}
	return n, ""
}

// readNumber reads a finite float64.
func readNumber(s string) (any, personal.FieldErrorCode) {
	if !numberLiteral.MatchString(s) {
		return nil, personal.FieldErrorInvalidType
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(n, 0) {
		return nil, personal.FieldErrorOutOfRange
	}
	return n, ""
}

// checkFile checks for an http or https URL, a clean relative path, or a path on the site. It
// rejects anything else that a browser or a file system could follow (other schemes, "//host",
// "..", drives), because pages show the value as a link.
func checkFile(s string) personal.FieldErrorCode {
	if !isWebURL(s) && !isCleanPath(s) && !isSitePath(s) {
		return personal.FieldErrorInvalidFormat
	}
	return checkRunes(s, func(r rune) bool { return unicode.IsControl(r) || r == '\\' })
}

func isWebURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" &&
		u.User == nil && !strings.ContainsFunc(s, unicode.IsSpace)
}

// isCleanPath also checks the path as a browser reads it, where "%2e%2e" is "..".
func isCleanPath(s string) bool {
	if !staysBelow(s) {
		return false
	}
	decoded, err := url.PathUnescape(s)
	return err != nil || staysBelow(decoded)
}

// isSitePath reports whether s is an absolute path on the site that leads to the same file for
// every browser and server, whether or not it decodes the path: never to another host.
func isSitePath(s string) bool {
	decoded, err := url.PathUnescape(s)
	return err == nil && isPlainAbsolute(s) && isPlainAbsolute(decoded)
}

func isPlainAbsolute(p string) bool {
	segments := strings.ReplaceAll(strings.ToLower(p), "%2e", ".") // as a browser reads them
	return len(p) > 1 && p[0] == '/' && path.Clean(segments) == segments && utf8.ValidString(p) &&
		!strings.ContainsAny(p, `\?#`) && !strings.Contains(segments, "%2f") && !strings.Contains(segments, "%5c") &&
		!strings.ContainsFunc(p, unicode.IsControl)
}

func staysBelow(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return path.Clean(p) == p && p != "." && first != "" && first != ".." &&
		!strings.Contains(first, ":") && !strings.ContainsFunc(p, unicode.IsControl) && !strings.Contains(p, `\`)
}
