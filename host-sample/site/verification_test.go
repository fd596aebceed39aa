package site_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

func TestRegister_WithRequiredVerificationLeadsToTheMailbox(t *testing.T) {
	m := newModule()
	m.RegisterFunc = func(context.Context, personal.RegisterRequest) (personal.SignedIn, error) {
		return personal.SignedIn{}, nil
	}
	b := newBrowser(t, m)
	b.post("/account/register", "login", "anna", "email", "anna@example.com", "password", "p", "confirm_password", "p").leads(t, "/account/verify")
	if b.jar["account"] != nil {
		t.Errorf("got the cookie %v, want none before the e-mail is verified", b.jar["account"])
	}
	b.get("/account/verify").shows(t, 200, "Look into your mailbox", `name="email"`, `name="login"`, "Send an e-mail", `href="/account/email"`)
	b.post("/account/verify", "email", "anna@example.com").leads(t, "/account/email")
	b.get("/account/email").shows(t, 200, "If the address still has to be confirmed, an e-mail", `href="/account/verify"`)
	b.post("/account/email", "token", " t\n").leads(t, "/account/sign-in")
	b.get("/account/sign-in").shows(t, 200, "Your e-mail address has been confirmed.")
	if diff := cmp.Diff([]any{
		personal.ResendVerificationRequest{Email: "anna@example.com"}, personal.ConfirmEmailRequest{Token: "t"},
	}, m.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestSignIn_UnverifiedEmailOffersAnotherMail(t *testing.T) {
	m := newModule()
	m.AuthorizeFunc = func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
		return personal.SignedIn{}, personal.NewError(personal.CodeEmailUnverified, nil)
	}
	b := newBrowser(t, m)
	page := b.post("/account/sign-in", "login", `an"na`, "password", "correct horse")
	page.shows(t, 403, "Please confirm your e-mail address first", "Has no e-mail arrived?", `action="/account/verify"`)
	b.post("/account/verify", page.hidden()...).leads(t, "/account/email")
	if diff := cmp.Diff([]any{personal.ResendVerificationRequest{Login: `an"na`}}, m.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAccount_ShowsWhetherTheEmailIsVerified(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.hold(first, 0)
	button := `action="/account/verify"`
	if page := b.get("/account"); !strings.Contains(page.body, "anna@example.com (confirmed)") || strings.Contains(page.body, button) {
		t.Errorf("verified: want the address without a button:\n%s", page.body)
	}
	m.profile.EmailVerified = false
	page := b.get("/account")
	page.shows(t, 200, "anna@example.com (not confirmed)", "follow the link in our e-mail", button, `name="email" value="anna@example.com"`)
	b.post("/account/verify", "email", "anna@example.com").leads(t, "/account/email")
	if again := b.get("/account/email"); strings.Contains(again.body, `href="/account/verify"`) || !strings.Contains(again.body, `href="/account">Request a new one`) {
		t.Errorf("signed in: want a link to the account, which offers mails for either address:\n%s", again.body)
	}
	if diff := cmp.Diff([]any{personal.ResendVerificationRequest{Email: "anna@example.com"}}, m.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	m.profile.Email = ""
	if page := b.get("/account"); strings.Contains(page.body, button) || strings.Contains(page.body, "confirmed)") {
		t.Errorf("without e-mail: want neither button nor state:\n%s", page.body)
	}
}

func TestVerifiedPage_NeedsAVerifiedEmail(t *testing.T) {
	m := newModule()
	m.profile.EmailVerified = false
	b := newBrowser(t, m)
	b.hold(first, 0)
	b.get("/demo").shows(t, 200, `href="/demo/verified"`)
	b.get("/demo/verified").shows(t, 403, "Please confirm your e-mail address first", `href="/account">Confirm your e-mail address`)
	m.profile.EmailVerified = true
	b.get("/demo/verified").shows(t, 200, "anna@example.com")
}
