package personalpages_test

import (
	"context"
	"net/http"
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
	b.post("/account/register", "login", `Än"na`, "email", "anna@example.com", "password", "p", "confirm_password", "p").leads(t,
		"/account/mailbox?sent=unverified")
	if b.jar["account"] != nil {
		t.Errorf("got the cookie %v, want none before the e-mail is verified", b.jar["account"])
	}
	b.get("/account/mailbox?sent=unverified").shows(t, 200, "Check your mailbox", "we have sent you an e-mail", `href="/account/verify"`,
		`href="/account/email"`)
	b.get("/account/verify").shows(t, 200, `name="login"`, "Send an e-mail", `href="/account/email"`)
	b.post("/account/verify", "login", "anna@example.com").leads(t, "/account/mailbox?sent=email_resend")
	b.get("/account/mailbox?sent=email_resend").shows(t, 200, "If the address still has to be confirmed, an e-mail", "Only a few are sent in an hour.", `href="/account/verify"`)
	b.post("/account/email", "token", "t", "login", "anna").leads(t, "/account/sign-in")
	b.get("/account/sign-in").shows(t, 200, "Your e-mail address has been confirmed.")
	if diff := cmp.Diff([]any{
		personal.ResendVerificationRequest{Email: "anna@example.com"}, personal.ConfirmEmailRequest{Token: "t", Login: "anna"},
	}, m.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	m.ConfirmEmailFunc = func(context.Context, personal.ConfirmEmailRequest) (int64, error) {
		return 0, personal.NewError(personal.CodeInvalidToken, nil)
	}
	b.post("/account/email", "token", "t").shows(t, 422, "If you have already confirmed the address, just sign in.")
}

func TestConfirmEmail_BrowserThatRegisteredKnowsTheLogin(t *testing.T) {
	const login = `Än"na; x`
	const asked = "If you have not registered, close this page."
	m := newModule()
	m.RegisterFunc = func(context.Context, personal.RegisterRequest) (personal.SignedIn, error) {
		return personal.SignedIn{}, nil
	}
	m.ConfirmEmailFunc = func(_ context.Context, r personal.ConfirmEmailRequest) (int64, error) {
		if r.Login != login {
			return 0, personal.FieldErrors{"login": personal.FieldErrorMismatch}.Err()
		}
		return 42, nil
	}
	for scheme, cookie := range map[string]string{"http": "registered", "https": "__Host-registered"} {
		t.Run(scheme, func(t *testing.T) {
			b := newBrowser(t, m)
			b.headers = []string{"X-Forwarded-Proto", scheme}
			b.get("/account/email?login=mallory").shows(t, 200, `name="login" type="text" value=""`, asked)
			b.post("/account/register", "login", login, "email", "anna@example.com", "password", "p", "confirm_password", "p").leads(t,
				"/account/mailbox?sent=unverified")
			if c := b.jar[cookie]; c == nil || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 3600 {
				t.Fatalf("got the cookie %v, want one for an hour that scripts cannot read", c)
			}
			b.get("/account/email").shows(t, 200, `name="login" type="text" value="Än&#34;na; x"`)
			b.post("/account/email", "token", "t", "login", "anna").shows(t, 422, `value="anna"`, "not your e-mail address")
			b.get("/account/email").shows(t, 200, `name="login" type="text" value="Än&#34;na; x"`)
			b.post("/account/email", "token", "t", "login", login).leads(t, "/account/sign-in")
			if c := b.jar[cookie]; c != nil {
				t.Errorf("after the confirmation: got the cookie %v, want none", c)
			}
			for _, value := range []string{"!", "_w"} { // not base64url, and not UTF-8
				b.jar[cookie] = &http.Cookie{Name: cookie, Value: value}
				b.get("/account/email").shows(t, 200, `name="login" type="text" value=""`)
			}
		})
	}
	b := newBrowser(t, m)
	b.hold(first, 0)
	if page := b.get("/account/email"); strings.Contains(page.body, asked) {
		t.Errorf("signed in: the form asks for a login:\n%s", page.body)
	}
	b.post("/account/email", "token", "t").shows(t, 422, asked) // it was the code of a new account
}

func TestSignIn_UnverifiedEmailOffersAnotherMail(t *testing.T) {
	m := newModule()
	m.AuthorizeFunc = func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
		return personal.SignedIn{}, personal.NewError(personal.CodeEmailUnverified, nil)
	}
	b := newBrowser(t, m)
	page := b.post("/account/sign-in", "login", `an"na`, "password", "correct horse")
	page.shows(t, 403, "Please confirm your e-mail address first", "No e-mail yet?", `action="/account/verify"`)
	b.post("/account/verify", page.hidden()...).leads(t, "/account/mailbox?sent=email_resend")
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
	page.shows(t, 200, "anna@example.com (not confirmed)", "follow the link in our e-mail", button, `name="login" value="anna@example.com"`)
	b.post("/account/verify", "login", "anna@example.com").leads(t, "/account/mailbox?sent=email_resend")
	b.get("/account/mailbox?sent=email_resend").shows(t, 200, `<a href="/account">Have another one sent`)
	if again := b.get("/account/email"); strings.Contains(again.body, `href="/account/verify"`) ||
		!strings.Contains(again.body, `href="/account">Request a new one`) {
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
	b.get("/demo/verified").shows(t, 403, "Please confirm your e-mail address first", "<h1>Confirm your",
		`href="/account">Confirm the address`)
	m.profile.EmailVerified = true
	b.get("/demo/verified").shows(t, 200, "<h1>Our page</h1>")
}
