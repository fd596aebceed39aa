package mailbox

import (
	"bytes"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"
	"time"
)

// Mail is a captured mail as its reader sees it: a text and HTML, without transfer encoding.
// Its content is not trusted.
type Mail struct {
	Name     string // of its file
	From, To string
	Subject  string
	Date     time.Time // zero if there is none
	Headers  []Header  // sorted by name
	Text     string    // empty if it has none
	HTML     string    // empty if it has none
	Broken   bool      // it could not be read, or only in part
}

// Header is a header of a mail.
type Header struct{ Name, Value string }

// parse reads a mail as far as possible.
func parse(name string, source []byte) Mail {
	m := Mail{Name: name}
	read, err := mail.ReadMessage(bytes.NewReader(source))
	if err != nil {
		m.Broken = true
		return m
	}
	m.From, m.To, m.Subject = decode(read.Header.Get("From")), decode(read.Header.Get("To")), decode(read.Header.Get("Subject"))
	m.Date, _ = read.Header.Date() // the zero time if there is none
	for _, key := range slices.Sorted(maps.Keys(read.Header)) {
		for _, value := range read.Header[key] {
			m.Headers = append(m.Headers, Header{Name: key, Value: decode(value)})
		}
	}
	kind, params, _ := mime.ParseMediaType(read.Header.Get("Content-Type"))
	if kind != "multipart/alternative" {
		m.add(kind, read.Body)
		return m
	}
	parts := multipart.NewReader(read.Body, params["boundary"])
	part, err := parts.NextRawPart()
	for ; err == nil; part, err = parts.NextRawPart() {
		kind, _, _ = mime.ParseMediaType(part.Header.Get("Content-Type"))
		m.add(kind, part)
	}
	m.Broken = m.Broken || err != io.EOF
	return m
}

// add adds the content of a mail, or of one of its alternatives.
func (m *Mail) add(kind string, body io.Reader) {
	data, err := io.ReadAll(body)
	m.Broken = m.Broken || err != nil
	text := strings.ToValidUTF8(strings.ReplaceAll(string(data), "\r\n", "\n"), "\uFFFD")
	if kind == "text/html" {
		m.HTML = text
	} else {
		m.Text = text
	}
}

// decode decodes a header's encoded words, and returns the value unchanged if they
// are invalid.
func decode(value string) string {
	text, err := new(mime.WordDecoder).DecodeHeader(value)
	if err != nil {
		text = value
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
