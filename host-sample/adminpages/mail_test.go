package adminpages_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/host-sample/adminpages"
	"github.com/cms-personal/personal/host-sample/mailbox"
)

// withMails has the pages show the mails of a folder.
func withMails(t *testing.T, sources ...string) func(*adminpages.Options) {
	t.Helper()
	dir := t.TempDir()
	for i, source := range sources {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.eml", i)), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	box, err := mailbox.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = box.Close() })
	return func(o *adminpages.Options) { o.Mails = box }
}

// mailsShow is how many mails a page shows.
const mailsShow = 25

const letter = "From: <" + script + ">\r\nTo: anna@example.com\r\nSubject: " + script + "\r\nX-Odd: " + script + "\r\n" +
	"Content-Type: multipart/alternative; boundary=b\r\n\r\n" +
	"--b\r\nContent-Type: text/plain\r\n\r\n" + script + " https://site.example/recover#token=abc and javascript:alert(1)\r\n" +
	"--b\r\nContent-Type: text/html\r\n\r\n" + script + "<p style=\"x\">Hello</p>\r\n--b--\r\n"

func TestAMailIsShownAndNothingInItIsMarkup(t *testing.T) {
	b := open(t, withMails(t, letter))
	wantNoMarkup(t, b.page(t, "/admin/mail"))
	w := b.get("/admin/mail/message/000.eml")
	page := w.Body.String()
	wantNoMarkup(t, page)
	for _, want := range []string{`href="https://site.example/recover#token=abc"`, `sandbox="" src="/admin/mail/message/000.eml/html"`, "X-Odd"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(page, `href="javascript`) {
		t.Error("a script became a link")
	}
	if policy := w.Header().Get("Content-Security-Policy"); !strings.HasSuffix(policy, "; frame-src 'self'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
}

func TestTheHTMLOfAMailMayDoNothing(t *testing.T) {
	b := open(t, withMails(t, letter))
	w := b.get("/admin/mail/message/000.eml/html")
	h := w.Header()
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Hello") {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "sandbox; default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
		"Cache-Control":           "no-store", "X-Content-Type-Options": "nosniff", "Content-Type": "text/html; charset=utf-8",
	} {
		if h.Get(name) != want {
			t.Errorf("%s is %q", name, h.Get(name))
		}
	}
	stranger := *b
	stranger.cookies = nil
	for _, path := range []string{"/html", "/source", ""} {
		if w := stranger.get("/admin/mail/message/000.eml" + path); w.Code != http.StatusUnauthorized {
			t.Errorf("a stranger gets %s: %d", path, w.Code)
		}
	}
}

func TestAMailIsSentAsItIsKept(t *testing.T) {
	w := open(t, withMails(t, letter)).get("/admin/mail/message/000.eml/source")
	if w.Body.String() != letter || !strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}

func TestMailsAreListedPageByPage(t *testing.T) {
	var sources []string
	for i := range mailsShow + 1 {
		sources = append(sources, fmt.Sprintf("Subject: number %d.\r\n\r\n", i))
	}
	b := open(t, withMails(t, sources...))
	first := b.page(t, "/admin/mail")
	if !strings.Contains(first, fmt.Sprintf("number %d.", mailsShow)) || strings.Contains(first, "number 0.") || !strings.Contains(first, `href="/admin/mail?before=001.eml"`) {
		t.Error(first)
	}
	second := b.page(t, "/admin/mail?before=001.eml")
	if !strings.Contains(second, "number 0.") || strings.Contains(second, "number 1.") || strings.Contains(second, `href="/admin/mail?before=`) {
		t.Error(second)
	}
}

func TestMailsAreDeleted(t *testing.T) {
	b := open(t, withMails(t, "Subject: first\r\n\r\n", "Subject: second\r\n\r\n", "Subject: third\r\n\r\n"))
	b.do(t, "/admin/mail/delete", url.Values{"name": {"001.eml"}})
	if page := b.page(t, "/admin/mail"); strings.Contains(page, "second") || !strings.Contains(page, "third") {
		t.Error(page)
	}
	b.do(t, "/admin/mail/clear", url.Values{"newest": {"000.eml"}})
	if page := b.page(t, "/admin/mail"); strings.Contains(page, "first") || !strings.Contains(page, "third") {
		t.Error("more or less than what was seen is gone")
	}
	for _, name := range []string{"001.eml", "../user-fields.json", ""} {
		if w := b.post("/admin/mail/delete", url.Values{"name": {name}}); w.Code != http.StatusNotFound {
			t.Errorf("deleting %q: %d", name, w.Code)
		}
	}
	if w := b.get("/admin/mail/message/..%2Fuser-fields.json"); w.Code != http.StatusNotFound {
		t.Errorf("another file: %d", w.Code)
	}
}

func TestWithARelayThereAreNoMailsToSee(t *testing.T) {
	b := open(t, nil)
	if page := b.page(t, "/admin/mail"); !strings.Contains(page, "sent by the configured relay") {
		t.Error(page)
	}
	if w := b.post("/admin/mail/clear", nil); w.Code != http.StatusNotFound {
		t.Errorf("clearing: %d", w.Code)
	}
}
