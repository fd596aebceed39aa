package personal

import (
	"context"
	"regexp"
	"strings"
	"unicode"
)

// Host is what a personal-account module needs from the content management system.
// Implementations are safe for concurrent use.
type Host interface {
	// UserFields returns the current schema. A module calls it for every call that
	// needs the schema, so it should return from memory. A module in a plugin process
	// caches the schema by its revision, and calls UserFields only if it does not know
	// [Call.SchemaRevision].
	UserFields(ctx context.Context) (Schema, error)

	// SendMail accepts a mail for delivery. After it returns nil, the host is
	// responsible for the mail. After an error the module retries later, so the host
	// may get the same ID twice. Return a [*MailRefusedError], wrapped or not, if
	// the relay permanently refuses the recipient: the module then stops
	// retrying and reports [EventMailRefused]. Return a [*MailFailedError] if the relay may have
	// accepted the mail, or refuses it for another reason. Other errors are retried for 24 hours,
	// but not longer than the mail's token is valid. Errors are
	// logged: they name no mailbox, and do not repeat the relay's words.
	//
	// A relay may take minutes. The context ends after an hour, and early if the process of the
	// module is stopped: the host then has a moment to return what it knows.
	SendMail(ctx context.Context, m Mail) error

	// PublishEvent accepts an event. Events are delivered at least once, and those of
	// one user in their order; a repeated event has the same ID. The context ends after
	// ten seconds; a call that takes longer counts as failed. After an error the module
	// retries, at most ten minutes apart; later events of the same user wait. An event is dropped only after waiting as long as the audit log keeps
	// entries (audit.retention, 90 days by default), or, oldest first, when more than
	// audit.most events wait. After three errors in a row the module sends one event at a
	// time until one is accepted. The plugin's log reports dropped events.
	PublishEvent(ctx context.Context, e Event) error
}

// Eraser is a [Host] that keeps data about users. It is optional.
type Eraser interface {
	// EraseUser erases what the host keeps about a user who was erased. It is called at
	// least once for each erasure, by an administrator or otherwise. The id is never used
	// again, unless an earlier state of the database is restored. After an error the module
	// calls it again, at most ten minutes apart, until it returns nil. It must return nil for
	// a user of whom nothing is kept. Events of the user that the host had not accepted before can
	// follow; the last one is [EventUserDeleted].
	EraseUser(ctx context.Context, userID int64) error
}

// Mail is one message to one address. Its texts contain no user input.
type Mail struct {
	ID      string // the same for a repeated delivery; valid as the left part of a Message-ID
	To      string // one plain ASCII address
	Subject string
	Text    string // contains a secret: never log it
	HTML    string // contains a secret: never log it
}

// maxMailReply bounds [MailRefusedError.Reason], in bytes.
const maxMailReply = 500

// MailRefusedError is the error of [Host.SendMail] for a mail whose recipient the relay refused
// permanently: no retry can deliver it.
type MailRefusedError struct {
	// Reason is the relay's reply: at most 500 bytes of UTF-8 without control
	// characters. It must not contain the mail's text or lists of addresses.
	Reason string
}

// NewMailRefusedError returns a refusal with the relay's reply as its reason. It
// replaces control characters by spaces, replaces invalid UTF-8, and cuts a long
// reply. The caller removes the mail's text and lists of addresses.
func NewMailRefusedError(reply string) *MailRefusedError {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(reply, "\uFFFD"))
	clean = strings.Join(strings.Fields(clean), " ")
	if len(clean) > maxMailReply {
		clean = strings.ToValidUTF8(clean[:maxMailReply], "") // without an incomplete character at the end
	}
	return &MailRefusedError{Reason: clean}
}

// replyCodes are the reply code and the enhanced code at the beginning of a reply (RFC 3463).
var replyCodes = regexp.MustCompile(`\A[245][0-9]{2}( [245]\.[0-9]{1,3}\.[0-9]{1,3})?\b`)

// Error describes the refusal for a log: by the codes of the reply, whose words often name the
// mailbox.
func (e *MailRefusedError) Error() string {
	if codes := replyCodes.FindString(e.Reason); codes != "" {
		return "mail refused permanently: " + codes
	}
	return "mail refused permanently"
}

// MailFailedError is the error of [Host.SendMail] for a mail that another attempt may deliver.
type MailFailedError struct {
	// Reply has the codes of the relay's reply, such as "550 5.7.1"; empty if it sent none. A
	// code that begins with 5 means that the relay refuses what the site sends: the module warns
	// administrators.
	Reply string

	// PerhapsSent says that the relay had the whole mail when the connection failed, so it may
	// have accepted it. The module sends it twice more at most.
	PerhapsSent bool
}

// Error describes the failure for a log. Of Reply it has nothing but codes.
func (e *MailFailedError) Error() string {
	text := "mail not sent"
	if e.PerhapsSent {
		text = "mail perhaps sent: the connection failed before the relay replied to it"
	}
	if codes := e.Codes(); codes != "" {
		text += ": the relay replied " + codes
	}
	return text
}

// Codes returns the codes at the beginning of Reply, empty if there are none.
func (e *MailFailedError) Codes() string { return replyCodes.FindString(e.Reply) }
