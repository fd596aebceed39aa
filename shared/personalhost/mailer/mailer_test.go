package mailer

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

const token = "-_Zr0pq7cB3kFJmU1tV5wXyY2aG4dH6eI8lN9oQsAxk"

func sample() personal.Mail {
	return personal.Mail{
		ID:      "mail-17",
		To:      "anna@example.com",
		Subject: "Новый пароль",
		Text:    "Код:\n\n" + token + "\n\nhttps://example.com/account/recover#token=" + token + "\n",
		HTML:    "<p>Код: <code>" + token + "</code></p>\n",
	}
}

func parsedFrom(t *testing.T) *mail.Address {
	t.Helper()
	from, err := ParseFrom("Site <no-reply@example.org>")
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// letter is a message as its reader sees it.
type letter struct{ From, To, Subject, MessageID, Text, HTML string }

func readLetter(t *testing.T, raw []byte) letter {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("got %v, want a message", err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Header.Date(); err != nil {
		t.Errorf("date: got %v", err)
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("got content type %q, %v, want multipart/alternative", kind, err)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	return letter{
		From: m.Header.Get("From"), To: m.Header.Get("To"), Subject: subject,
		MessageID: m.Header.Get("Message-Id"),
		Text:      readPart(t, parts, "text/plain"), HTML: readPart(t, parts, "text/html"),
	}
}

func readPart(t *testing.T, parts *multipart.Reader, want string) string {
	t.Helper()
	part, err := parts.NextRawPart()
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type")); got != want {
		t.Fatalf("got part %q, want %q", got, want)
	}
	var r io.Reader = part
	if part.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
		r = quotedprintable.NewReader(part)
	}
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(body), "\r\n", "\n")
}

func wantLetter(m personal.Mail) letter {
	return letter{
		From: `"Site" <no-reply@example.org>`, To: "<" + m.To + ">", Subject: m.Subject,
		MessageID: "<mail-17@example.org>", Text: m.Text, HTML: m.HTML,
	}
}

func aloneOnItsLine(raw []byte, text string) bool {
	return slices.Contains(strings.Split(string(raw), "\r\n"), text)
}

func TestCapture_WritesReadableMessages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mail")
	capture, err := NewCapture(dir, parsedFrom(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := capture.Send(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	names, raw := captured(t, dir)
	if len(names) != 1 || !strings.HasSuffix(names[0], "Z-mail-17.eml") {
		t.Fatalf("got files %q, want one", names)
	}
	if diff := cmp.Diff(wantLetter(sample()), readLetter(t, raw)); diff != "" {
		t.Error(diff)
	}
	if !aloneOnItsLine(raw, token) {
		t.Errorf("want the token alone on a line of\n%s", raw)
	}
}

func TestCapture_NamesSortByTime(t *testing.T) {
	dir := t.TempDir()
	capture, err := NewCapture(dir, parsedFrom(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"c", "a", "b"} {
		m := sample()
		m.ID = id
		if err := capture.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	names, _ := captured(t, dir)
	var order string
	for _, name := range names { // sorted by name
		order += strings.TrimSuffix(name, ".eml")[len(name)-len("x.eml"):]
	}
	if order != "cab" {
		t.Errorf("got mails %q by name, want cab, by time", order)
	}
}

func captured(t *testing.T, dir string) (names []string, last []byte) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
		if last, err = os.ReadFile(filepath.Join(dir, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return names, last
}

func TestCleanID_SafeForFilesAndHeaders(t *testing.T) {
	for id, want := range map[string]string{
		"../../etc/x":             "etcx",
		"a\r\nBcc: b@example.com": "aBccbexamplecom",
		strings.Repeat("x", 500):  strings.Repeat("x", maxID),
		"0197-ab_C":               "0197-ab_C",
	} {
		if got := cleanID(id); got != want {
			t.Errorf("cleanID(%q) = %q, want %q", id, got, want)
		}
	}
	if one, other := cleanID("…"), cleanID("…"); one == other {
		t.Errorf("got the same ID %q twice for unusable IDs", one)
	}
}

func TestCompose_RefusesAllButOnePlainAddress(t *testing.T) {
	capture, err := NewCapture(t.TempDir(), parsedFrom(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"", "anna", "Anna <anna@example.com>", "a@example.com, b@example.com", "a@example.com\r\nBcc: b@example.com"} {
		m := sample()
		m.To = to
		if err := capture.Send(t.Context(), m); !errors.Is(err, errRecipient) {
			t.Errorf("to %q: got %v, want %v", to, err, errRecipient)
		}
	}
}

func TestNewSMTP_InvalidURLIsNotShown(t *testing.T) {
	for _, rawURL := range []string{
		"http://cms:hunter2@mail.example.com",
		"smtp://cms:hunter2@",
		"smtp://cms:hun%ter2@mail.example.com",
		"smtp://cms:hunter2@mail.example.com:99999",
		"smtp://cms:hunter2@mail.example.com/path",
		"smtp://cms:hunter2@mail.example.com?starttls=off",
		"hunter2",
	} {
		_, err := NewSMTP(rawURL, parsedFrom(t), Options{})
		if err == nil {
			t.Errorf("%s: got no error", rawURL)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "hun%") {
			t.Errorf("the error contains a part of the URL: %v", err)
		}
	}
}
