package system

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/textproto"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// message is a mail.
type message struct {
	header      mail.Header
	to, subject string
	text, html  string
}

// verificationSubjects are the subjects of the mail that follows a registration.
var verificationSubjects = []string{"Confirm that this e-mail address is yours", "Подтвердите, что этот адрес принадлежит вам"}

// isVerification reports whether the mail asks to confirm an address.
func (m message) isVerification() bool { return slices.Contains(verificationSubjects, m.subject) }

// mailsTo returns the stored mails to an address, without verifications, in the order of
// their file names.
func (s *system) mailsTo(t testing.TB, address string) []message {
	t.Helper()
	return slices.DeleteFunc(s.allMailsTo(t, address), message.isVerification)
}

// verificationTo waits for the first verification mail to an address.
func (s *system) verificationTo(t testing.TB, address string) (found message) {
	t.Helper()
	eventually(t, "a verification mail to "+address, func() bool {
		all := s.allMailsTo(t, address)
		i := slices.IndexFunc(all, message.isVerification)
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

func (s *system) allMailsTo(t testing.TB, address string) []message {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.data, "mail", "*.eml"))
	if err != nil {
		t.Fatal(err)
	}
	var found []message
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(source, []byte(address)) {
			continue
		}
		if m := parseMail(t, source); m.to == address {
			found = append(found, m)
		}
	}
	return found
}

// mailTo waits for the first mail to an address that is no verification.
func (s *system) mailTo(t testing.TB, address string) message {
	t.Helper()
	var found []message
	eventually(t, "a mail to "+address, func() bool {
		found = s.mailsTo(t, address)
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
	m := message{header: parsed.Header, to: to[0].Address, subject: subject}
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

// relay is an SMTP server that accepts every mail but those to refused@…, and delivers
// none.
type relay struct {
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	mails [][]byte
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener}
	r.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			r.running.Go(func() { r.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // ends the loop above
		r.running.Wait()
	})
	return r
}

// serve implements as much of SMTP (RFC 5321) as a well-behaved client needs.
func (r *relay) serve(conn net.Conn) {
	defer conn.Close()
	client := textproto.NewReader(bufio.NewReader(conn))
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") } // a lost connection ends the next read
	say("220 relay.example")
	for {
		line, err := client.ReadLine()
		if err != nil {
			return
		}
		switch strings.ToUpper(line[:min(4, len(line))]) {
		case "DATA":
			say("354 go on")
			mail, err := client.ReadDotBytes()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.mails = append(r.mails, mail)
			r.mu.Unlock()
			say("250 accepted")
		case "RCPT":
			if strings.Contains(line, "<refused@") {
				say("550 5.1.1 no such user")
			} else {
				say("250 ok")
			}
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 relay.example")
		}
	}
}

func (r *relay) accepted() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mails
}

func TestMail_ByRelay(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	s := start(t, options{database: testkit.SQLite(t), settings: cheap,
		flags: []string{"--smtp", "smtp://" + r.listener.Addr().String(), "--mail-from", "accounts@cms.example"}})
	u := s.newUser(t)
	s.post(t, "recover/", params{"login": u.login}).want(t, "")
	var m message
	eventually(t, "a mail for recovery arrives at the relay", func() bool {
		for _, source := range r.accepted() {
			if found := parseMail(t, source); !found.isVerification() {
				m = found
			}
		}
		return m.to != ""
	})
	if m.to != u.email || !strings.Contains(m.header.Get("From"), "accounts@cms.example") {
		t.Errorf("got a mail from %s to %s, want accounts@cms.example and %s", m.header.Get("From"), m.to, u.email)
	}
	s.post(t, "recover_confirm/", confirm(m.token(t), recovered)).want(t, "")
	p := s.post(t, "auth/", params{"login": u.login, "password": recovered}).pair(t)
	s.postAs(t, p, "email/", params{"password": recovered, "email": "refused@mail.example"}).want(t, "")
	eventually(t, "the event of a permanently refused mail is published", func() bool { return s.events(t, "mail_refused", u.ID) == 1 })
	if kept, _ := filepath.Glob(filepath.Join(s.data, "mail", "*")); len(kept) != 0 {
		t.Errorf("mails are stored too: %q", kept)
	}
}
