// Package mailer delivers the mails of the personal-account module: over SMTP,
// or, for development, into a folder of .eml files.
package mailer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/mail"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"github.com/cms-personal/personal/shared/personal"
)

// Sender takes mails for delivery. The same mail may come twice.
type Sender interface {
	Send(ctx context.Context, m personal.Mail) error
	// Check returns why a mail could not be sent now, if it could not.
	Check(ctx context.Context) error
}

// maxID bounds what is kept of a mail's ID, in characters.
const maxID = 64

var errRecipient = errors.New("the recipient is not one plain address")

// compose makes the message of RFC 5322: text with an HTML alternative. No error
// holds an address or a part of the texts.
func compose(m personal.Mail, from *mail.Address, encoding gomail.Encoding) (*gomail.Msg, error) {
	to, err := mail.ParseAddress(m.To)
	if err != nil || to.Address != m.To {
		return nil, errRecipient
	}
	msg := gomail.NewMsg(gomail.WithEncoding(encoding), gomail.WithNoDefaultUserAgent())
	msg.FromMailAddress(from)
	msg.ToMailAddress(to)
	msg.Subject(oneLine(m.Subject))
	msg.SetDate()
	msg.SetMessageIDWithValue(cleanID(m.ID) + "@" + domain(from))
	msg.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no vacation notices, please
	msg.SetBodyString(gomail.TypeTextPlain, wireLines(m.Text))
	msg.AddAlternativeString(gomail.TypeTextHTML, wireLines(m.HTML))
	return msg, nil
}

// ParseFrom reads the sender's address, with or without a name.
func ParseFrom(s string) (*mail.Address, error) {
	a, err := mail.ParseAddress(s)
	if err != nil || domain(a) == "" {
		return nil, fmt.Errorf("%q is not a mail address", s)
	}
	return a, nil
}

func domain(a *mail.Address) string {
	return a.Address[strings.LastIndexByte(a.Address, '@')+1:]
}

// cleanID returns an ID that is fit for a Message-ID's left side and for a file
// name; one that is random if nothing is left of it.
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

// oneLine keeps a header from becoming two.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}

// wireLines ends lines as mails do.
func wireLines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}
