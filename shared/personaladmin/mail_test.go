package personaladmin_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personaladmin/internal/mailbox"
)

// openMailbox returns a browser of a site that stores these mails: 000.eml is the
// oldest.
func openMailbox(t *testing.T, sources ...string) *browser {
	t.Helper()
	dir := t.TempDir()
	for i, source := range sources {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.eml", i)), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return openWithBox(t, mailbox.Box(dir))
}

// mailsOnPage is the number of mails on a page.
const mailsOnPage = 25

const letter = "From: <" + script + ">\r\nTo: anna@example.com\r\nSubject: " + script + "\r\nX-Odd: " + script + "\r\n" +
	"Content-Type: multipart/alternative; boundary=b\r\n\r\n" +
	"--b\r\nContent-Type: text/plain\r\n\r\n" + script + " https://site.example/recover#token=abc and javascript:alert(1)\r\n" +
	"--b\r\nContent-Type: text/html\r\n\r\n" + script + "<p style=\"x\">Hello</p>\r\n--b--\r\n"

func TestMail_TextsAreEscaped(t *testing.T) {
	b := openMailbox(t, letter)
	wantNoMarkup(t, b.page(t, "/admin/mail"))
	w := b.get("/admin/mail/message/000.eml")
	page := w.Body.String()
	wantNoMarkup(t, page)
	wantAll(t, page, `href="https://site.example/recover#token=abc"`, `sandbox="" src="/admin/mail/message/000.eml/html"`, "X-Odd")
	wantNone(t, page, `href="javascript`)
	if policy := w.Header().Get("Content-Security-Policy"); !strings.HasSuffix(policy, "; frame-src 'self'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("got Content-Security-Policy %q, want frames of this site only and nothing unsafe", policy)
	}
}

func TestMail_HTMLIsSandboxed(t *testing.T) {
	b := openMailbox(t, letter)
	w := b.get("/admin/mail/message/000.eml/html")
	h := w.Header()
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Hello") {
		t.Fatalf("got status %d, want 200 and the HTML: %s", w.Code, w.Body)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
		"Cache-Control":           "no-store", "X-Content-Type-Options": "nosniff", "Content-Type": "text/html; charset=utf-8",
	} {
		if h.Get(name) != want {
			t.Errorf("%s: got %q, want %q", name, h.Get(name), want)
		}
	}
	for _, path := range []string{"/html", "/source", ""} {
		if w := b.stranger().get("/admin/mail/message/000.eml" + path); w.Code != http.StatusForbidden {
			t.Errorf("%q without a session: got status %d, want 401", path, w.Code)
		}
	}
}

func TestMail_SourceIsSentAsStored(t *testing.T) {
	w := openMailbox(t, letter).get("/admin/mail/message/000.eml/source")
	if w.Body.String() != letter || !strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") ||
		w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("got headers %v, want an attachment that is not cached, and the mail as stored: %s", w.Header(), w.Body)
	}
}

func TestMail_ListIsPaged(t *testing.T) {
	var sources []string
	for i := range mailsOnPage + 1 {
		sources = append(sources, fmt.Sprintf("Subject: number %d.\r\n\r\n", i))
	}
	b := openMailbox(t, sources...)
	first := b.page(t, "/admin/mail")
	wantAll(t, first, fmt.Sprintf("number %d.", mailsOnPage), `href="/admin/mail?before=001.eml"`)
	wantNone(t, first, "number 0.")
	second := b.page(t, "/admin/mail?before=001.eml")
	wantAll(t, second, "number 0.")
	wantNone(t, second, "number 1.", `href="/admin/mail?before=`)
}

func TestMail_DeleteAndClear(t *testing.T) {
	b := openMailbox(t, "Subject: first\r\n\r\n", "Subject: second\r\n\r\n", "Subject: third\r\n\r\n")
	b.do(t, "/admin/mail/delete", url.Values{"name": {"001.eml"}})
	page := b.page(t, "/admin/mail")
	wantAll(t, page, "first", "third")
	wantNone(t, page, "second")
	b.do(t, "/admin/mail/clear", url.Values{"newest": {"000.eml"}})
	page = b.page(t, "/admin/mail")
	wantAll(t, page, "third") // newer than what was cleared
	wantNone(t, page, "first")
	for _, name := range []string{"001.eml", "../user-fields.json", ""} {
		if w := b.post("/admin/mail/delete", url.Values{"name": {name}}); w.Code != http.StatusNotFound {
			t.Errorf("deleting %q: got status %d, want 404", name, w.Code)
		}
	}
	if w := b.get("/admin/mail/message/..%2Fuser-fields.json"); w.Code != http.StatusNotFound {
		t.Errorf("a file outside of the mailbox: got status %d, want 404", w.Code)
	}
}

func TestMail_RelayLeavesNoMailbox(t *testing.T) {
	b := open(t)
	wantAll(t, b.page(t, "/admin/mail"), "The configured mail relay sends all mails")
	if w := b.post("/admin/mail/clear", nil); w.Code != http.StatusNotFound {
		t.Errorf("clearing: got status %d, want 404", w.Code)
	}
}
