package mailer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strconv"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/cms-personal/personal/shared/personal"
)

// smtpTimeout bounds connecting with all that belongs to it, and then sending.
const smtpTimeout = 15 * time.Second

// SMTP hands mails to a relay, with one connection for each.
type SMTP struct {
	client *gomail.Client
	from   *mail.Address
}

// NewSMTP returns a sender for a relay:
//
//	smtp://user:password@host:587   TLS by STARTTLS, without which nothing is sent
//	smtps://user:password@host:465  TLS from the start
//
// On loopback smtp:// is plain. User and password may be left out. It does not
// connect yet. Its errors never hold a part of the URL.
func NewSMTP(rawURL string, from *mail.Address) (*SMTP, error) {
	u, err := parseSMTP(rawURL)
	if err != nil {
		return nil, err
	}
	client, err := gomail.NewClient(u.Hostname(), smtpOptions(u)...)
	if err != nil {
		return nil, errors.New("no relay can be reached by it: check host and port")
	}
	return &SMTP{client: client, from: from}, nil
}

func parseSMTP(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return nil, errors.New("it cannot be read as a URL (special characters in a password are written as %XX)")
	case u.Scheme != "smtp" && u.Scheme != "smtps":
		return nil, errors.New("it must begin with smtp:// or smtps://")
	case u.Hostname() == "":
		return nil, errors.New("it names no host")
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("nothing may follow the host and port")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, errors.New("the port must be from 1 to 65535")
		}
	}
	return u, nil
}

func smtpOptions(u *url.URL) []gomail.Option {
	plain := u.Scheme == "smtp" && IsLoopback(u.Hostname())
	options := []gomail.Option{gomail.WithTimeout(smtpTimeout), gomail.WithPort(smtpPort(u))}
	switch {
	case u.Scheme == "smtps":
		options = append(options, gomail.WithSSL())
	case plain:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if u.User == nil {
		return options
	}
	method := gomail.SMTPAuthAutoDiscover // of what TLS protects
	if plain {
		method = gomail.SMTPAuthPlainNoEnc
	}
	password, _ := u.User.Password()
	return append(options, gomail.WithSMTPAuth(method),
		gomail.WithUsername(u.User.Username()), gomail.WithPassword(password))
}

func smtpPort(u *url.URL) int {
	if port, err := strconv.Atoi(u.Port()); err == nil {
		return port
	}
	if u.Scheme == "smtps" {
		return 465
	}
	return 587
}

// IsLoopback reports whether a host name or address is on this machine alone.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Send returns nil once the relay has taken the mail over, and a
// [*personal.MailRefusedError] if the relay refuses it for good.
func (s *SMTP) Send(ctx context.Context, m personal.Mail) error {
	msg, err := compose(m, s.from, gomail.EncodingQP)
	if err != nil {
		return fmt.Errorf("composing a mail: %w", err)
	}
	err = s.client.DialAndSendWithContext(ctx, msg)
	if err == nil || msg.IsDelivered() { // a relay that fails at the good-bye has the mail all the same
		return nil
	}
	if refused := refusal(err, m); refused != nil {
		err = refused
	}
	return fmt.Errorf("sending a mail: %w", err)
}

// Check greets the relay and signs in.
func (s *SMTP) Check(ctx context.Context) error {
	conversation, err := s.client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return fmt.Errorf("reaching the relay: %w", err)
	}
	_ = s.client.CloseWithSMTPClient(conversation) // it has answered
	return nil
}
