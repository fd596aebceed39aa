package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

func TestVerification_MailedLinkConfirmsTheAddress(t *testing.T) {
	t.Parallel()
	s := startWithDefaults(t)
	p := newTab(t, s.url, desktop)
	p.open("/account/register")
	p.fillRegistration("anna")
	p.press("Create an account")
	p.see("Your account has been created.")
	p.see("The address anna@example.com is not confirmed yet.")
	p.press("Send an e-mail")
	p.see("If the address still has to be confirmed, an e-mail with further instructions is on its way.")
	p.open("/demo")
	p.press("Confirmed members")
	p.wantStatus(http.StatusForbidden)
	p.see("Please confirm your e-mail address first")
	p.press("Confirm the address")
	p.see("The address anna@example.com is not confirmed yet.")

	p.openMailed(s.mailedLink(t, "anna@example.com", "/account/email"))
	p.press("Confirm the address")
	p.see("Your e-mail address has been confirmed.")
	p.see("anna@example.com (confirmed)")
	p.wantNoText("Send an e-mail")
	for _, language := range []string{"English", "Русский"} {
		p.press(language)
		p.open("/demo/verified")
		p.see("anna@example.com")
		p.wantAccessible()
	}
}

var mailedCode = regexp.MustCompile(`(?m)^\s*[A-Za-z0-9_-]{43}\s*$`)

func TestVerification_RequiredBeforeTheFirstSignIn(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "settings.toml")
	err := os.WriteFile(settings, []byte(testSettings+"[registration]\nemail_verification = \"required\"\nenabled = true\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s := startWithDefaults(t, "--settings", settings)
	p := newTab(t, s.url, desktop)
	p.do(command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	p.open("/account/register")
	p.fillRegistration("anna")
	p.press("Create an account")
	p.see("Check your mailbox")
	p.see("we have sent you an e-mail")
	p.signIn("anna", password)
	p.wantStatus(http.StatusForbidden)
	p.see("Please confirm your e-mail address first")
	p.press("Send an e-mail")
	p.see("If the address still has to be confirmed")
	p.press("Enter the code instead")
	p.fill("Code from the e-mail", s.mailed(t, "anna@example.com", mailedCode))
	p.wantValues(map[string]string{"Login": "anna"}) // the browser knows who registered
	p.fill("Login", "boris")
	p.press("Confirm the address")
	p.wantFieldError("Login", "This is not the login of the account that the code is for. Enter the login that you chose when you registered, not your e-mail address.")
	p.fill("Login", "Anna")
	p.press("Confirm the address")
	p.see("Your e-mail address has been confirmed.")
	p.fill("Login or e-mail", "anna@example.com")
	p.fill("Password", password)
	p.press("Sign in")
	p.see("You are signed in.")
	p.see("anna@example.com (confirmed)")
}
