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

func TestRegister_ErrorsAreShownAtTheirControls(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, everyType)
	s.registerWith(t, "anna", map[string]any{"a_text": "a", "an_answer": true})
	p := newTab(t, s.url, desktop)
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
	p.wantFieldError("Login", "Enter a longer login: at least 3 characters.")
	p.wantFieldError("Repeat the password", "The two passwords differ. Enter the same one twice.")
	p.wantFieldError("A text", "This does not have the expected form. Check what you have entered.")
	p.wantFieldError("A long text", "This is too long. Shorten it.")
	p.wantFieldError("An answer", "Please fill this in.")
	p.wantFieldError("Some tags", "The list has too many items, or one is too long. Remove or shorten some.")
	p.wantValues(map[string]string{
		"Login": "an", "E-mail": "an@example.com", "A text": "A1", "A link": "kept", "Some tags": "red\nlonger tha", // a page sends back no more than a field allows
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
	p.wantFieldError("Login", "This login is taken. Choose another.")
}

func TestRegister_FormIsInTheChosenLanguage(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, everyType)
	p := newTab(t, s.url, desktop)
	p.open("/account/register")
	p.press("Русский")
	p.see("Регистрация")
	for _, label := range []string{"Логин", "Строка", "Флажок", "Выбор"} {
		p.control(label)
	}
	p.fill("Логин", "an")
	p.press("Создать учётную запись")
	p.wantStatus(422)
	p.wantFieldError("Логин", "Введите логин длиннее: не меньше 3 символов.")
	if lang := get(p, chromedp.Evaluate[string]("document.documentElement.lang")); lang != "ru" {
		t.Errorf("got the language %q, want ru", lang)
	}
	p.press("English")
	p.see("Register")
}

// fillRegistration fills in the fields that every registration needs.
func (p *tab) fillRegistration(login string) {
	p.t.Helper()
	p.fill("Login", login)
	p.fill("E-mail", login+"@example.com")
	p.fill("Password", password)
	p.fill("Repeat the password", password)
}

func TestSignIn_NeedsTheRightPassword(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p := newTab(t, s.url, desktop)
	p.signIn("anna", "wrong")
	p.wantStatus(401)
	p.see("The login or the password is wrong.")
	p.wantValues(map[string]string{"Login or e-mail": "anna", "Password": ""})
	p.fill("Login or e-mail", "anna@example.com")
	p.fill("Password", password)
	p.press("Sign in")
	p.see("You are signed in.")
	p.press("Sign out")
	p.see("You are signed out.")
	p.open("/account")
	p.control("Login or e-mail") // the sign-in form
}

func TestProfile_EditAndErrors(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p := newTab(t, s.url, desktop)
	p.signIn("anna", password)
	p.fill("Name", "Anna Petrova")
	p.fill("Phone", "+7 900 000-00-00")
	p.set("City", "kazan")
	p.fill("Interests", "tea\nchess")
	p.tick("Send me the newsletter")
	p.press("Save")
	p.see("Your profile has been saved.")
	p.screenshot("account", "header")
	p.open("/account")
	saved := map[string]string{"Name": "Anna Petrova", "Phone": "+7 900 000-00-00", "City": "kazan", "Interests": "tea\nchess"}
	p.wantValues(saved)
	if !p.ticked("Send me the newsletter") {
		t.Error("the newsletter is not ticked, want it ticked")
	}

	p.fill("Name", "")
	p.fill("Phone", "many")
	p.fill("Interests", "chess")
	p.press("Save")
	p.wantStatus(422)
	p.wantFieldError("Phone", "Enter a phone number such as +44 20 7946 0958: 6 to 20 digits, spaces, hyphens and brackets.")
	p.wantValues(map[string]string{"Name": "", "Phone": "many", "Interests": "chess"})
	p.open("/account")
	p.wantValues(saved)
	p.fill("Interests", "")
	p.press("Save")
	p.wantValues(map[string]string{"Name": "Anna Petrova", "Interests": ""})
}

func TestPassword_ChangeRevokesOtherSessions(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p, other := newTab(t, s.url, desktop), newTab(t, s.url, desktop)
	p.signIn("anna", password)
	other.signIn("anna", password)
	p.forgetProof()
	p.open("/account/password")
	p.fill("Current password", "wrong")
	p.press("Confirm")
	p.wantStatus(422)
	p.wantFieldError("Current password", "This is not your current password. Enter it again.")
	p.fill("Current password", password)
	p.press("Confirm")
	p.fill("New password", "a better one by far")
	p.fill("Repeat the password", "a better one by far")
	p.press("Change the password")
	p.see("Your password has been changed.")
	p.open("/account")
	p.control("Name") // still signed in
	other.press("Password")
	other.control("Login or e-mail")
	other.signIn("anna", password)
	other.wantStatus(401)
	other.signIn("anna", "a better one by far")
	other.see("You are signed in.")
}

func TestSessions_ListAndRevoke(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p, other := newTab(t, s.url, desktop), newTab(t, s.url, desktop)
	p.signIn("anna", password)
	other.signIn("anna", password)
	p.open("/account/sessions")
	p.see("this device")
	const here = `document.querySelectorAll("main li form").length`
	if n := get(p, chromedp.Evaluate[int](here)); n != 3 { // with the one of the registration
		t.Errorf("got %d sessions, want 3", n)
	}
	p.open("/account/sessions")
	p.press("Sign out: Chrome · Linux 127.0.0.1")
	p.see("The session has been ended.")
	if n := get(p, chromedp.Evaluate[int](here)); n != 2 {
		t.Errorf("got %d sessions, want 2", n)
	}
	other.press("Sessions")
	other.control("Login or e-mail")
	p.press("Sign out everywhere")
	p.see("You are signed out.")
}

func TestSessions_EndOthersAfterSigningIn(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p, other := newTab(t, s.url, desktop), newTab(t, s.url, desktop)
	other.signIn("anna", password)
	p.signIn("anna", password)
	p.see("Your last sign-in")
	p.see("127.0.0.1")
	p.tabTo("Sign out everywhere else")
	p.navigate(keyPresses(" "))
	p.see("You are signed out everywhere else.")
	if n := get(p, chromedp.Evaluate[int](`document.querySelectorAll("main li form").length`)); n != 1 {
		t.Errorf("got %d sessions, want 1", n)
	}
	other.press("Password")
	other.control("Login or e-mail")
}
