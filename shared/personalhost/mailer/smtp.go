package mailer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	gomail "github.com/wneessen/go-mail"

	"github.com/cms-personal/personal/shared/personal"
)

// SMTP sends mails to a relay, over one connection for each.
type SMTP struct {
	from     *mail.Address
	address  string // host and port of the relay
	host     string // its name in its certificate
	user     *url.Userinfo
	implicit bool // TLS from the start
	loopback bool // TLS if it is offered, with any certificate
	helo     string
	site     atomic.Pointer[string] // the host of the site's URL
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	roots    *x509.CertPool // nil: the system's
}

// Options are what a relay rarely needs.
type Options struct {
	// Helo is the name that EHLO gives to the relay: a domain, or an address in brackets. By
	// default it is the host of the site's URL, else the domain of the sender.
	Helo string

	// Dial connects to the relay; nil for a [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewSMTP returns a sender for a relay:
//
//	smtp://user:password@host:587   STARTTLS; nothing is sent without TLS
//	smtps://user:password@host:465  TLS from the start
//
// On loopback, smtp:// uses TLS only if the relay offers it, and no certificate is checked. User and
// password are optional. NewSMTP does not connect. Its errors contain no part of the URL.
func NewSMTP(rawURL string, from *mail.Address, o Options) (*SMTP, error) {
	u, err := parseSMTP(rawURL)
	if err != nil {
		return nil, err
	}
	from, err = asciiDomain(from)
	if err != nil {
		return nil, err
	}
	if o.Helo != "" && !isHelo(o.Helo) {
		return nil, errors.New("the name of the host must be a domain, or an IP address in brackets")
	}
	s := &SMTP{
		from: from, host: u.Hostname(), user: u.User, implicit: u.Scheme == "smtps", loopback: IsLoopback(u.Hostname()), helo: o.Helo, dial: o.Dial,
	}
	port := "587"
	if s.implicit {
		port = "465"
	}
	s.address = net.JoinHostPort(s.host, cmp.Or(u.Port(), port))
	if s.dial == nil {
		s.dial = new(net.Dialer).DialContext
	}
	return s, nil
}

func parseSMTP(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return nil, errors.New("it is not a valid URL (write special characters in a password as %XX)")
	case u.Scheme != "smtp" && u.Scheme != "smtps":
		return nil, errors.New("it must begin with smtp:// or smtps://")
	case u.Hostname() == "":
		return nil, errors.New("it contains no host")
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

// IsLoopback reports whether a host name or address is on this machine alone.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// isHelo reports whether a relay can take a text for the name of its client.
func isHelo(name string) bool {
	if literal, ok := strings.CutPrefix(name, "["); ok {
		literal, ok = strings.CutSuffix(literal, "]")
		return ok && net.ParseIP(strings.TrimPrefix(literal, "IPv6:")) != nil
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r == '-' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	})
}

// UseSite tells the URL of the site, which personalhost.New does. EHLO gives its host, unless
// Options.Helo is set, or it is no domain: relays refuse names without a dot.
func (s *SMTP) UseSite(rawURL string) {
	u, err := url.Parse(rawURL)
	if err != nil || net.ParseIP(u.Hostname()) != nil {
		return
	}
	host, err := ascii(u.Hostname())
	if err == nil && strings.Contains(strings.Trim(host, "."), ".") && isHelo(host) {
		s.site.Store(&host)
	}
}

// name is what EHLO gives to the relay.
func (s *SMTP) name() string {
	site := ""
	if known := s.site.Load(); known != nil {
		site = *known
	}
	return cmp.Or(s.helo, site, domain(s.from))
}

// Send returns nil once the relay has accepted the mail. If the relay refuses the recipient for good
// the error is a [*personal.MailRefusedError], after other replies, and if the relay has perhaps
// accepted the mail, a [*personal.MailFailedError].
//
// The relay has the time of RFC 5321, section 4.5.3.2. A context that ends cuts the conversation.
func (s *SMTP) Send(ctx context.Context, m personal.Mail) error {
	msg, err := compose(m, s.from, gomail.EncodingQP)
	if err != nil {
		return fmt.Errorf("composing a mail: %w", err)
	}
	var text bytes.Buffer
	if _, err := msg.WriteTo(&text); err != nil {
		return fmt.Errorf("composing a mail: %w", err)
	}
	c := &conversation{relay: s, ctx: ctx}
	defer c.close()
	if err := c.send(m.To, text.Bytes()); err != nil {
		return fmt.Errorf("sending a mail: %w", errorOf(c.at, err, m))
	}
	return nil
}

// Check connects to the relay and signs in.
func (s *SMTP) Check(ctx context.Context) error {
	c := &conversation{relay: s, ctx: ctx}
	defer c.close()
	if err := c.begin(); err != nil {
		return fmt.Errorf("connecting to the relay: %w", failure(c.at, err))
	}
	return nil
}

func (s *SMTP) tlsConfig() *tls.Config {
	return &tls.Config{ServerName: s.host, RootCAs: s.roots, MinVersion: tls.VersionTLS12, InsecureSkipVerify: s.loopback}
}
