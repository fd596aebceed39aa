package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestRecovery_MailedLinkSetsAPassword(t *testing.T) {
	t.Parallel()
	s := startWithDefaults(t)
	s.register(t, "anna")
	p := newTab(t, s.url, desktop)
	p.open("/account/forgot")
	p.fill("Login or e-mail", "anna@example.com")
	p.press("Send the e-mail")
	p.see("Check your mailbox")
	p.see("If the account exists, an e-mail with further instructions is on its way.")

	link := s.mailedLink(t, "anna@example.com", "/account/recover")
	p.openMailed(link)
	p.press("Русский")
	p.wantCode(link)
	p.press("English")
	p.fill("New password", "123")
	p.fill("Repeat the password", "123")
	p.press("Set the password")
	p.wantStatus(422)
	p.wantFieldError("New password", "Enter a longer password: at least 8 characters.")
	p.wantCode(link)
	p.fill("New password", "a better one by far")
	p.fill("Repeat the password", "a better one by far")
	p.press("Set the password")
	p.see("Your password has been changed.")
}

// openMailed opens the link of a mail.
func (p *tab) openMailed(link string) {
	p.t.Helper()
	p.open(link)
	p.wantCode(link)
}

// wantCode checks that the code of a mailed link is in the form, where it is not shown, and
// neither in the URL nor in the history of the browser.
func (p *tab) wantCode(link string) {
	p.t.Helper()
	p.await("the code of the mail", fmt.Sprintf(`document.querySelector('details:not([open]) input[name="token"]')?.value === %q ? "yes" : ""`,
		tokenOf(link)))
	p.await("what the site says about the code", `document.querySelector("[aria-busy=true]") ? "" : "yes"`) // it may move the button
	if at := get(p, chromedp.Location()); strings.Contains(at, "token") {
		p.t.Errorf("got the URL %s, want it without a token", at)
	}
	for _, entry := range get(p, chromedp.NavigationEntries()).Entries {
		if strings.Contains(entry.URL, "token") {
			p.t.Errorf("got %s in the history, want it without a token", entry.URL)
		}
	}
}

func tokenOf(link string) string {
	_, token, _ := strings.Cut(link, "#token=")
	return token
}

var mailedCode = regexp.MustCompile(`(?m)^\s*[A-Za-z0-9_-]{43}\s*$`)

// mailedLink waits for a mail to an address with a link to a page. It returns the path
// of the link.
func (s *site) mailedLink(t *testing.T, to, page string) string {
	t.Helper()
	return strings.TrimPrefix(s.mailed(t, to, regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(s.url+page)+`#token=\S+`)), s.url)
}

// mailed waits for a mail to an address with a text, and returns the text.
func (s *site) mailed(t *testing.T, to string, text *regexp.Regexp) string {
	t.Helper()
	var found string
	eventually(t, "a mail to "+to+" is stored", func() bool {
		files, err := filepath.Glob(filepath.Join(s.data, "mail", "*.eml"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			mail, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(mail), "<"+to+">") && found == "" {
				found = strings.TrimSpace(text.FindString(string(mail)))
			}
		}
		return found != ""
	})
	return found
}
