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

// Bounds of the identifiers (HTTP contract, section 3, register).
const (
	shortestLogin = 3   // characters
	longestLogin  = 64  // characters
	longestEmail  = 254 // bytes; RFC 5321, section 4.5.3.1.3
	longestLocal  = 64  // bytes; RFC 5321, section 4.5.3.1.1
)

// LoginKey returns the mapped form by which a login is unique and matched: PRECIS
// UsernameCaseMapped (RFC 8265). The fault is "" if the login may be registered.
func LoginKey(login string) (key string, fault personal.FieldErrorCode) {
	switch {
	case login == "":
		return "", personal.FieldErrorRequired
	case !utf8.ValidString(login):
		return "", personal.FieldErrorInvalidFormat
	case utf8.RuneCountInString(login) > 4*longestLogin: // mapping may shorten it, but not for ever
		return "", personal.FieldErrorTooLong
	}
	key, ok := mapLogin(login)
	switch {
	case !ok || mixesScripts(key) || strings.Contains(key, "@"): // of a full-width @, too
		return "", personal.FieldErrorInvalidFormat
	case utf8.RuneCountInString(key) < shortestLogin:
		return "", personal.FieldErrorTooShort
	case utf8.RuneCountInString(key) > longestLogin:
		return "", personal.FieldErrorTooLong
	}
	return key, ""
}

// mapLogin applies the profile until it changes nothing more: one pass does not
// always reach the form that a second one would (RFC 8264, section 7).
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

// mixesScripts reports whether Latin letters stand with Cyrillic or Greek ones,
// many of which look the same.
func mixesScripts(s string) bool {
	var latin, alike bool
	for _, r := range s {
		latin = latin || unicode.Is(unicode.Latin, r)
		alike = alike || unicode.In(r, unicode.Cyrillic, unicode.Greek)
	}
	return latin && alike
}

// localPart is a dot-atom (RFC 5322, section 3.2.3).
var localPart = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+/=?^_{|}~\x60-]+(\.[A-Za-z0-9!#$%&'*+/=?^_{|}~\x60-]+)*$`)

// ParseEmail reads one plain address. A domain in Unicode is kept as its A-label
// (RFC 5891); the key is the address in lower case.
func ParseEmail(s string) (email Email, fault personal.FieldErrorCode) {
	if s == "" {
		return Email{}, personal.FieldErrorRequired
	}
	if utf8.RuneCountInString(s) > longestEmail { // its ASCII form is never shorter
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
	if isASCII(domain) {
		shown = domain // as it was typed
	}
	if len(local) > longestLocal || len(local)+1+len(ascii) > longestEmail {
		return Email{}, personal.FieldErrorTooLong
	}
	return Email{Address: local + "@" + shown, Key: strings.ToLower(local) + "@" + strings.ToLower(ascii)}, ""
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0
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
	return ascii, strings.Trim(top, "0123456789") != "" // an IP address is no domain
}
