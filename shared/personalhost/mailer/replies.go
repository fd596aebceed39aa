package mailer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// step is a part of a conversation with a relay.
type step string

// The steps, in their order.
const (
	connecting step = "connecting"
	greeting   step = "greeting" // and TLS from the start
	hello      step = "EHLO"
	startTLS   step = "STARTTLS"
	signIn     step = "AUTH"
	sender     step = "MAIL"
	rcpt       step = "RCPT"
	data       step = "DATA"
	content    step = "content"
	finalDot   step = "final dot"
	quit       step = "QUIT"
)

// limit is how long the relay may take to reply (RFC 5321, section 4.5.3.2). Steps before MAIL get
// the time of the greeting. That section has no time for connecting, nor needs QUIT one: the mail is sent.
func (s step) limit() time.Duration {
	switch s {
	case connecting:
		return time.Minute
	case data:
		return 2 * time.Minute
	case content:
		return block
	case finalDot:
		return 10 * time.Minute
	case quit:
		return 5 * time.Second
	}
	return 5 * time.Minute
}

// block is how long the relay may take to read a block of what is sent.
const block = 3 * time.Minute

// verdict is what a failure means for the mail.
type verdict int

const (
	notSent   verdict = iota // another attempt may succeed: the relay has no time, or was not reached
	ofSite                   // the relay refuses what the site sends, or how: an administrator has to act, or the relay's
	recipient                // the relay refuses the recipient for good
	perhaps                  // the relay had the whole mail, and has not replied
)

// aboutRecipient are the enhanced codes of a recipient that can get no mail (RFC 3463, RFC 7505): no
// such mailbox, no such system, a bad address, a mailbox that has moved, a null MX, a disabled mailbox,
// a full one.
var aboutRecipient = []string{"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1", "5.2.2"}

// unknownMailbox are the codes of RCPT that say the same without an enhanced code.
var unknownMailbox = []int{550, 551, 553}

// judge is the table of replies: what a failed step means. reply is nil if none came. A relay that
// refuses the client, its name or the sender often does so at RCPT only, and a policy after the mail.
func judge(at step, reply *textproto.Error) verdict {
	afterMail := at == finalDot
	if reply == nil || reply.Code < 400 || reply.Code > 599 {
		if afterMail {
			return perhaps
		}
		return notSent
	}
	if reply.Code < 500 {
		return notSent
	}
	enhanced := enhancedCode(reply.Msg)
	switch {
	case at != rcpt && at != data && !afterMail: // the relay does not know the recipient yet
	case slices.Contains(aboutRecipient, enhanced):
		return recipient
	case at == rcpt && enhanced == "" && slices.Contains(unknownMailbox, reply.Code):
		return recipient
	}
	return ofSite
}

// enhancedForms are an enhanced code at the beginning of a line, where it belongs (RFC 2034, section 4), and, as some
// relays write it, within the text of a permanent refusal, but not in an IP address. Relays send them without announcing
// ENHANCEDSTATUSCODES, too.
var enhancedForms = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^([245]\.[0-9]{1,3}\.[0-9]{1,3})\b`),
	regexp.MustCompile(`(?m)(?:^|[\s(\[<#:])(5\.[0-9]{1,3}\.[0-9]{1,3})(?:\.?$|\.\s|[^.\w])`),
}

// enhancedCode returns the enhanced code of a reply, empty if it has none.
func enhancedCode(reply string) string {
	for _, form := range enhancedForms {
		if found := form.FindStringSubmatch(reply); found != nil {
			return found[1]
		}
	}
	return ""
}

// failure is the error of a step. It has no words of the relay and no address: relays name
// mailboxes in what they say.
func failure(at step, err error) error {
	if reply, ok := errors.AsType[*textproto.Error](err); ok {
		return fmt.Errorf("%s: the relay replied %s", at, codesOf(reply))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%s: the relay took longer than %v", at, at.limit())
	}
	return fmt.Errorf("%s: %w", at, withoutWords(err))
}

func codesOf(reply *textproto.Error) string {
	return strings.TrimSpace(strconv.Itoa(reply.Code) + " " + enhancedCode(reply.Msg))
}

// withoutWords returns what can be said of an error without the relay's words.
func withoutWords(err error) error {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	case errors.As(err, &network):
		return network
	case errors.As(err, &certificate):
		return certificate
	case errors.Is(err, errUnusable):
		return err
	case errors.As(err, new(tls.RecordHeaderError)):
		return errors.New("the relay does not speak TLS at this port")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the relay closed the connection")
	}
	return errors.New("the relay does not follow the protocol")
}

// errorOf returns the error of a mail whose conversation failed at a step.
func errorOf(at step, err error, m personal.Mail) error {
	reply, _ := errors.AsType[*textproto.Error](err)
	failed := &personal.MailFailedError{}
	if reply != nil {
		failed.Reply = codesOf(reply)
	}
	switch judge(at, reply) {
	case recipient:
		return fmt.Errorf("%s: %w", at, personal.NewMailRefusedError(strconv.Itoa(reply.Code)+" "+withoutSecrets(reply.Msg, m)))
	case perhaps:
		failed.PerhapsSent = true
		return fmt.Errorf("%w (%w)", failed, failure(at, err))
	case notSent, ofSite:
	}
	if reply == nil {
		return failure(at, err)
	}
	return fmt.Errorf("%s: %w", at, failed)
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
