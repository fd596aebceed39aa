package mailer

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"github.com/cms-personal/personal/shared/personal"
)

// refusal returns the error by which a mail is given up if the relay refuses it
// for good, else nil. For good are:
//
//   - a 5xx reply to RCPT TO, unless it asks for authentication (RFC 4954);
//   - a 55x reply to the content with an enhanced code about the address (5.1.x)
//     or about a policy (5.7.x), or without one (RFC 3463).
//
// Everything else may work at the next try: wrong credentials, a sender that
// the relay does not take, TLS, a full mailbox, the connection.
func refusal(err error, m personal.Mail) error {
	var failure *gomail.SendError
	if !errors.As(err, &failure) {
		return nil
	}
	reply := replyOf(failure)
	switch code := failure.ErrorCode(); failure.Reason {
	case gomail.ErrSMTPRcptTo:
		if code < 500 || code > 599 || asksForAuthentication(code) {
			return nil
		}
	case gomail.ErrSMTPDataClose:
		if code < 550 || code > 559 || !isFinal(enhancedCode(failure, reply)) {
			return nil
		}
	default:
		return nil
	}
	return personal.NewMailRefusedError(strconv.Itoa(failure.ErrorCode()) + " " + withoutSecrets(reply, m))
}

func asksForAuthentication(code int) bool {
	return code == 530 || code == 534 || code == 535 || code == 538
}

// isFinal judges the enhanced code of a refused content; it may be empty.
func isFinal(enhanced string) bool {
	return enhanced == "" || strings.HasPrefix(enhanced, "5.1.") || strings.HasPrefix(enhanced, "5.7.")
}

var enhancedForm = regexp.MustCompile(`\A[245]\.[0-9]{1,3}\.[0-9]{1,3}\z`)

// enhancedCode returns the enhanced code of a reply, empty if it has none. Relays
// send them without having offered ENHANCEDSTATUSCODES, too.
func enhancedCode(failure *gomail.SendError, reply string) string {
	if code := failure.EnhancedStatusCode(); code != "" {
		return code
	}
	words := strings.Fields(reply)
	if len(words) == 0 || !enhancedForm.MatchString(words[0]) {
		return ""
	}
	return words[0]
}

// replyOf returns the text of the relay's reply, without its code. go-mail keeps
// it in its error's text alone: the reason, the code, the reply, which newer
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

// secretForm is what a mailed token looks like, and more.
var secretForm = regexp.MustCompile(`[A-Za-z0-9_-]{20,}`)

// withoutSecrets removes from a reply what it quotes of a mail's token: content
// filters repeat the link that they object to.
func withoutSecrets(reply string, m personal.Mail) string {
	return secretForm.ReplaceAllStringFunc(reply, func(s string) string {
		if strings.Contains(m.Text, s) || strings.Contains(m.HTML, s) {
			return "[...]"
		}
		return s
	})
}
