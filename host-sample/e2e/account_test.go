package e2e

import (
	_ "embed"
	"testing"
)

// everyType has a user field of every type.
//
//go:embed testdata/every-type.json
var everyType []byte

// ofEveryType has a valid value for each control of [everyType].
var ofEveryType = map[string]string{
	"A text": "plain", "A long text": "one\ntwo", "An integer": "7", "A number": "2.5", "A date": "2001-02-03",
	"A moment": "2001-02-03T04:05:06", "A choice": "two", "A file": "docs/a.pdf", "A link": "17",
	"Some links": "1\n2", "Some tags": "red\ngreen",
}

func TestRegister_FieldOfEveryType(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, everyType)
	p := newTab(t, s.url, desktop)
	p.open("/account/register")
	p.fillRegistration("an")
	p.fill("Some tags", "red\nlonger than ten")
	p.press("Create an account")
	p.wantStatus(422)
	p.wantFieldError("Login", "Enter a longer login: at least 3 characters.")
	p.wantFieldError("An answer", "Please fill this in.")
	p.wantFieldError("Some tags", "The list has too many items, or one is too long. Remove or shorten some.")
	p.wantValues(map[string]string{"Login": "an", "Some tags": "red\nlonger tha", "Password": ""}) // a page sends back no more than a field allows
	p.wantAccessible()

	p.fillRegistration("anna")
	for label, value := range ofEveryType {
		p.set(label, value)
	}
	p.tick("A boolean")
	p.tick("No")
	p.screenshot("registration", "header")
	p.press("Create an account")
	p.see("Your account has been created.")
	p.wantValues(ofEveryType)
	if !p.ticked("A boolean") || !p.ticked("No") || p.ticked("Yes") {
		t.Error("the profile does not have the ticked boxes of the form")
	}
	p.wantAccessible()
}

// fillRegistration fills in the fields that every registration needs.
func (p *tab) fillRegistration(login string) {
	p.t.Helper()
	p.fill("Login", login)
	p.fill("E-mail", login+"@example.com")
	p.fill("Password", password)
	p.fill("Repeat the password", password)
}
