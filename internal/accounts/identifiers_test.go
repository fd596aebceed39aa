package accounts

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/shared/personal"
)

func TestALoginIsMatchedByItsMappedForm(t *testing.T) {
	for name, test := range map[string]struct {
		login, key string
		fault      personal.FieldErrorCode
	}{
		"plain":                        {login: "ada", key: "ada"},
		"upper case":                   {login: "Ada.Lovelace", key: "ada.lovelace"},
		"full width":                   {login: "ａｄａ", key: "ada"},
		"long before it is mapped":     {login: strings.Repeat("e\u0301", 40), key: strings.Repeat("\u00e9", 40)},
		"decomposed":                   {login: "Zoe\u0308", key: "zo\u00eb"},
		"Cyrillic":                     {login: "Иван", key: "иван"},
		"digits":                       {login: "12345", key: "12345"},
		"as long as may be":            {login: strings.Repeat("я", 64), key: strings.Repeat("я", 64)},
		"empty":                        {fault: personal.FieldErrorRequired},
		"too short":                    {login: "ab", fault: personal.FieldErrorTooShort},
		"too long":                     {login: strings.Repeat("a", 65), fault: personal.FieldErrorTooLong},
		"an e-mail":                    {login: "ada@example.com", fault: personal.FieldErrorInvalidFormat},
		"an e-mail, full-width @":      {login: "ada\uFF20example.com", fault: personal.FieldErrorInvalidFormat},
		"an e-mail, small @":           {login: "ada\uFE6Bexample.com", fault: personal.FieldErrorInvalidFormat},
		"with a space":                 {login: "ada lovelace", fault: personal.FieldErrorInvalidFormat},
		"with a NUL":                   {login: "ada\x00", fault: personal.FieldErrorInvalidFormat},
		"with a line break":            {login: "ada\nroot", fault: personal.FieldErrorInvalidFormat},
		"invalid UTF-8":                {login: "ada\xff", fault: personal.FieldErrorInvalidFormat},
		"Latin with a Cyrillic letter": {login: "\u0430dmin", fault: personal.FieldErrorInvalidFormat},
		"Latin with a Greek letter":    {login: "\u03bfmega-x", fault: personal.FieldErrorInvalidFormat},
		"a zero-width character":       {login: "ad\u200ba", fault: personal.FieldErrorInvalidFormat},
		"a right-to-left override":     {login: "ada\u202e", fault: personal.FieldErrorInvalidFormat},
	} {
		t.Run(name, func(t *testing.T) {
			key, fault := LoginKey(test.login)
			if key != test.key || fault != test.fault {
				t.Fatalf("got %q, fault %q; want %q, fault %q", key, fault, test.key, test.fault)
			}
		})
	}
}

func TestAnEmailIsOnePlainAddress(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		want  Email
		fault personal.FieldErrorCode
	}{
		"plain":                {text: "ada@example.com", want: Email{"ada@example.com", "ada@example.com"}},
		"upper case":           {text: "Ada@Example.COM", want: Email{"Ada@Example.COM", "ada@example.com"}},
		"with a tag":           {text: "ada+x@example.com", want: Email{"ada+x@example.com", "ada+x@example.com"}},
		"a domain in Unicode":  {text: "ada@пример.рф", want: Email{"ada@xn--e1afmkfd.xn--p1ai", "ada@xn--e1afmkfd.xn--p1ai"}},
		"a Kelvin sign":        {text: "a@ban\u212a.com", want: Email{"a@bank.com", "a@bank.com"}},
		"empty":                {fault: personal.FieldErrorRequired},
		"no domain":            {text: "ada", fault: personal.FieldErrorInvalidFormat},
		"no local part":        {text: "@example.com", fault: personal.FieldErrorInvalidFormat},
		"one label":            {text: "ada@localhost", fault: personal.FieldErrorInvalidFormat},
		"an address literal":   {text: "ada@[127.0.0.1]", fault: personal.FieldErrorInvalidFormat},
		"an IP address":        {text: "ada@127.0.0.1", fault: personal.FieldErrorInvalidFormat},
		"a display name":       {text: "Ada <ada@example.com>", fault: personal.FieldErrorInvalidFormat},
		"a header":             {text: "ada@example.com\r\nBcc: x@example.com", fault: personal.FieldErrorInvalidFormat},
		"two addresses":        {text: "a@example.com,b@example.com", fault: personal.FieldErrorInvalidFormat},
		"quoted":               {text: `"a b"@example.com`, fault: personal.FieldErrorInvalidFormat},
		"non-ASCII local part": {text: "ада@example.com", fault: personal.FieldErrorInvalidFormat},
		"two dots":             {text: "a..b@example.com", fault: personal.FieldErrorInvalidFormat},
		"a dot at the end":     {text: "ada@example.com.", fault: personal.FieldErrorInvalidFormat},
		"long local part":      {text: strings.Repeat("a", 65) + "@example.com", fault: personal.FieldErrorTooLong},
		"long":                 {text: "a@" + strings.Repeat(strings.Repeat("b", 60)+".", 4) + "example.com", fault: personal.FieldErrorTooLong},
		"of great length":      {text: strings.Repeat("a", 5000) + "@example.com", fault: personal.FieldErrorTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			got, fault := ParseEmail(test.text)
			if got != test.want || fault != test.fault {
				t.Fatalf("got %+v, fault %q; want %+v, fault %q", got, fault, test.want, test.fault)
			}
		})
	}
}

// What has been mapped is its own mapped form: two accounts can't differ by how
// often they were normalised.
func TestMappedFormsMapToThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 70, 300).Draw(t, "text") + rapid.SampledFrom([]string{"", "\uFF20", "\uFE6B"}).Draw(t, "at sign") +
			rapid.StringN(0, 20, 100).Draw(t, "rest")
		if key, fault := LoginKey(text); fault == "" {
			if again, fault := LoginKey(key); again != key || fault != "" {
				t.Fatalf("login %q maps to %q, that to %q (%s)", text, key, again, fault)
			}
			if strings.Contains(key, "@") {
				t.Fatalf("login %q maps to %q, which looks like an e-mail", text, key)
			}
		}
		domain := rapid.StringMatching(`[A-Za-zа-яё0-9-]{1,20}\.[a-zа-я]{2,6}`).Draw(t, "domain")
		if email, fault := ParseEmail("ada@" + domain); fault == "" {
			if strings.ContainsFunc(email.Address, func(r rune) bool { return r > 127 }) {
				t.Fatalf("e-mail at %q is %q", domain, email.Address)
			}
			if again, fault := ParseEmail(email.Address); again.Key != email.Key || fault != "" {
				t.Fatalf("e-mail at %q is %q, that %q (%s)", domain, email.Key, again.Key, fault)
			}
		}
	})
}
