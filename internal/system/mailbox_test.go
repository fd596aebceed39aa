package system

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// message is a captured mail.
type message struct {
	header           mail.Header
	to, subject      string
	text, html, file string
}

// mailsTo returns the mails to an address, oldest first by file name.
func (s *system) mailsTo(t testing.TB, address string) []message {
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
			m.file = file
			found = append(found, m)
		}
	}
	return found
}

// mailTo waits for the first mail to an address.
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
		t.Fatalf("a mail goes to %q: %v", parsed.Header.Get("To"), err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	m := message{header: parsed.Header, to: to[0].Address, subject: subject}
	m.addParts(t, parsed.Header.Get("Content-Type"), parsed.Header.Get("Content-Transfer-Encoding"), parsed.Body)
	return m
}

// addParts notes the text and HTML of a part and of those within it.
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

// token returns the token that stands alone on one line of the text.
func (m message) token(t testing.TB) string {
	t.Helper()
	lines := tokenLine.FindAllString(m.text, -1)
	if len(lines) != 1 {
		t.Fatalf("the mail has %d lines that are a token:\n%s", len(lines), m.text)
	}
	return lines[0]
}
