package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

func TestMailbox_ShowsAMailInASandbox(t *testing.T) {
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
	p.press("Set a new password")
	p.await("the mail's HTML", `document.querySelector("iframe.letter")?.getAttribute("sandbox") === "" ? "yes" : ""`)
	if text := p.frameText("iframe.letter"); !strings.Contains(text, tokenOf(link)) {
		t.Errorf("got the frame\n%s\nwant the mail with its link", text)
	}
}

// frameText scrolls a frame into view and returns the text that it shows. The browser runs a
// sandboxed frame in a process, and so in a target, of its own. The page has loaded with its frames.
func (p *tab) frameText(selector string) string {
	p.t.Helper()
	p.do(chromedp.ScrollIntoView(chromedp.CSS(selector)))
	src := get(p, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%q).src", selector)))
	ctx, cancel := context.WithTimeout(p.ctx, timeout)
	defer cancel()
	targets, err := chromedp.Targets(ctx)
	if err != nil {
		p.fatal(err)
	}
	i := slices.IndexFunc(targets, func(one *target.Info) bool { return one.URL == src })
	if i < 0 {
		p.fatal(fmt.Errorf("no frame shows %s", src))
	}
	frame, detach := chromedp.NewContext(ctx, chromedp.WithTargetID(targets[i].TargetID), chromedp.WithDetachOnCancel())
	defer detach()
	text, err := chromedp.Run(frame, chromedp.Text(chromedp.CSS("body")))
	if err != nil {
		p.fatal(fmt.Errorf("reading the frame %s: %w", src, err))
	}
	return text
}

func TestEvents_NewOnesAreShown(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	p := s.administrator(t, desktop)
	p.open("/admin/events?type=sign_in_failed")
	p.see("No events found.")
	get(p, chromedp.Evaluate[bool]("window.sameDocument = true"))
	newTab(t, s.url, desktop).signIn("anna", "wrong")
	p.await("the failed sign-in", `document.querySelector("#events .badge")?.textContent === "Sign-in failed" ? "yes" : ""`)
	if !get(p, chromedp.Evaluate[bool]("window.sameDocument === true")) {
		t.Error("the page was reloaded")
	}
}
