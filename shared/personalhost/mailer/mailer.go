// Package mailer delivers the mails of the personal-account module: over SMTP or,
// for development, into a folder of .eml files.
package mailer

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"
	"golang.org/x/net/idna"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/personal"
)

// Sender delivers mails.
type Sender interface {
	// Send may be called more than once for the same mail.
	Send(ctx context.Context, m personal.Mail) error
	// Check returns an error if mails cannot be sent now.
	Check(ctx context.Context) error
}

// Capture writes mails to DIR/TIME-ID.eml instead of sending them. It is for
// development: users who can read the folder can take over accounts.
type Capture struct {
	dir  string
	from *mail.Address
}

// NewCapture returns a sender that writes into dir, which it creates if missing.
func NewCapture(dir string, from *mail.Address) (*Capture, error) {
	from, err := asciiDomain(from)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the mail folder: %w", err)
	}
	return &Capture{dir: dir, from: from}, nil
}

// Folder returns the folder of the mails.
func (c *Capture) Folder() string { return c.dir }

// Send writes one file. The names sort by time. A file is complete when it appears.
func (c *Capture) Send(_ context.Context, m personal.Mail) error {
	// Without a transfer encoding, people and tests can read the file as it is: the
	// token is alone on its line, and links are not broken.
	msg, err := compose(m, c.from, gomail.NoEncoding)
	if err != nil {
		return fmt.Errorf("composing a mail: %w", err)
	}
	var b bytes.Buffer
	if _, err := msg.WriteTo(&b); err != nil {
		return fmt.Errorf("composing a mail: %w", err)
	}
	name := time.Now().UTC().Format("20060102T150405.000000000Z") + "-" + cleanID(m.ID) + ".eml"
	return durable.WriteFile(filepath.Join(c.dir, name), b.Bytes())
}

// Check returns an error if the folder is missing.
func (c *Capture) Check(context.Context) error {
	if _, err := os.Stat(c.dir); err != nil {
		return fmt.Errorf("checking the mail folder: %w", err)
	}
	return nil
}

var errRecipient = errors.New("the recipient is not one plain address")

// compose returns a message (RFC 5322): text with an HTML alternative. Errors
// contain no address and no part of the texts.
func compose(m personal.Mail, from *mail.Address, encoding gomail.Encoding) (*gomail.Msg, error) {
	to, err := mail.ParseAddress(m.To)
	if err != nil || to.Address != m.To {
		return nil, errRecipient
	}
	msg := gomail.NewMsg(gomail.WithEncoding(encoding), gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(from)
	msg.ToMailAddress(to)
	msg.Subject(strings.Join(strings.Fields(m.Subject), " ")) // a line break would start another header
	msg.SetDate()
	msg.SetMessageIDWithValue(cleanID(m.ID) + "@" + domain(from))
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: prevents automatic replies
	msg.SetBodyString(gomail.TypeTextPlain, crlf(m.Text))
	msg.AddAlternativeString(gomail.TypeTextHTML, crlf(m.HTML))
	return msg, nil
}

// ParseFrom parses the sender's address, with or without a name. The domain may be in Unicode.
func ParseFrom(s string) (*mail.Address, error) {
	a, err := mail.ParseAddress(s)
	if err != nil || domain(a) == "" {
		return nil, fmt.Errorf("%q is not a mail address", s)
	}
	return asciiDomain(a)
}

// asciiDomain returns an address with its domain as A-labels (RFC 5890), as relays need it.
func asciiDomain(a *mail.Address) (*mail.Address, error) {
	name, err := ascii(domain(a))
	if err != nil {
		return nil, fmt.Errorf("the sender's domain is not a domain: %w", err)
	}
	return &mail.Address{Name: a.Name, Address: strings.TrimSuffix(a.Address, domain(a)) + name}, nil
}

// ascii returns a domain as A-labels, and a text that is ASCII as it is.
func ascii(domain string) (string, error) {
	if isASCII(domain) {
		return domain, nil
	}
	return idna.Lookup.ToASCII(domain)
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}

func domain(a *mail.Address) string {
	return a.Address[strings.LastIndexByte(a.Address, '@')+1:]
}

// maxID bounds the length of a clean ID, in characters.
const maxID = 64

// cleanID returns the characters of an ID that are safe in a Message-ID and in a
// file name, or a random ID if there are none.
func cleanID(id string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return -1
	}, id)
	if clean == "" {
		return rand.Text()
	}
	return clean[:min(len(clean), maxID)]
}

// crlf ends lines with CR LF, as mails require.
func crlf(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}
