package mailer

import (
	"bytes"
	"context"
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

func TestSMTP_SendsMail(t *testing.T) {
	relay := startRelay(t)
	sender, err := NewSMTP("smtp://cms:s%40cr%C3%A9t@"+relay.addr, parsedFrom(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	got := <-relay.taken
	if got.login != "\x00cms\x00s@crét" {
		t.Errorf("got login %q, want cms", got.login)
	}
	if got.from != "no-reply@example.org" || got.to != "anna@example.com" {
		t.Errorf("got envelope from %q to %q", got.from, got.to)
	}
	if diff := cmp.Diff(wantLetter(sample()), readLetter(t, got.data)); diff != "" {
		t.Error(diff)
	}
	if !aloneOnItsLine(got.data, token) {
		t.Errorf("want the token alone on a line of\n%s", got.data)
	}
}

func TestSMTP_FailureAfterAcceptanceIsIgnored(t *testing.T) {
	relay := startRelay(t)
	relay.hangUpAfterData = true
	sender, err := NewSMTP("smtp://"+relay.addr, parsedFrom(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(t.Context(), sample()); err != nil {
		t.Errorf("got %v, want nil: the relay has accepted the mail", err)
	}
	<-relay.taken
}

func TestSMTP_ErrorContainsNoSecrets(t *testing.T) {
	relay := startRelay(t)
	relay.replies = map[string]string{"RCPT": "550 no such box"}
	sender, err := NewSMTP("smtp://cms:hunter2@"+relay.addr, parsedFrom(t))
	if err != nil {
		t.Fatal(err)
	}
	err = sender.Send(t.Context(), sample())
	if err == nil {
		t.Fatal("got no error for a refused mail")
	}
	for _, secret := range []string{"hunter2", token} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error contains a secret: %v", err)
		}
	}
}

func TestSMTP_ErrorsHaveNoWordsOfTheRelay(t *testing.T) {
	const words = "greylisted, anna@example.com comes back as https://relay.example/marker"
	for step, codes := range map[string]string{
		"AUTH": "454 4.7.0", "MAIL": "451 4.7.1", "RCPT": "450 4.2.0", "DATA": "451 4.3.0", "content": "451 4.7.1",
		"RCPT for good": "550 5.1.1", "content for good": "554 5.7.1",
	} {
		relay := startRelay(t)
		at, _, _ := strings.Cut(step, " ")
		relay.replies, relay.extensions = map[string]string{at: codes + " " + words}, []string{"ENHANCEDSTATUSCODES"}
		sender, err := NewSMTP("smtp://cms@example.org:hunter2@"+relay.addr, parsedFrom(t))
		if err == nil {
			err = sender.Send(t.Context(), sample())
		}
		if err == nil || strings.Contains(err.Error(), "@") || strings.Contains(err.Error(), "marker") || !strings.Contains(err.Error(), codes) {
			t.Errorf("%s: got error %v, want the codes %s and none of the relay's words", step, err, codes)
		}
	}
	relay := startRelay(t)
	relay.replies = map[string]string{"AUTH": "535 5.7.8 " + words}
	sender, err := NewSMTP("smtp://cms@example.org:hunter2@"+relay.addr, parsedFrom(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Check(t.Context()); err == nil || strings.Contains(err.Error(), "@") || strings.Contains(err.Error(), "marker") {
		t.Errorf("the check: got error %v, want none of the relay's words", err)
	}
}

func TestSMTP_PermanentRefusals(t *testing.T) {
	const enhanced = "ENHANCEDSTATUSCODES"
	for name, test := range map[string]struct {
		step, reply string
		extension   string
		reason      string // of a permanent refusal; empty for a failure that is retried
	}{
		"550 to RCPT":                       {"RCPT", "550 no such box", "", "550 no such box"},
		"550 to RCPT with an enhanced code": {"RCPT", "550 5.1.1 <anna@example.com>: no such box", enhanced, "550 5.1.1 <anna@example.com>: no such box"},
		"550 to RCPT in several lines":      {"RCPT", "550-5.7.1 blocked\r\n550 5.7.1 see your postmaster", enhanced, "550 5.7.1 blocked 5.7.1 see your postmaster"},
		"553 to RCPT":                       {"RCPT", "553 bad mailbox name", "", "553 bad mailbox name"},
		"450 to RCPT":                       {"RCPT", "450 greylisted", "", ""},
		"450 to RCPT that mentions 550":     {"RCPT", "450 4.2.0 later, or it will be a 550 5.1.1", enhanced, ""},
		"530 to RCPT: sign in first":        {"RCPT", "530 5.7.0 authentication required", enhanced, ""},
		"535 to AUTH":                       {"AUTH", "535 5.7.8 wrong password", enhanced, ""},
		"550 to MAIL":                       {"MAIL", "550 5.7.1 not your address", enhanced, ""},
		"554 to DATA":                       {"DATA", "554 5.5.1 no valid recipients", enhanced, ""},
		"554 to the content":                {"content", "554 looks like spam", "", "554 looks like spam"},
		"554 5.7.1 to the content":          {"content", "554 5.7.1 looks like spam", enhanced, "554 5.7.1 looks like spam"},
		"550 5.1.1 to the content":          {"content", "550 5.1.1 no such box", enhanced, "550 5.1.1 no such box"},
		"552 5.2.2 to the content":          {"content", "552 5.2.2 mailbox full", enhanced, ""},
		"552 5.2.2 of a relay that offers no enhanced codes": {"content", "552 5.2.2 mailbox full", "", ""},
		"550 5.1.1 of a relay that offers no enhanced codes": {"content", "550 5.1.1 no such box", "", "550 5.1.1 no such box"},
		"451 to the content": {"content", "451 disk full", "", ""},
		"500 to the content": {"content", "500 line too long", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			relay := startRelay(t)
			relay.replies = map[string]string{test.step: test.reply}
			if test.extension != "" {
				relay.extensions = []string{test.extension}
			}
			sender, err := NewSMTP("smtp://cms:hunter2@"+relay.addr, parsedFrom(t))
			if err != nil {
				t.Fatal(err)
			}
			err = sender.Send(t.Context(), sample())
			if err == nil {
				t.Fatal("got no error for a refused mail")
			}
			var refused *personal.MailRefusedError
			switch isRefused := errors.As(err, &refused); {
			case isRefused != (test.reason != ""):
				t.Errorf("got a permanent refusal: %t, want %t (%v)", isRefused, test.reason != "", err)
			case isRefused && refused.Reason != test.reason:
				t.Errorf("got reason %q, want %q", refused.Reason, test.reason)
			}
		})
	}
}

func TestSMTP_ConnectionFailureIsRetried(t *testing.T) {
	sender, err := NewSMTP("smtp://127.0.0.1:9", parsedFrom(t))
	if err != nil {
		t.Fatal(err)
	}
	err = sender.Send(t.Context(), sample())
	var refused *personal.MailRefusedError
	if err == nil || errors.As(err, &refused) {
		t.Errorf("got %v, want a failure that is retried", err)
	}
}

func TestSMTP_RefusalRepeatsNoToken(t *testing.T) {
	relay := startRelay(t)
	relay.replies = map[string]string{"content": "554 5.7.1 blocked: https://example.com/account/recover#token=" + token}
	sender, err := NewSMTP("smtp://"+relay.addr, parsedFrom(t))
	if err != nil {
		t.Fatal(err)
	}
	err = sender.Send(t.Context(), sample())
	var refused *personal.MailRefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a permanent refusal", err)
	}
	if want := "554 5.7.1 blocked: https://example.com/account/recover#token=[...]"; refused.Reason != want {
		t.Errorf("got reason %q, want %q", refused.Reason, want)
	}
	if strings.Contains(err.Error(), token) {
		t.Errorf("the error contains the token: %v", err)
	}
}

func TestSMTP_SendEndsWithContext(t *testing.T) {
	sender, err := NewSMTP("smtp://127.0.0.1:9", parsedFrom(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sender.Send(ctx, sample()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
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
		_, err := NewSMTP(rawURL, parsedFrom(t))
		if err == nil {
			t.Errorf("%s: got no error", rawURL)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "hun%") {
			t.Errorf("the error contains a part of the URL: %v", err)
		}
	}
}
