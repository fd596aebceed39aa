package personal

import (
	"context"
	"strings"
	"time"
	"unicode"
)

// Host is what a personal-account module may ask of the content management
// system. Implementations are safe for concurrent use.
type Host interface {
	// UserFields returns the schema in force now. It is asked for on every call
	// that needs it, so it should answer from memory. In a plugin it is a call to the
	// host's process: a module keeps what it was told by its revision, and asks where
	// it does not know [Call.SchemaRevision].
	UserFields(ctx context.Context) (Schema, error)

	// SendMail takes a mail for delivery. When it returns nil the mail is the
	// host's responsibility; on an error it is handed over again later, so the
	// same ID may come twice. Return a [*MailRefusedError], wrapped or not, when
	// the relay permanently refuses the recipient or the mail: the plugin then stops
	// retrying and reports [EventMailRefused]. Other errors are retried for 24 hours.
	SendMail(ctx context.Context, m Mail) error

	// PublishEvent tells the host what happened. Events are delivered at least
	// once, those of one user in their order; ID tells a repeated one. One that is
	// answered by an error comes again, at most ten minutes apart, and those of its
	// user wait behind it. Only what has waited for as long as the audit log keeps
	// its lines (audit.retention, 90 days by default), or has more behind it than
	// audit.most, is dropped, the oldest first, and the plugin's log says so.
	PublishEvent(ctx context.Context, e Event) error
}

// Mail is one message to one address. Its texts hold nothing that a user typed.
type Mail struct {
	ID      string // the same for a repeated delivery; fit for a Message-ID's left side
	To      string // one plain ASCII address
	Subject string
	Text    string // holds a secret: never log it
	HTML    string // holds a secret: never log it
}

// maxMailReply bounds [MailRefusedError.Reason], in bytes.
const maxMailReply = 500

// MailRefusedError is the error of [Host.SendMail] for a mail that no retry can
// deliver.
type MailRefusedError struct {
	// Reason is the relay's reply: at most 500 bytes of UTF-8 without control
	// characters. It never holds the mail's text or lists of addresses.
	Reason string
}

// NewMailRefusedError returns a refusal with the relay's reply as its reason.
// Control characters become spaces, invalid UTF-8 is replaced and a long reply
// is cut; keeping the mail's text and lists of addresses out is the caller's task.
func NewMailRefusedError(reply string) *MailRefusedError {
	clean := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(reply, "\uFFFD"))
	clean = strings.Join(strings.Fields(clean), " ")
	if len(clean) > maxMailReply {
		clean = strings.ToValidUTF8(clean[:maxMailReply], "") // without a half character at its end
	}
	return &MailRefusedError{Reason: clean}
}

// Error describes the refusal for a log.
func (e *MailRefusedError) Error() string { return "mail refused for good: " + e.Reason }

// EventType says what happened.
type EventType string

// The events of this contract. Hosts must bear with types they do not know. Of
// failed and throttled attempts only the first few are told, some a minute for
// each address.
const (
	EventRegistered        EventType = "registered"
	EventSignedIn          EventType = "signed_in"
	EventSignInFailed      EventType = "sign_in_failed"     // a wrong login or password (UserID is 0 where nobody was meant), also where it is asked for again, or a disabled user
	EventThrottled         EventType = "throttled"          // too many attempts from an address; nobody has looked whose they were
	EventRecoveryRequested EventType = "recovery_requested" // an account matched and a mail was sent
	EventRecovered         EventType = "recovered"
	EventPasswordChanged   EventType = "password_changed"
	EventEmailChanged      EventType = "email_changed" // by the user, or by an administrator
	EventEmailTaken        EventType = "email_taken"   // register/ or email/ met the e-mail address of another account (UserID is 0)
	EventMailRefused       EventType = "mail_refused"  // the relay refused a mail for good, see MailRefusedError
	EventSessionTheft      EventType = "session_theft" // an old hash came back; the session was ended
	EventUserUpdated       EventType = "user_updated"  // by an administrator, like those that follow
	EventUserDisabled      EventType = "user_disabled"
	EventUserEnabled       EventType = "user_enabled"
	EventUserDeleted       EventType = "user_deleted" // the last that is told of a user
)

// Actor says who caused an event.
type Actor string

// The actors. Hosts tolerate actors that they do not know. Events of plugin version
// 0.1.0 have none.
const (
	ActorUser          Actor = "user"          // a caller of [Service], signed in or not; not necessarily the user of the account
	ActorAdministrator Actor = "administrator" // a caller of [Administration]
	ActorSystem        Actor = "system"        // the module itself
)

// Event is one thing that happened to an account. It never holds a secret.
type Event struct {
	ID        string // unique; the same for a repeated delivery
	Type      EventType
	Time      time.Time // UTC
	UserID    int64     // 0 if nobody's
	Address   string    // of the client whose request caused it; empty if unknown
	RequestID string    // of the call that caused it
	Actor     Actor
	ActorName string // the administrator's, see [Call]; empty for other actors
}
