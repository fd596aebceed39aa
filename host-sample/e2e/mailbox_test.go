package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestMailbox_ShowsAndDeletesMails(t *testing.T) {
	t.Parallel()
	s := startWithDefaults(t)
	s.register(t, "anna")
	status, _, err := s.api("recover", map[string]any{"email": "anna@example.com"})
	if err != nil || status != 200 {
		t.Fatal(status, err)
	}
	link := s.mailedLink(t, "anna@example.com", "/account/recover")
	p := s.administrator(t, desktop)
	p.open("/admin/mail")
	p.see("anna@example.com")
	p.wantAccessible()
	p.press("Set a new password")
	p.see(s.url + link)
	p.see(tokenOf(link))
	p.await("the mail's HTML", `document.querySelector("iframe.letter")?.getAttribute("sandbox") === "" ? "yes" : ""`)
	p.wantAccessible()
	p.open(get(p, chromedp.Evaluate[string](`document.querySelector("iframe.letter").getAttribute("src")`)))
	p.see(tokenOf(link))
	p.open("/admin/mail")
	for _, subject := range []string{"Set a new password", "Confirm that this e-mail address is yours"} {
		p.press(subject)
		p.press("Delete the mail")
		p.see("The mail has been deleted.")
	}
	p.see("No mails have been stored yet.")
}

func TestEvents_FilterAndRefresh(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	s.register(t, "boris")
	p := s.administrator(t, desktop)
	p.open("/admin/events")
	p.see("anna")
	p.see("boris")
	p.set("Type", "sign_in_failed")
	p.press("Show")
	p.see("No events found.")
	get(p, chromedp.Evaluate[bool]("window.sameDocument = true"))
	newTab(t, s.url, desktop).signIn("anna", "wrong")
	p.await("the failed sign-in", `document.querySelector("#events .badge")?.textContent === "Sign-in failed" ? "yes" : ""`)
	if !get(p, chromedp.Evaluate[bool]("window.sameDocument === true")) {
		t.Error("the page was reloaded")
	}
	p.wantAccessible()
	p.set("Type", "")
	p.fill("User", "2")
	p.press("Show")
	p.see("boris")
	if list := p.text("#events"); strings.Contains(list, "anna") {
		t.Errorf("got the events\n%s\nwant those of user 2 only", list)
	}
	p.fill("User", "x")
	p.press("Show")
	p.wantInvalid("User")
}
