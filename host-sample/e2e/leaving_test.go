package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	browserdomain "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestDeletion_IsUndoneByTheMailedLink(t *testing.T) {
	t.Parallel()
	s := startWithDefaults(t)
	s.register(t, "anna")
	p, admin := newTab(t, s.url, desktop), s.administrator(t, desktop)
	p.signIn("anna", password)
	p.forgetProof()
	p.see("erased on ")
	p.press("Delete the account …")
	p.see("Confirm that it is you")
	p.fill("Current password", "wrong")
	p.press("Confirm")
	p.wantStatus(http.StatusUnprocessableEntity)
	p.wantFieldError("Current password", "This is not your current password. Enter it again.")
	p.tabTo("Current password") // the link in the summary of errors
	p.key(kb.Enter)
	p.await("the focus on the control", `document.activeElement.id === "field-password" ? "yes" : ""`)
	p.key(password)
	p.tabTo("Confirm")
	p.navigate(keyPresses(" "))
	p.see("an e-mail that we send to anna@example.com")
	p.tabTo("Delete the account")
	p.navigate(keyPresses(" "))
	p.see("Your account is disabled and will be erased.")
	p.signIn("anna", password)
	p.wantStatus(http.StatusForbidden)
	p.see("If you have deleted it, our e-mail says how to undo that")
	p.press("Enter the code from the e-mail")
	p.see("Keep your account")
	admin.open("/admin/users")
	admin.see("erased on")
	admin.wantAccessible()
	admin.press("anna")
	admin.see("If you enable it, the deletion is undone.")
	admin.wantAccessible()

	link := s.mailedLink(t, "anna@example.com", "/account/undo-delete")
	scanner := newTab(t, s.url, desktop)
	scanner.openMailed(link)
	p.openMailed(link)
	p.press("Русский")
	p.wantCode(link)
	p.press("English")
	p.press("Keep the account")
	p.see("Your account will not be erased. You can sign in again.")
	p.signIn("anna", password)
	p.see("You are signed in.")
	admin.open("/admin/events")
	admin.see("Deletion undone by the user")
}

func TestExport_DownloadsAFile(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p := newTab(t, s.url, desktop)
	folder := p.downloads()
	p.signIn("anna", password)
	p.openProven("/account/data")
	p.do(chromedp.Click(p.named("Download the file")))
	var file []byte
	eventually(t, "the file is downloaded", func() bool {
		var err error
		file, err = os.ReadFile(filepath.Join(folder, "account.json"))
		return err == nil && json.Valid(file)
	})
	var data struct {
		Profile  struct{ Login, Email string } `json:"user_profile"`
		Sessions []any
	}
	if err := json.Unmarshal(file, &data); err != nil {
		t.Fatal(err)
	}
	if data.Profile.Login != "anna" || data.Profile.Email != "anna@example.com" || len(data.Sessions) != 2 {
		t.Errorf("got %s, want the user's profile and two sessions", file)
	}
	p.open("/account") // still signed in
	p.control("Name")
}

// downloads makes the tab store what it downloads, and returns the folder.
func (p *tab) downloads() string {
	p.t.Helper()
	folder := p.t.TempDir()
	c := chromedp.FromContext(p.ctx)
	_, err := cdp.Call(p.ctx, c.Browser, browserdomain.SetDownloadBehavior, browserdomain.SetDownloadBehaviorParams{
		Behavior: browserdomain.SetDownloadBehaviorBehaviorAllow, BrowserContextID: c.BrowserContextID, DownloadPath: folder,
	})
	if err != nil {
		p.fatal(err)
	}
	return folder
}
