package e2e

import "testing"

func TestAVisitorSignsInWithTheRightPasswordAlone(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p := newTab(t, s.url, desk)
	p.signIn("anna", "wrong")
	p.wantStatus(401)
	p.see("The login or the password is wrong.")
	p.wantValues(map[string]string{"Login or e-mail": "anna", "Password": ""})
	p.wantAccessible()
	p.fill("Login or e-mail", "anna@example.com")
	p.fill("Password", password)
	p.press("Sign in")
	p.see("You are signed in.")
	p.press("Sign out")
	p.see("You are signed out.")
	p.open("/account")
	p.control("Login or e-mail") // is asked to sign in
}

func TestSigningInLeadsBackToThePageThatAskedForIt(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p := newTab(t, s.url, desk)
	p.open("/demo")
	p.fill("Login or e-mail", "anna")
	p.fill("Password", password)
	p.press("Sign in")
	p.see("Only signed-in visitors can see this page.")
}
