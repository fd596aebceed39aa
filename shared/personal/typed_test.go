package personal

import (
	"strings"
	"testing"
	"unicode"
)

func TestAsTyped_CutsWhiteSpaceAroundIdentifiersOnly(t *testing.T) {
	const around = " \t\r\n\u0085\u00a0\u1680\u2003\u2028\u202f\u3000"
	r := AsTyped(RecoverConfirmRequest{Token: around + "a b" + around, Password: around, ConfirmPassword: " x "})
	if want := (RecoverConfirmRequest{Token: "a b", Password: around, ConfirmPassword: " x "}); r.Token != want.Token ||
		r.Password != want.Password || r.ConfirmPassword != want.ConfirmPassword {
		t.Errorf("got the token %q, the passwords %q and %q", r.Token, r.Password, r.ConfirmPassword)
	}
	in := AsTyped(AuthorizeRequest{Login: around + "anna", Password: " p ", Code: around})
	if in.Login != "anna" || in.Password != " p " || in.Code != "" {
		t.Errorf("got login %q, password %q, code %q", in.Login, in.Password, in.Code)
	}
}

func TestAsTyped_DigitsOfEveryScriptInCodes(t *testing.T) {
	for typed, want := range map[string]string{
		" 123 456\u00a0":         "123 456",
		"\uff11\uff12\uff13-٤٥٦": "123-456",
		"۱۲۳۴۵۶":                 "123456",
		"१२३४५६":                 "123456",
		"𝟏𝟚𝟥𝟰𝟻𝟨":                 "123456",
		"ABCD-２３４５":              "ABCD-2345",
		"①²Ⅷ":                    "①²Ⅷ", // numbers, but not decimal digits
	} {
		if got := AsTyped(ConfirmTwoFactorRequest{Code: typed}).Code; got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
	// A login keeps its digits: they are part of the name.
	if got := AsTyped(AuthorizeRequest{Login: "anna１"}).Login; got != "anna１" {
		t.Errorf("got the login %q", got)
	}
}

// The digits of each script are ten that follow each other: asciiDigit counts from the start of a range.
func TestAsciiDigit_RangesAreWholeScripts(t *testing.T) {
	var all []rune
	for c := range rune(unicode.MaxRune) {
		if unicode.Is(unicode.Nd, c) {
			all = append(all, c)
		}
	}
	var b strings.Builder
	for _, c := range all {
		b.WriteRune(asciiDigit(c))
	}
	if got, want := b.String(), strings.Repeat("0123456789", len(all)/10); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
