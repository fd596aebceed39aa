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

func TestAsTyped_InvisibleCharactersAreDropped(t *testing.T) {
	for typed, want := range map[string]string{
		"\ufeffanna@example.com\u200b":        "anna@example.com", // copied from a page
		"\u202aanna@example.com\u202c":        "anna@example.com", // from a list of contacts
		"an\u00adna\u2060@example.com":        "anna@example.com", // from a document
		"\u200e \u2068anna\u2069\u00a0\u200d": "anna",
		"नि\u200dल":                           "नि\u200dल",        // the joiner belongs to the word
		"\u0600anna":                          "\u0600anna",       // a sign that is seen
		"ａｎｎａ＠ｅｘａｍｐｌｅ．ｃｏｍ":                    "anna@example.com", // an input method was on
		"anna＠example.com":                    "anna@example.com",
		"anna﹫example.com":                    "anna@example.com",
		"ａｎｎａ":                                "ａｎｎａ", // LoginKey maps it
		"\u200b\u200b":                        "",
	} {
		if got := AsTyped(AuthorizeRequest{Login: typed}).Login; got != want {
			t.Errorf("login %+q: got %+q, want %+q", typed, got, want)
		}
		if got := AsTyped(RegisterRequest{Email: typed}).Email; got != want {
			t.Errorf("e-mail %+q: got %+q, want %+q", typed, got, want)
		}
	}
	if got, want := AsTyped(AuthorizeRequest{Code: "\u200e123\u2060456\u200b"}).Code, "123456"; got != want {
		t.Errorf("got the code %+q, want %q", got, want)
	}
	if got, want := AsTyped(AuthorizeRequest{Code: "ＡＢＣＤ－２３４５"}).Code, "ABCD-2345"; got != want {
		t.Errorf("got the code %+q, want %q", got, want)
	}
}

func TestAsTyped_FindsTheTokenInWhatWasPasted(t *testing.T) {
	const token = "4pKE0QWHvjhZ0IDc00evIB_r-WReptOcMOgTh9oAtP8"
	for _, typed := range []string{
		token + ".", "<" + token + ">", "(" + token + ")", "“" + token + "”", token + "\u200b", "code: " + token,
		"https://www.example.com/account/recover#token=" + token, "https://www.example.com/account/recover#token=" + token + ").",
		token[:20] + "\u00ad" + token[20:],
		"https://www.example.com/account/recover%23token%3D" + token, "/recover%2523token%253D" + token + "%26login=QQ",
		"https://www.example.com/account/verify#login=" + strings.Repeat("A", 43) + "&token=" + token,
	} {
		if got := AsTyped(RecoverConfirmRequest{Token: typed}).Token; got != token {
			t.Errorf("%q: got %q, want %q", typed, got, token)
		}
	}
	for _, other := range []string{token[1:], token + "x", token[:20] + " " + token[20:]} {
		if got := AsTyped(RecoverConfirmRequest{Token: other}).Token; got != other {
			t.Errorf("got %q, want %q as it is", got, other)
		}
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
