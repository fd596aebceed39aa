package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"
)

func TestAVisitorEditsTheProfile(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p := newTab(t, s.url, desk)
	p.signIn("anna", password)
	p.fill("Name", "Anna Petrova")
	p.fill("Phone", "+7 900 000-00-00")
	p.set("City", "kazan")
	p.fill("Interests", "tea\nchess")
	p.tick("Send me the newsletter")
	p.press("Save")
	p.see("Your profile has been saved.")
	p.shot("account", "header")
	p.open("/account")
	saved := map[string]string{"Name": "Anna Petrova", "Phone": "+7 900 000-00-00", "City": "kazan", "Interests": "tea\nchess"}
	p.wantValues(saved)
	if !p.ticked("Send me the newsletter") {
		t.Error("the newsletter is not ticked")
	}

	p.fill("Name", "")
	p.fill("Phone", "many")
	p.fill("Interests", "chess")
	p.press("Save")
	p.wantStatus(422)
	p.wantFault("Phone", "This is not in the expected form.")
	p.wantValues(map[string]string{"Name": "", "Phone": "many", "Interests": "chess"})
	p.open("/account")
	p.wantValues(saved)
	p.fill("Interests", "")
	p.press("Save")
	p.wantValues(map[string]string{"Name": "Anna Petrova", "Interests": ""})
}

func TestANewPasswordEndsTheOtherSessions(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p, other := newTab(t, s.url, desk), newTab(t, s.url, desk)
	p.signIn("anna", password)
	other.signIn("anna", password)
	p.open("/account/password")
	p.fill("Current password", "wrong")
	p.fill("New password", "a better one by far")
	p.fill("Repeat the password", "a better one by far")
	p.press("Change the password")
	p.wantStatus(422)
	p.wantFault("Current password", "This does not match.")
	p.fill("Current password", password)
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

func TestAVisitorSeesSessionsAndEndsThem(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p, other := newTab(t, s.url, desk), newTab(t, s.url, desk)
	p.signIn("anna", password)
	other.signIn("anna", password)
	p.open("/account/sessions")
	p.see("this device")
	p.wantAccessible()
	const here = `document.querySelectorAll("main li form").length`
	if n := get(p, chromedp.Evaluate[int](here)); n != 3 { // and the one of the registration
		t.Errorf("%d sessions, want 3", n)
	}
	p.open("/account/sessions")
	p.press("Sign out: Chrome · Linux 127.0.0.1")
	p.see("The session has been ended.")
	if n := get(p, chromedp.Evaluate[int](here)); n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
	other.press("Sessions")
	other.control("Login or e-mail")
	p.press("Sign out everywhere")
	p.see("You are signed out.")
}
