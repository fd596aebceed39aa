package accounts

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/shared/personal"
)

func TestLoginKey_Forms(t *testing.T) {
	for name, test := range map[string]struct {
		login, key string
		code       personal.FieldErrorCode
	}{
		"plain":                        {login: "ada", key: "ada"},
		"upper case":                   {login: "Ada.Lovelace", key: "ada.lovelace"},
		"full width":                   {login: "ａｄａ", key: "ada"},
		"long before it is mapped":     {login: strings.Repeat("e\u0301", 40), key: strings.Repeat("\u00e9", 40)},
		"decomposed":                   {login: "Zoe\u0308", key: "zo\u00eb"},
		"Cyrillic":                     {login: "Иван", key: "иван"},
		"digits":                       {login: "12345", key: "12345"},
		"of maximum length":            {login: strings.Repeat("я", 64), key: strings.Repeat("я", 64)},
		"empty":                        {code: personal.FieldErrorRequired},
		"too short":                    {login: "ab", code: personal.FieldErrorTooShort},
		"too long":                     {login: strings.Repeat("a", 65), code: personal.FieldErrorTooLong},
		"an e-mail":                    {login: "ada@example.com", code: personal.FieldErrorInvalidFormat},
		"an e-mail, full-width @":      {login: "ada\uFF20example.com", code: personal.FieldErrorInvalidFormat},
		"an e-mail, small @":           {login: "ada\uFE6Bexample.com", code: personal.FieldErrorInvalidFormat},
		"with a space":                 {login: "ada lovelace", code: personal.FieldErrorInvalidFormat},
		"with a NUL":                   {login: "ada\x00", code: personal.FieldErrorInvalidFormat},
		"with a line break":            {login: "ada\nroot", code: personal.FieldErrorInvalidFormat},
		"invalid UTF-8":                {login: "ada\xff", code: personal.FieldErrorInvalidFormat},
		"Latin with a Cyrillic letter": {login: "\u0430dmin", code: personal.FieldErrorInvalidFormat},
		"Latin with a Greek letter":    {login: "\u03bfmega-x", code: personal.FieldErrorInvalidFormat},
		"a zero-width character":       {login: "ad\u200ba", code: personal.FieldErrorInvalidFormat},
		"a right-to-left override":     {login: "ada\u202e", code: personal.FieldErrorInvalidFormat},
	} {
		t.Run(name, func(t *testing.T) {
			key, code := LoginKey(test.login)
			if key != test.key || code != test.code {
				t.Fatalf("got %q, code %q; want %q, code %q", key, code, test.key, test.code)
			}
		})
	}
}

func TestParseEmail_Forms(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want Email
		code personal.FieldErrorCode
	}{
		"plain":                {text: "ada@example.com", want: Email{"ada@example.com", "ada@example.com"}},
		"upper case":           {text: "Ada@Example.COM", want: Email{"Ada@Example.COM", "ada@example.com"}},
		"with a tag":           {text: "ada+x@example.com", want: Email{"ada+x@example.com", "ada+x@example.com"}},
		"a domain in Unicode":  {text: "ada@пример.рф", want: Email{"ada@xn--e1afmkfd.xn--p1ai", "ada@xn--e1afmkfd.xn--p1ai"}},
		"a Kelvin sign":        {text: "a@ban\u212a.com", want: Email{"a@bank.com", "a@bank.com"}},
		"empty":                {code: personal.FieldErrorRequired},
		"no domain":            {text: "ada", code: personal.FieldErrorInvalidFormat},
		"no local part":        {text: "@example.com", code: personal.FieldErrorInvalidFormat},
		"one label":            {text: "ada@localhost", code: personal.FieldErrorInvalidFormat},
		"an address literal":   {text: "ada@[127.0.0.1]", code: personal.FieldErrorInvalidFormat},
		"an IP address":        {text: "ada@127.0.0.1", code: personal.FieldErrorInvalidFormat},
		"a display name":       {text: "Ada <ada@example.com>", code: personal.FieldErrorInvalidFormat},
		"a header":             {text: "ada@example.com\r\nBcc: x@example.com", code: personal.FieldErrorInvalidFormat},
		"two addresses":        {text: "a@example.com,b@example.com", code: personal.FieldErrorInvalidFormat},
		"quoted":               {text: `"a b"@example.com`, code: personal.FieldErrorInvalidFormat},
		"non-ASCII local part": {text: "ада@example.com", code: personal.FieldErrorInvalidFormat},
		"two dots":             {text: "a..b@example.com", code: personal.FieldErrorInvalidFormat},
		"a dot before the @":   {text: "ada.@example.com", code: personal.FieldErrorInvalidFormat},
		"a dot at the end":     {text: "ada@example.com.", code: personal.FieldErrorInvalidFormat},
		"long local part":      {text: strings.Repeat("a", 65) + "@example.com", code: personal.FieldErrorTooLong},
		"long":                 {text: "a@" + strings.Repeat(strings.Repeat("b", 60)+".", 4) + "example.com", code: personal.FieldErrorTooLong},
		"of great length":      {text: strings.Repeat("a", 5000) + "@example.com", code: personal.FieldErrorTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			got, code := ParseEmail(test.text)
			if got != test.want || code != test.code {
				t.Fatalf("got %+v, code %q; want %+v, code %q", got, code, test.want, test.code)
			}
		})
	}
}

// A mapped form maps to itself: two accounts cannot differ by how often their logins
// were normalised.
func TestLoginKey_IsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 70, 300).Draw(t, "text") + rapid.SampledFrom([]string{"", "\uFF20", "\uFE6B"}).Draw(t, "at sign") +
			rapid.StringN(0, 20, 100).Draw(t, "rest")
		if key, code := LoginKey(text); code == "" {
			if again, code := LoginKey(key); again != key || code != "" {
				t.Fatalf("login %q: got %q, and %q (code %q) for that, want them equal", text, key, again, code)
			}
			if strings.Contains(key, "@") {
				t.Fatalf("login %q: got %q, want no @ in it", text, key)
			}
		}
		domain := rapid.StringMatching(`[A-Za-zа-яё0-9-]{1,20}\.[a-zа-я]{2,6}`).Draw(t, "domain")
		if email, code := ParseEmail("ada@" + domain); code == "" {
			if strings.ContainsFunc(email.Address, func(r rune) bool { return r > 127 }) {
				t.Fatalf("e-mail at %q: got %q, want ASCII", domain, email.Address)
			}
			if again, code := ParseEmail(email.Address); again.Key != email.Key || code != "" {
				t.Fatalf("e-mail at %q: got key %q, and %q (code %q) for its address, want them equal", domain, email.Key, again.Key, code)
			}
		}
	})
}
