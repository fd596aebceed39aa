package accounts

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/secure/precis"

	"github.com/cms-personal/personal/shared/personal"
)

// Limits of the identifiers (HTTP contract, section 3, register).
const (
	minLogin     = 3   // characters
	maxLogin     = 64  // characters
	maxEmail     = 254 // bytes; RFC 5321, section 4.5.3.1.3
	maxLocalPart = 64  // bytes; RFC 5321, section 4.5.3.1.1
)

// LoginKey returns the mapped form by which logins are unique and matched: PRECIS
// UsernameCaseMapped (RFC 8265). The code is "" if the login may be registered.
// Sign-in, recovery, import and export use the same mapping: a rule that only new
// accounts must follow belongs to newAccount.
func LoginKey(login string) (key string, code personal.FieldErrorCode) {
	switch {
	case login == "":
		return "", personal.FieldErrorRequired
	case !utf8.ValidString(login):
		return "", personal.FieldErrorInvalidFormat
	case utf8.RuneCountInString(login) > 4*maxLogin: // mapping may shorten it, but not that much
		return "", personal.FieldErrorTooLong
	}
	key, ok := mapLogin(login)
	switch {
	case !ok || mixesScripts(key) || strings.Contains(key, "@"): // the @ may have been full-width
		return "", personal.FieldErrorInvalidFormat
	case utf8.RuneCountInString(key) < minLogin:
		return "", personal.FieldErrorTooShort
	case utf8.RuneCountInString(key) > maxLogin:
		return "", personal.FieldErrorTooLong
	}
	return key, ""
}

// mapLogin applies the profile until nothing changes: one pass does not always reach
// the stable form (RFC 8264, section 7).
func mapLogin(login string) (string, bool) {
	const passes = 4
	for range passes {
		mapped, err := precis.UsernameCaseMapped.String(login)
		if err != nil {
			return "", false
		}
		if mapped == login {
			return mapped, true
		}
		login = mapped
	}
	return "", false
}

// mixesScripts reports whether a text has both Latin letters and Cyrillic or Greek
// ones, many of which look the same.
func mixesScripts(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Latin, r) }) &&
		strings.ContainsFunc(s, func(r rune) bool { return unicode.In(r, unicode.Cyrillic, unicode.Greek) })
}

// localPart is a dot-atom (RFC 5322, section 3.2.3).
var localPart = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+/=?^_{|}~\x60-]+(\.[A-Za-z0-9!#$%&'*+/=?^_{|}~\x60-]+)*$`)

// ParseEmail parses one plain address. It converts a Unicode domain to its A-label
// (RFC 5891); the key is the address in lower case. The code is "" if the address is
// valid.
func ParseEmail(s string) (email Email, code personal.FieldErrorCode) {
	if s == "" {
		return Email{}, personal.FieldErrorRequired
	}
	if utf8.RuneCountInString(s) > maxEmail { // its ASCII form is never shorter
		return Email{}, personal.FieldErrorTooLong
	}
	at := strings.LastIndexByte(s, '@')
	if at < 0 || !localPart.MatchString(s[:at]) {
		return Email{}, personal.FieldErrorInvalidFormat
	}
	local, domain := s[:at], s[at+1:]
	ascii, ok := asciiDomain(domain)
	if !ok {
		return Email{}, personal.FieldErrorInvalidFormat
	}
	shown := ascii
	if !strings.ContainsFunc(domain, func(r rune) bool { return r > unicode.MaxASCII }) {
		shown = domain // as it was typed
	}
	if len(local) > maxLocalPart || len(local)+1+len(ascii) > maxEmail {
		return Email{}, personal.FieldErrorTooLong
	}
	return Email{Address: local + "@" + shown, Key: strings.ToLower(local) + "@" + strings.ToLower(ascii)}, ""
}

// asciiDomain returns the A-label form of a domain that has at least two labels.
func asciiDomain(domain string) (string, bool) {
	ascii, err := idna.Lookup.ToASCII(domain)
	if err != nil || strings.HasSuffix(ascii, ".") {
		return "", false
	}
	labels := strings.Split(ascii, ".")
	if len(labels) < 2 || len(ascii) > 253 {
		return "", false
	}
	for _, label := range labels {
		if label == "" || len(label) > 63 {
			return "", false
		}
	}
	top := labels[len(labels)-1]
	return ascii, strings.Trim(top, "0123456789") != "" // an IP address is not a domain
}
