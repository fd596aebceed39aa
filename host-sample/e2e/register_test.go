package e2e

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// everyType has a user field of every type.
//
//go:embed testdata/every-type.json
var everyType []byte

// ofEveryType are values that controls of [everyType] take and show.
var ofEveryType = map[string]string{
	"A text": "plain", "A long text": "one\ntwo", "An integer": "7", "A number": "2.5", "A date": "2001-02-03",
	"A moment": "2001-02-03T04:05:06", "A choice": "two", "A file": "docs/a.pdf", "A link": "17",
	"Some links": "1\n2", "Some tags": "red\ngreen",
}

func TestAVisitorRegistersWithAFieldOfEveryType(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, everyType)
	p := newTab(t, s.url, desk)
	p.open("/account/register")
	p.fillRegistration("anna")
	for label, value := range ofEveryType {
		p.set(label, value)
	}
	p.tick("A boolean")
	p.tick("No")
	p.shot("registration", "header")
	p.press("Create an account")
	p.see("Your account has been created.")
	p.wantValues(ofEveryType)
	if !p.ticked("A boolean") || !p.ticked("No") || p.ticked("Yes") {
		t.Error("the answers of the form are not in the profile")
	}
	p.wantAccessible()
}

func TestWhatIsWrongWithARegistrationIsSaidBesideItsControls(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, everyType)
	s.registerWith(t, "anna", map[string]any{"a_text": "a", "an_answer": true})
	p := newTab(t, s.url, desk)
	p.open("/account/register")
	p.fillRegistration("an")
	p.fill("Repeat the password", "another")
	p.fill("A text", "A1")
	p.fill("A long text", strings.Repeat("x", 41))
	p.fill("A link", "kept")
	p.fill("Some tags", "red\nlonger than ten")
	p.press("Create an account")
	p.wantStatus(422)
	p.see("Please check what you have entered.")
	p.wantFault("Login", "This is too short.")
	p.wantFault("Repeat the password", "This does not match.")
	p.wantFault("A text", "This is not in the expected form.")
	p.wantFault("A long text", "This is too long.")
	p.wantFault("An answer", "Please fill this in.")
	p.wantFault("Some tags", "This is too long.")
	p.wantValues(map[string]string{
		"Login": "an", "E-mail": "an@example.com", "A text": "A1", "A link": "kept", "Some tags": "red\nlonger than ten",
		"Password": "", "Repeat the password": "",
	})
	p.wantAccessible()

	p.fillRegistration("anna")
	for label, value := range ofEveryType {
		p.set(label, value)
	}
	p.tick("Yes")
	p.press("Create an account")
	p.wantStatus(409)
	p.wantFault("Login", "This is already taken.")
}

func TestTheFormIsInTheVisitorsLanguage(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, everyType)
	p := newTab(t, s.url, desk)
	p.open("/account/register")
	p.press("Русский")
	p.see("Регистрация")
	for _, label := range []string{"Логин", "Строка", "Флажок", "Выбор"} {
		p.control(label)
	}
	p.fill("Логин", "an")
	p.press("Создать учётную запись")
	p.wantStatus(422)
	p.wantFault("Логин", "Слишком короткое значение.")
	p.wantAccessible()
	if lang := get(p, chromedp.Evaluate[string]("document.documentElement.lang")); lang != "ru" {
		t.Errorf("the page says that it is in %q", lang)
	}
	p.press("English")
	p.see("Register")
}

// fillRegistration fills in what every registration needs.
func (p *tab) fillRegistration(login string) {
	p.t.Helper()
	p.fill("Login", login)
	p.fill("E-mail", login+"@example.com")
	p.fill("Password", password)
	p.fill("Repeat the password", password)
}
