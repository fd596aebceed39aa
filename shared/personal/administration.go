package personal

import (
	"context"
	"time"
)

// Administration is what a personal-account module offers to those who run the
// system: the users, and what may be done to them. It takes no credentials. Only
// the system's own code may call it, behind a guard of its own; no visitor's
// route leads here.
//
// Errors are those of [Service]. An id that is nobody's is [CodeNotFound], and so
// is every operation of a running version that does not offer it.
//
// Implementations are safe for concurrent use and honour the context's deadline.
type Administration interface {
	// FindUsers lists users, the newest first, a page at a time.
	// Codes: validation_failed.
	FindUsers(ctx context.Context, r FindUsersRequest) (UserPage, error)

	// User returns all that is known of one user. Codes: not_found.
	User(ctx context.Context, id int64) (UserRecord, error)

	// UpdateUser changes the fields that were sent and no others; read-only and
	// hidden ones may be set too. Codes: malformed_request, validation_failed,
	// not_found.
	UpdateUser(ctx context.Context, r UpdateUserRequest) error

	// SetEmail makes an address the user's at once, without asking there, or takes
	// his away. A login that is the old address follows, so that address cannot be
	// taken away: required. Every mailed token is void, and the old address is told;
	// sessions go on. An address that is the user's already changes nothing.
	// Codes: validation_failed, already_exists, not_found.
	SetEmail(ctx context.Context, r SetEmailRequest) error

	// DisableUser keeps a user out: every session ends and every mailed token is
	// void, at once. Who is disabled stays so. Codes: not_found.
	DisableUser(ctx context.Context, id int64) error

	// EnableUser lets a user sign in again. What ended when he was disabled stays
	// ended. Codes: not_found.
	EnableUser(ctx context.Context, id int64) error

	// UserSessions lists the user's living sessions, the latest used first; none
	// is the current one. Codes: not_found.
	UserSessions(ctx context.Context, id int64) ([]Session, error)

	// RevokeUserSessions ends every session of the user. Codes: not_found.
	RevokeUserSessions(ctx context.Context, id int64) error

	// DeleteUser removes a user and all that was his. His login and e-mail are
	// free again; his id is never used again. Codes: not_found.
	DeleteUser(ctx context.Context, id int64) error

	// AuditEntries lists entries of the audit log, newest first, a page at a time.
	// The log keeps entries for a limited time and number; those about a deleted
	// user are kept without their id, address and request. A filter that matches
	// few entries reads the whole log. Codes: validation_failed.
	AuditEntries(ctx context.Context, r AuditEntriesRequest) (AuditPage, error)
}

// UserState tells users apart by whether they may sign in.
type UserState string

// The states. The zero value is "either".
const (
	UserActive   UserState = "active"
	UserDisabled UserState = "disabled"
)

// The bounds of a search.
const (
	DefaultUserLimit = 50  // users on a page, where the request names no limit
	MaxUserLimit     = 100 // users on a page
	MaxSearchLength  = 254 // characters of a search, the longest e-mail's
)

// FindUsersRequest carries the parameters of [Administration.FindUsers]. In
// FIELDS they are called search, state, after and limit.
type FindUsersRequest struct {
	Search string    // part of a login, an e-mail or a name, in any case, or a whole id; empty: everybody
	State  UserState // empty: either
	After  int64     // UserPage.Next of the page before; 0: the first page
	Limit  int       // users on the page, MaxUserLimit at most; 0: DefaultUserLimit
}

// UserPage is one page of users.
type UserPage struct {
	Users []User
	Next  int64 // FindUsersRequest.After of the next page; 0 on the last
}

// User is a user as listed.
type User struct {
	ID       int64
	Login    string
	Name     *string // nil if none
	Email    string  // empty if none, which an imported user may have
	Disabled bool
	Created  time.Time // UTC
	Updated  time.Time // UTC
	LastSeen time.Time // UTC; the latest use of a session that has not been removed, zero if there is none
}

// UserRecord is all that is known of a user.
type UserRecord struct {
	User
	Fields []ProfileField // every user field, hidden ones too, in the schema's order
}

// UpdateUserRequest carries the parameters of [Administration.UpdateUser].
type UpdateUserRequest struct {
	UserID int64
	Fields map[string]Input // "name" and any user field; an unset one clears
}

// SetEmailRequest carries the parameters of [Administration.SetEmail]. In FIELDS
// the address is called email.
type SetEmailRequest struct {
	UserID int64
	Email  string // judged as at registration; empty: none
}

// The page sizes of the audit log.
const (
	DefaultAuditLimit = 50  // entries on a page, where the request names no limit
	MaxAuditLimit     = 100 // entries on a page
)

// AuditEntriesRequest carries the parameters of [Administration.AuditEntries]:
// an entry is listed if it matches every filter that is set. In FIELDS they are
// called type, user_id, text, after and limit. Type and Text have at most
// MaxSearchLength characters, none of them a control character.
type AuditEntriesRequest struct {
	Type   EventType // empty: every type; an unknown one matches nothing
	UserID int64     // 0: every user, and entries about none
	Text   string    // part of the address, the request ID or the actor's name, in either case of ASCII letters; empty: any
	Since  time.Time // entries of this time and later; zero: no bound
	Until  time.Time // entries before this time; zero: no bound
	After  int64     // Cursor of an entry: the page begins with the one listed behind it; 0: the first page
	Limit  int       // entries on the page, MaxAuditLimit at most; 0: DefaultAuditLimit
}

// AuditPage is one page of the audit log.
type AuditPage struct {
	Entries []AuditEntry
	Next    int64 // AuditEntriesRequest.After of the next page; 0 on the last
}

// AuditEntry is one entry of the audit log: an event as [Host.PublishEvent] is
// told of it. The log is complete even if the host has not taken the event yet.
type AuditEntry struct {
	Event
	Cursor int64 // the entry's place in the log; later entries have higher ones
}
