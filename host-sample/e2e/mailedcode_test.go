package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// shortCode waits for a mail that says what its short code is for, and returns the code.
func (s *site) shortCode(t *testing.T, to, purpose string) string {
	t.Helper()
	text := s.mailed(t, to, regexp.MustCompile(regexp.QuoteMeta("Enter this code to "+purpose)+`(?s:.*?)[0-9A-Z]{4}-[0-9A-Z]{4}\b`))
	return text[len(text)-len("7K3M-Q9XA"):]
}

// A user whom an administrator has added needs no password: mailed codes sign them in, and confirm who they are.
func TestMailedCode_SignsInAndConfirms(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "settings.toml")
	if err := os.WriteFile(settings, []byte(testSettings+"[sign_in]\nmailed_code = true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startWithDefaults(t, "--settings", settings)
	admin := s.administrator(t, desktop)
	admin.open("/admin/users/new")
	admin.fill("Login", "petr")
	admin.fill("E-mail", "petr@example.com")
	admin.tick("Send an invitation mail") // which it is at first
	admin.press("Add the user")
	p := newTab(t, s.url, desktop)
	p.open("/account/verify")
	p.fill("Login or e-mail", "petr")
	p.press("Send an e-mail")
	p.openMailed(s.mailedLink(t, "petr@example.com", "/account/email"))
	p.press("Confirm the address")

	p.open("/account/sign-in?next=/demo")
	p.press("Sign in with a code by e-mail")
	p.wantAccessible()
	p.fill("Login or e-mail", "petr")
	p.press("Send the code")
	p.see("If this account can use a code, it is on its way by e-mail. It is valid for 10 minutes, in this browser only.")
	p.wantAccessible()
	p.fill("Code from the e-mail", "0000-0000")
	p.press("Sign in")
	p.wantStatus(422)
	p.wantFieldError("Code from the e-mail", "This code is wrong or has expired. Check it, or have another e-mail sent.")
	code := s.shortCode(t, "petr@example.com", "sign in")
	other := newTab(t, s.url, desktop) // to which the attempt does not belong
	other.open("/account/sign-in/mailed-code")
	other.see("Please have another code sent")
	p.set("Code from the e-mail", " "+code+" ") // pasted
	p.press("Sign in")
	p.wantStatus(200)
	if at := get(p, chromedp.Location()); at != p.base+"/demo" {
		p.t.Errorf("after the sign-in: got %s, want %s/demo", at, p.base)
	}

	p.forgetProof()
	p.open("/account/password")
	p.see("We will send a short code to petr@example.com. You enter it on the next page.")
	p.press("Send me a code")
	p.see("A code is on its way to petr@example.com.")
	p.wantAccessible()
	p.fill("Code from the e-mail", "0000-0000")
	p.press("Confirm")
	p.wantStatus(422)
	p.wantFieldError("Code from the e-mail", "This code is wrong or has expired. Check it, or have another e-mail sent.")
	code = s.shortCode(t, "petr@example.com", "confirm that it is you")
	p.fill("Code from the e-mail", strings.ToLower(strings.ReplaceAll(code, "-", "")))
	p.press("Confirm")
	p.fill("New password", "a better one by far")
	p.fill("Repeat the password", "a better one by far")
	p.press("Change the password")
	p.see("Your password has been changed.")
}
