package personal

import (
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"unicode"
)

// typedFields are the fields of requests that people type or paste.
var typedFields = map[string]func(string) string{"Login": Typed, "Email": Typed, "Token": typedToken, "Code": typedCode, "Attempt": Typed, "MailedCode": typedCode}

// AsTyped returns a request with its logins, e-mails, tokens, attempts and codes as their users mean them:
// see [Typed]. Codes have ASCII letters and digits in place of full-width ones and of the digits of
// other scripts. Text around a token, such as its link, is dropped. A value that is then empty counts as
// not sent. Services call it first, so that limits, lookups and what is stored see the same text.
func AsTyped[R any](r R) R {
	v := reflect.ValueOf(&r).Elem()
	for name, typed := range typedFields {
		if f := v.FieldByName(name); f.IsValid() && f.Kind() == reflect.String {
			f.SetString(typed(f.String()))
		}
	}
	return r
}

// Typed returns a login or an e-mail without the white space around it (Unicode White_Space), and
// without invisible characters (general category Cf), which come with what is copied from pages and
// documents. Joiners, which belong to words of some scripts, stay within a text. An e-mail, which a
// full-width @ makes, too, has ASCII characters in place of full-width ones.
func Typed(text string) string {
	text = strings.Map(visible, text)
	if strings.ContainsAny(text, "@\uff20\ufe6b") {
		text = strings.Map(halfWidth, text)
	}
	return strings.TrimFunc(text, func(c rune) bool { return unicode.IsSpace(c) || unicode.Is(unicode.Join_Control, c) })
}

// visible returns -1 for an invisible character.
func visible(c rune) rune {
	if unicode.Is(unicode.Cf, c) && !unicode.In(c, unicode.Join_Control, unicode.Prepended_Concatenation_Mark) {
		return -1
	}
	return c
}

// halfWidth returns the ASCII character of a full-width one, and other characters as they are.
func halfWidth(c rune) rune {
	switch {
	case '\uff01' <= c && c <= '\uff5e':
		return c - '\uff01' + '!'
	case c == '\ufe6b':
		return '@'
	}
	return c
}

// tokenTexts find a token, which is 43 characters of base64url, in its link and among other characters.
var tokenTexts = []*regexp.Regexp{
	regexp.MustCompile(`token=([A-Za-z0-9_-]{43})(?:[^A-Za-z0-9_-]|$)`),
	regexp.MustCompile(`(?:^|[^A-Za-z0-9_-])([A-Za-z0-9_-]{43})(?:[^A-Za-z0-9_-]|$)`),
}

// typedToken returns the token in a text: mail programs take signs behind a link for a part of it,
// and people paste the link.
func typedToken(text string) string {
	text = Typed(text)
	plain := text
	for range 2 { // some gateways encode the link, and encode it again
		if decoded, err := url.PathUnescape(plain); err == nil {
			plain = decoded
		}
	}
	for _, form := range tokenTexts {
		if found := form.FindStringSubmatch(plain); found != nil {
			return found[1]
		}
	}
	return text
}

func typedCode(text string) string {
	return strings.Map(func(c rune) rune { return asciiDigit(halfWidth(c)) }, Typed(text))
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
