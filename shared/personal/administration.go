package personal

import (
	"context"
	"time"
)

// Administration is what a personal-account module offers to administrators: the
// users of the system and the operations on them. It takes no credentials: the host
// itself decides who is an administrator, and must not expose it to visitors.
//
// Errors are as for [Service]. An id that no user has is [CodeNotFound], and so is
// every operation that the running version does not offer.
//
// Implementations are safe for concurrent use and honour the context's deadline.
type Administration interface {
	// FindUsers lists users in pages, newest first. A user whose login, e-mail or id
	// is the whole search is on the first page, even if many newer users match; a later
	// page may list them again. A page may have fewer users than the limit although
	// another one follows. Codes: validation_failed.
	FindUsers(ctx context.Context, r FindUsersRequest) (UserPage, error)

	// User returns the record of one user. Codes: not_found.
	User(ctx context.Context, id int64) (UserRecord, error)

	// UpdateUser changes the fields that were sent and no others. Read-only and
	// hidden fields may be set too. Codes: malformed_request, validation_failed,
	// not_found.
	UpdateUser(ctx context.Context, r UpdateUserRequest) error

	// SetEmail sets or removes a user's e-mail address at once, without a
	// confirmation by mail. If the login is the old address, the login changes too;
	// such an address cannot be removed: the field error is required. All
	// mailed tokens become invalid, and the old address gets a notice. Sessions
	// continue. Setting the current address changes nothing.
	// Codes: validation_failed, already_exists, not_found.
	SetEmail(ctx context.Context, r SetEmailRequest) error

	// DisableUser ends every session of a user, makes all mailed tokens invalid and
	// prevents the user from signing in. It succeeds for a disabled user.
	// Codes: not_found.
	DisableUser(ctx context.Context, id int64) error

	// EnableUser lets a disabled user sign in again. It does not restore sessions and
	// tokens. It succeeds for an enabled user. Codes: not_found.
	EnableUser(ctx context.Context, id int64) error

	// UserSessions lists the user's active sessions, the most recently used first.
	// None of them is the current one. Codes: not_found.
	UserSessions(ctx context.Context, id int64) ([]Session, error)

	// RevokeUserSessions ends every session of the user. Codes: not_found.
	RevokeUserSessions(ctx context.Context, id int64) error

	// DeleteUser deletes a user and all their data. The login and the e-mail become
	// available again; the id is never used again. Codes: not_found.
	DeleteUser(ctx context.Context, id int64) error

	// AuditEntries lists entries of the audit log in pages, newest first. The log
	// keeps a limited number of entries for a limited time. Entries about a deleted
	// user have neither the user's id nor an address or a request id. A filter that
	// matches few entries reads the whole log. Codes: validation_failed.
	AuditEntries(ctx context.Context, r AuditEntriesRequest) (AuditPage, error)

	// RemoveTwoFactor switches a user's second factor off and ends every session of the
	// user. It succeeds for a user without one. Codes: not_found.
	RemoveTwoFactor(ctx context.Context, id int64) error
}

// UserState says whether a user may sign in.
type UserState string

// The states. The zero value matches both.
const (
	UserActive   UserState = "active"
	UserDisabled UserState = "disabled"
)

// The limits of a search.
const (
	DefaultUserLimit = 50  // users on a page, if the request sets no limit
	MaxUserLimit     = 100 // users on a page
	MaxSearchLength  = 254 // characters of a search, as many as an e-mail may have
)

// FindUsersRequest has the parameters of [Administration.FindUsers]. In FIELDS they
// are called search, state, after and limit.
type FindUsersRequest struct {
	Search string    // part of a login, an e-mail or a name, in any case, or a whole id; empty: all users
	State  UserState // empty: both states
	After  int64     // UserPage.Next of the previous page; 0: the first page
	Limit  int       // users on the page, up to MaxUserLimit; 0: DefaultUserLimit
}

// UserPage is one page of users.
type UserPage struct {
	Users []User
	Next  int64 // FindUsersRequest.After of the next page; 0 on the last page
}

// User is a user in a list.
type User struct {
	ID       int64
	Login    string
	Name     *string // nil if none
	Email    string  // empty if none; an imported user may have none
	Disabled bool
	Created  time.Time // UTC
	Updated  time.Time // UTC
	LastSeen time.Time // UTC; the last use of any session that is still stored, zero if there is none

	EmailVerified   bool      // whether Email was confirmed
	TwoFactor       bool      // whether a second factor is on
	UnverifiedEmail string    // the address that they must confirm before they can sign in; empty for none
	EraseAt         time.Time // UTC; when the account, which its user has deleted, is erased; zero if it was not deleted
}

// UserRecord is all data about a user that administrators may see.
type UserRecord struct {
	User
	Fields []ProfileField // every user field, including hidden ones, in the schema's order
}

// UpdateUserRequest has the parameters of [Administration.UpdateUser].
type UpdateUserRequest struct {
	UserID int64
	Fields map[string]Input // "name" and any user field; an unset input clears the field
}

// SetEmailRequest has the parameters of [Administration.SetEmail]. In FIELDS the
// address is called email.
type SetEmailRequest struct {
	UserID int64
	Email  string // valid as at registration; empty: none
}

// The page sizes of the audit log.
const (
	DefaultAuditLimit = 50  // entries on a page, if the request sets no limit
	MaxAuditLimit     = 100 // entries on a page
)

// AuditEntriesRequest has the parameters of [Administration.AuditEntries]. An entry
// is listed if it matches every filter that is set. In FIELDS the parameters are
// called type, user_id, text, after and limit. Type and Text have at most
// MaxSearchLength characters and no control characters.
type AuditEntriesRequest struct {
	Type   EventType // empty: all types; an unknown type matches nothing
	UserID int64     // 0: all users, and entries about no user
	Text   string    // part of the address, the request id or the actor's name; the case of ASCII letters is ignored; empty: any
	Since  time.Time // entries at or after this time; zero: no bound
	Until  time.Time // entries before this time; zero: no bound
	After  int64     // the Cursor of an entry: the page starts with the next older one; 0: the first page
	Limit  int       // entries on the page, up to MaxAuditLimit; 0: DefaultAuditLimit
}

// AuditPage is one page of the audit log.
type AuditPage struct {
	Entries []AuditEntry
	Next    int64 // AuditEntriesRequest.After of the next page; 0 on the last page
}

// AuditEntry is one entry of the audit log: an event that [Host.PublishEvent] gets as
// well. The log has it even before the host has accepted the event.
type AuditEntry struct {
	Event
	Cursor int64 // the position in the log; newer entries have a higher one
}
