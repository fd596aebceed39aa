package system

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit/smtprelay"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// siteName is the name of the sites that have one.
const siteName = "Fish & Chips"

// message is a mail.
type message struct {
	kind        mailtext.Kind // "" if the subject is not that of a built-in template
	header      mail.Header
	to, subject string
	text, html  string
}

// subjects are the kinds of the built-in mails of a site without a name by their subjects, in
// every language.
var subjects = sync.OnceValue(func() map[string]mailtext.Kind {
	kinds, built, nameless := map[string]mailtext.Kind{}, mailtext.BuiltIn(), mailtext.Sample()
	nameless.Site = ""
	for _, d := range mailtext.Descriptions() {
		for _, locale := range built.Locales(d.Kind) {
			for _, nameless.Proves = range []bool{false, true} { // else subjects have no branch
				subject, _, _, err := built.Write(d.Kind, locale, nameless)
				if err != nil {
					panic(err) // the templates are part of the test binary
				}
				kinds[subject] = d.Kind
			}
		}
	}
	return kinds
})

// mails returns all stored mails, in the order of their file names.
func (s *system) mails(t testing.TB) (found []message) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.data, "mail", "*.eml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		found = append(found, s.readMail(t, file))
	}
	return found
}

// readMail parses a stored mail once.
func (s *system) readMail(t testing.TB, file string) message {
	t.Helper()
	if known, read := s.parsed.Load(file); read {
		return known.(message)
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := parseMail(t, source)
	s.parsed.Store(file, m)
	return m
}

// mailsTo returns the stored mails of a kind to an address.
func (s *system) mailsTo(t testing.TB, kind mailtext.Kind, address string) (found []message) {
	t.Helper()
	for _, m := range s.mails(t) {
		if m.kind == kind && m.to == address {
			found = append(found, m)
		}
	}
	return found
}

// mailTo waits for the first mail of a kind to an address.
func (s *system) mailTo(t testing.TB, kind mailtext.Kind, address string) message {
	t.Helper()
	var found []message
	eventually(t, fmt.Sprintf("a mail %s to %s", kind, address), func() bool {
		found = s.mailsTo(t, kind, address)
		return len(found) > 0
	})
	return found[0]
}

func parseMail(t testing.TB, source []byte) message {
	t.Helper()
	parsed, err := mail.ReadMessage(bytes.NewReader(source))
	if err != nil {
		t.Fatal(err)
	}
	to, err := mail.ParseAddressList(parsed.Header.Get("To"))
	if err != nil || len(to) != 1 {
		t.Fatalf("got recipients %q (%v), want one", parsed.Header.Get("To"), err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	m := message{kind: subjects()[strings.TrimPrefix(subject, siteName+": ")], header: parsed.Header, to: to[0].Address, subject: subject}
	m.addParts(t, parsed.Header.Get("Content-Type"), parsed.Header.Get("Content-Transfer-Encoding"), parsed.Body)
	return m
}

// addParts adds the text and HTML of a part and of the parts within it.
func (m *message) addParts(t testing.TB, contentType, encoding string, body io.Reader) {
	t.Helper()
	mediaType, attributes, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(mediaType, "multipart/") {
		parts := multipart.NewReader(body, attributes["boundary"])
		for {
			part, err := parts.NextRawPart()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			m.addParts(t, part.Header.Get("Content-Type"), part.Header.Get("Content-Transfer-Encoding"), part)
		}
	}
	switch strings.ToLower(encoding) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	content, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(content), "\r\n", "\n")
	switch mediaType {
	case "text/plain":
		m.text += text
	case "text/html":
		m.html += text
	}
}

var tokenLine = regexp.MustCompile(`(?m)^[A-Za-z0-9_-]{43}$`)

// token returns the token, which has a line of the text to itself.
func (m message) token(t testing.TB) string {
	t.Helper()
	lines := tokenLine.FindAllString(m.text, -1)
	if len(lines) != 1 {
		t.Fatalf("got %d lines that are a token, want 1:\n%s", len(lines), m.text)
	}
	return lines[0]
}

// wantLink checks that the link is in the text and in the HTML.
func (m message) wantLink(t testing.TB, link string) {
	t.Helper()
	if !strings.Contains(m.text, link) || !strings.Contains(m.html, link) {
		t.Errorf("the link %s is not in text and HTML:\n%s\n%s", link, m.text, m.html)
	}
}

func TestMail_ByRelay(t *testing.T) {
	t.Parallel()
	r := &smtprelay.Relay{Scripts: []smtprelay.Script{{
		Replies: map[string]string{"RCPT <refused@": "550 5.1.1 no such user"}, Delays: map[string]time.Duration{"DOT <slow@": time.Hour},
	}}}
	const link = "https://elsewhere.example/confirm#token="
	s := start(t, options{
		database: testdb.SQLite(t), settings: cheap + "[site]\nname = \"" + siteName + "\"\n[email]\nurl = \"" + link + "{token}\"\n",
		flags: []string{"--url", "https://site.example/", "--smtp", "smtp://" + r.Serve(t), "--mail-from", "accounts@cms.example"},
	})
	u := s.newUser(t)
	for _, scheme := range []string{"", "https", "http"} { // no proxy is named
		testHTTPS(t, s.url, scheme, u.login, u.password)
	}
	s.post(t, "recover/", params{"login": u.login}).want(t, "")
	var m message
	eventually(t, "the recovery mail arrives at the relay", func() bool {
		return slices.ContainsFunc(r.Accepted(), func(source []byte) bool {
			m = parseMail(t, source)
			return m.kind == mailtext.Recovery
		})
	})
	if m.to != u.email || !strings.Contains(m.header.Get("From"), "accounts@cms.example") {
		t.Errorf("got a mail from %s to %s, want accounts@cms.example and %s", m.header.Get("From"), m.to, u.email)
	}
	s.post(t, "recover_confirm/", confirm(m.token(t), recovered)).want(t, "")
	m.wantLink(t, "https://site.example/account/recover#token="+m.token(t))
	first, _, _ := strings.Cut(m.text, "\n")
	if m.subject != siteName+": Set a new password" || !strings.Contains(first, siteName) || !strings.Contains(m.html, "Fish &amp; Chips") {
		t.Errorf("got the subject %q, the first line %q and\n%s\nwant the name of the site in each", m.subject, first, m.html)
	}
	p := s.post(t, "auth/", params{"login": u.login, "password": recovered}).pair(t)
	s.postAs(t, p, "email/", params{"password": recovered, "email": "new@mail.example"}).want(t, "")
	eventually(t, "the mail to the new address arrives at the relay", func() bool {
		return slices.ContainsFunc(r.Accepted(), func(source []byte) bool {
			m = parseMail(t, source)
			return m.kind == mailtext.EmailChange
		})
	})
	m.wantLink(t, link+m.token(t)) // settings win
	s.postAs(t, p, "email/", params{"password": recovered, "email": "refused@mail.example"}).want(t, "")
	eventually(t, "the event of a permanently refused mail is published", func() bool { return s.events(t, "mail_refused", u.ID) == 1 })
	if kept, _ := filepath.Glob(filepath.Join(s.data, "mail", "*")); len(kept) != 0 {
		t.Errorf("mails are stored too: %q", kept)
	}
	// A relay that is slow does not hold up the end, and what is known of the mail is stored.
	s.postAs(t, p, "email/", params{"password": recovered, "email": "slow@mail.example"}).want(t, "")
	eventually(t, "the mail waits for the relay's reply", func() bool {
		return slices.ContainsFunc(r.Mails(), func(m smtprelay.Mail) bool { return strings.Contains(m.To, "slow@") })
	})
	s.stop(t)
	if got := s.log.linesWith("a job failed and will be retried"); len(got) != 1 || !strings.Contains(got[0], "perhaps sent") {
		t.Errorf("got the log %q, want that the mail is perhaps sent", got)
	}
}
