package mailer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/mail"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"github.com/cms-personal/personal/shared/personal"
)

// smtpTimeout bounds connecting, TLS and sign-in included, and then sending.
const smtpTimeout = 15 * time.Second

// SMTP sends mails to a relay, over one connection for each.
type SMTP struct {
	client *gomail.Client
	from   *mail.Address
}

// NewSMTP returns a sender for a relay:
//
//	smtp://user:password@host:587   STARTTLS; nothing is sent without TLS
//	smtps://user:password@host:465  TLS from the start
//
// On loopback, smtp:// uses no TLS. User and password are optional. NewSMTP does not
// connect. Its errors contain no part of the URL.
func NewSMTP(rawURL string, from *mail.Address) (*SMTP, error) {
	u, err := parseSMTP(rawURL)
	if err != nil {
		return nil, err
	}
	client, err := gomail.NewClient(u.Hostname(), smtpOptions(u)...)
	if err != nil {
		return nil, errors.New("it is not the address of a relay: check host and port")
	}
	return &SMTP{client: client, from: from}, nil
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

func smtpOptions(u *url.URL) []gomail.Option {
	port, _ := strconv.Atoi(u.Port()) // 0 if the URL has none
	authentication := gomail.SMTPAuthAutoDiscover
	var options []gomail.Option
	switch {
	case u.Scheme == "smtps":
		options = append(options, gomail.WithSSL(), gomail.WithPort(cmp.Or(port, 465)))
	case IsLoopback(u.Hostname()):
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS), gomail.WithPort(cmp.Or(port, 587)))
		authentication = gomail.SMTPAuthPlainNoEnc
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory), gomail.WithPort(cmp.Or(port, 587)))
	}
	if u.User != nil {
		password, _ := u.User.Password()
		options = append(options, gomail.WithSMTPAuth(authentication), gomail.WithUsername(u.User.Username()), gomail.WithPassword(password))
	}
	return append(options, gomail.WithTimeout(smtpTimeout))
}

// IsLoopback reports whether a host name or address is on this machine alone.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Send returns nil once the relay has accepted the mail, and a
// [*personal.MailRefusedError] if the relay refuses it permanently.
func (s *SMTP) Send(ctx context.Context, m personal.Mail) error {
	msg, err := compose(m, s.from, gomail.EncodingQP)
	if err != nil {
		return fmt.Errorf("composing a mail: %w", err)
	}
	err = s.client.DialAndSendWithContext(ctx, msg)
	if err == nil || msg.IsDelivered() { // a failure after the relay has accepted the mail does not matter
		return nil
	}
	if refused := refusal(err, m); refused != nil {
		return fmt.Errorf("sending a mail: %w", refused)
	}
	return fmt.Errorf("sending a mail: %w", withoutReply(err))
}

// Check connects to the relay and signs in.
func (s *SMTP) Check(ctx context.Context) error {
	conversation, err := s.client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return fmt.Errorf("connecting to the relay: %w", withoutReply(err))
	}
	_ = s.client.CloseWithSMTPClient(conversation) // the check has succeeded
	return nil
}

// withoutReply returns an error for the log. It says what failed, but has no words of the relay and
// no address: relays name mailboxes in what they say, and go-mail repeats both.
func withoutReply(err error) error {
	var send *gomail.SendError
	var reply *textproto.Error
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	case errors.As(err, &send) && send.ErrorCode() != 0:
		return fmt.Errorf("%v: the relay replied %d %s", send.Reason, send.ErrorCode(), enhancedCode(send, replyOf(send)))
	case errors.As(err, &send):
		return fmt.Errorf("%v: the connection failed", send.Reason)
	case errors.As(err, &reply):
		return fmt.Errorf("the relay replied %d %s", reply.Code, enhancedPrefix(reply.Msg))
	case errors.As(err, &network):
		return network
	case errors.As(err, &certificate):
		return certificate
	case errors.As(err, &record):
		return errors.New("the relay does not speak TLS at this port")
	case errors.Is(err, io.EOF):
		return errors.New("the relay closed the connection")
	}
	return errors.New("the relay cannot be used: check that it offers STARTTLS, and a way to sign in if the URL has a user")
}

// refusal returns a [*personal.MailRefusedError] if the relay refuses the mail
// permanently, else nil. Permanent are:
//
//   - a 5xx reply to RCPT TO, unless it requires authentication (RFC 4954);
//   - a 55x reply to the content with an enhanced code about the address (5.1.x)
//     or about a policy (5.7.x), or without an enhanced code (RFC 3463).
//
// Any other failure may succeed at the next try: wrong credentials, a sender that
// the relay rejects, TLS, a full mailbox, the connection.
func refusal(err error, m personal.Mail) error {
	var failure *gomail.SendError
	if !errors.As(err, &failure) {
		return nil
	}
	reply, code := replyOf(failure), failure.ErrorCode()
	needsAuthentication := slices.Contains([]int{530, 534, 535, 538}, code)
	switch {
	case failure.Reason == gomail.ErrSMTPRcptTo && code >= 500 && code <= 599 && !needsAuthentication:
	case failure.Reason == gomail.ErrSMTPDataClose && code >= 550 && code <= 559 && isPermanent(enhancedCode(failure, reply)):
	default:
		return nil
	}
	return personal.NewMailRefusedError(strconv.Itoa(code) + " " + withoutSecrets(reply, m))
}

// isPermanent classifies the enhanced code of refused content; it may be empty.
func isPermanent(enhanced string) bool {
	return enhanced == "" || strings.HasPrefix(enhanced, "5.1.") || strings.HasPrefix(enhanced, "5.7.")
}

var enhancedForm = regexp.MustCompile(`\A[245]\.[0-9]{1,3}\.[0-9]{1,3}\z`)

// enhancedCode returns the enhanced code of a reply, empty if it has none. Relays
// also send one without announcing ENHANCEDSTATUSCODES.
func enhancedCode(failure *gomail.SendError, reply string) string {
	if code := failure.EnhancedStatusCode(); code != "" {
		return code
	}
	return enhancedPrefix(reply)
}

// enhancedPrefix returns the enhanced code at the beginning of a reply, empty if there is none.
func enhancedPrefix(reply string) string {
	words := strings.Fields(reply)
	if len(words) == 0 || !enhancedForm.MatchString(words[0]) {
		return ""
	}
	return words[0]
}

// replyOf returns the text of the relay's reply without its code. go-mail provides
// it only within its error text: the reason, the code, the reply, which newer
// versions of net/textproto quote, and then the recipients and the message's ID.
func replyOf(failure *gomail.SendError) string {
	_, text, _ := strings.Cut(failure.Error(), ": "+strconv.Itoa(failure.ErrorCode())+" ")
	if quoted, err := strconv.QuotedPrefix(text); err == nil {
		text, _ = strconv.Unquote(quoted)
		return text
	}
	for _, rest := range []string{", affected message ID: ", ", affected recipient(s): "} {
		if at := strings.LastIndex(text, rest); at >= 0 {
			text = text[:at]
		}
	}
	return text
}

// secretForm matches whatever may be a part of a mailed token.
var secretForm = regexp.MustCompile(`[A-Za-z0-9_-]{20,}`)

// withoutSecrets removes what a reply quotes of a mail's token: content filters
// repeat the link that they object to.
func withoutSecrets(reply string, m personal.Mail) string {
	return secretForm.ReplaceAllStringFunc(reply, func(s string) string {
		if strings.Contains(m.Text, s) || strings.Contains(m.HTML, s) {
			return "[...]"
		}
		return s
	})
}
