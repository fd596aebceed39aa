package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestSupport_LockedOutUserIsHelpedWithOneClick works without scripts, and is accessible
// in both languages.
func TestSupport_LockedOutUserIsHelpedWithOneClick(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "settings.toml")
	if err := os.WriteFile(settings, []byte("[password]\nmemory_kib = 1024\ntime = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startWithDefaults(t, "--settings", settings)
	s.register(t, "anna")
	s.lockOut(t, "anna")
	admin, visitor := s.administrator(t, desktop), newTab(t, s.url, desktop)
	visitor.signIn("anna", password)
	visitor.wantStatus(http.StatusTooManyRequests)

	admin.allowScripts(false)
	admin.open("/admin/support")
	admin.fill("Login, e-mail or id", "anna@example.com")
	admin.fill("IP addresses of the user", "127.0.0.300")
	admin.press("Check")
	admin.wantStatus(http.StatusUnprocessableEntity)
	admin.wantFieldError("IP addresses of the user", "Enter up to 10 IP addresses such as 192.0.2.1 or 2001:db8::1.")
	admin.open("/admin/support?login=anna&address=127.0.0.1")
	admin.see("Too many wrong passwords for anna from 127.0.0.1.")
	admin.see("Unlocks in ")
	admin.screenshot("support", "header")
	admin.press("Lift the limits")
	admin.see("The limits of the account have been lifted.")
	admin.wantNoText("Too many wrong passwords")
	admin.wantValues(map[string]string{"Login, e-mail or id": "anna", "IP addresses of the user": "127.0.0.1"})
	visitor.signIn("anna", password)
	visitor.see("You are signed in.")

	admin.press("History")
	admin.see("History of anna")
	admin.see("Limits lifted")
	admin.see("by administrator")
	admin.set("Type", "limits_lifted")
	admin.press("Show")
	admin.wantNoText("Signed in ")
	admin.wantNoText("on the site")
	admin.open("/admin/users/4711/events")
	admin.see("nothing is left here")
	admin.wantAccessibleAlone()
	admin.visit("/admin/events?user=nobody&since=yesterday")
	admin.wantStatus(http.StatusUnprocessableEntity)
	admin.wantFieldError("User", "No user has this id, login or e-mail.")
	admin.wantInvalid("From (UTC)")
}

// lockOut enters wrong passwords until a limit is used up.
func (s *site) lockOut(t *testing.T, login string) {
	t.Helper()
	for range 100 {
		status, _, err := s.api("auth", map[string]any{"login": login, "password": "not the password"})
		if err != nil {
			t.Fatal(err)
		}
		if status == http.StatusTooManyRequests {
			return
		}
	}
	t.Fatal("100 wrong passwords use up no limit")
}
