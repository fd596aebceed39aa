package mailbox

import (
	"bytes"
	"encoding/base64"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"slices"
	"strings"
	"time"
)

// maxDepth bounds the nesting of a mail's parts.
const maxDepth = 8

// Mail is a mail as its reader sees it. Its content is not trusted.
type Mail struct {
	Name        string // of its file
	From, To    string
	Subject     string
	Date        time.Time // zero if there is none
	Headers     []Header  // sorted by name
	Text        string    // empty if it has none
	HTML        string    // empty if it has none
	Attachments []Attachment
	Broken      bool // it could not be read, or only in part
}

// Header is a header of a mail.
type Header struct{ Name, Value string }

// Attachment is a part that is not shown as text or HTML.
type Attachment struct {
	Name string // may be empty
	Type string // media type
	Size int    // in bytes
}

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
	m.addPart(header(read.Header), read.Body, 0)
	return m
}

// header holds the headers of a mail or of a part.
type header interface{ Get(name string) string }

// addPart adds the content of a part, and of the parts within it.
func (m *Mail) addPart(h header, body io.Reader, depth int) {
	kind, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		kind, params = "text/plain", nil // RFC 2045, section 5.2
	}
	if strings.HasPrefix(kind, "multipart/") && depth < maxDepth {
		parts := multipart.NewReader(body, params["boundary"])
		part, err := parts.NextRawPart()
		for ; err == nil; part, err = parts.NextRawPart() {
			m.addPart(part.Header, part, depth+1)
		}
		m.Broken = m.Broken || err != io.EOF
		return
	}
	data, err := io.ReadAll(decoded(h.Get("Content-Transfer-Encoding"), body))
	m.Broken = m.Broken || err != nil
	disposition, file, _ := mime.ParseMediaType(h.Get("Content-Disposition"))
	text := strings.ToValidUTF8(strings.ReplaceAll(string(data), "\r\n", "\n"), "\uFFFD")
	switch {
	case kind == "text/plain" && disposition != "attachment" && m.Text == "":
		m.Text = text
	case kind == "text/html" && disposition != "attachment" && m.HTML == "":
		m.HTML = text
	default:
		m.Attachments = append(m.Attachments, Attachment{Name: decode(file["filename"]), Type: kind, Size: len(data)})
	}
}

// decoded undoes a transfer encoding.
func decoded(encoding string, body io.Reader) io.Reader {
	switch strings.ToLower(encoding) {
	case "quoted-printable":
		return quotedprintable.NewReader(body)
	case "base64":
		return base64.NewDecoder(base64.StdEncoding, body)
	}
	return body
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
