package personal

import (
	"context"
	"net/netip"
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
	// FindUsers lists users in pages, in the order of registration: that of ids or, with
	// Since or Until, that of User.Created, which differs for imported users. A user whose
	// login, e-mail or id is the whole search is on the first page, even if many users
	// before them match; a later page may list them again. A page may have fewer users
	// than the limit, or none, although another one follows: with Field, and with Since or
	// Until together with Search or State, a page holds the matches among the next 10,000
	// users. So such a search reads every user, in as many pages as that takes.
	// Codes: validation_failed.
	FindUsers(ctx context.Context, r FindUsersRequest) (UserPage, error)

	// Users returns the users with the given ids, up to MaxUsers, by their id: for the names
	// under articles, for example. Ids that no user has are left out. Codes:
	// validation_failed, with the field error too_long of ids.
	Users(ctx context.Context, ids []int64) (map[int64]User, error)

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

	// RevokeUserSessions ends every session of the user. It succeeds for a user without
	// one. Codes: not_found.
	RevokeUserSessions(ctx context.Context, id int64) error

	// RevokeUserSession ends one session of the user. It succeeds for a session that the user does
	// not have (any more). Codes: not_found.
	RevokeUserSession(ctx context.Context, r RevokeUserSessionRequest) error

	// DeleteUser deletes a user and all their data. The login and the e-mail become
	// available again; the id is not, unless an earlier state of the database is restored.
	// Codes: not_found.
	DeleteUser(ctx context.Context, id int64) error

	// AuditEntries lists entries of the audit log in pages, newest first. The log
	// keeps a limited number of entries for a limited time. Entries about a deleted
	// user have neither the user's id nor an address or a request id. A filter that
	// matches few entries reads the whole log. Codes: validation_failed.
	AuditEntries(ctx context.Context, r AuditEntriesRequest) (AuditPage, error)

	// RemoveTwoFactor switches a user's second factor off, removes their passkeys and identities
	// unless KeepOtherWaysIn is set, and ends every session of the user. It succeeds for a user
	// without a second factor, and changes nothing then. Codes: not_found; last_way_in if the account
	// would have no password, no verified e-mail, no passkey and no identity.
	RemoveTwoFactor(ctx context.Context, r RemoveTwoFactorRequest) error

	// RemoveOtherWaysIn removes all passkeys and identities of a user, and ends the sessions that
	// these began. It succeeds for a user without any. Codes: not_found; last_way_in if the account
	// has neither password nor verified e-mail.
	RemoveOtherWaysIn(ctx context.Context, id int64) error

	// ResetAccess ends a take-over of an account. It sets the e-mail, which is not verified, as
	// SetEmail does; removes password, second factor, passkeys, identities, sessions, mailed tokens
	// and known addresses, with all that they have started; enables the account; and mails a token for
	// [Service.RecoverConfirm] that is valid as long as one of an invitation. Until a recovery
	// is completed nothing signs in: SignIn is email_unverified. The old address gets a notice.
	// Codes: validation_failed, already_exists, not_found.
	ResetAccess(ctx context.Context, r ResetAccessRequest) error

	// CreateUser creates a user without a password and returns their id. Required user
	// fields may be missing; defaults apply to fields that are not set. With Invite the user
	// gets a mail with a token for [Service.RecoverConfirm], with which they choose a password
	// and confirm their e-mail. Without it, they set one by [Service.Recover].
	// The e-mail is the user's at once, also where a verified e-mail is required.
	// Codes: malformed_request, validation_failed, already_exists.
	CreateUser(ctx context.Context, r CreateUserRequest) (id int64, err error)

	// Explain says why a user cannot sign in, as a sign-in would judge it now, and what
	// helps. The order of verdicts is: what refuses every sign-in until something is done,
	// what refuses it for a time, what else it needs, what keeps mails away, hints. A number
	// is a login rather than an id. That there is no account is a verdict, too. The answer
	// has no text that another person typed. Codes: validation_failed.
	Explain(ctx context.Context, r ExplainRequest) (Explanation, error)

	// LiftLimits lifts the limits of attempts that hold for a user, not those of an
	// address: at the user's known and recently seen addresses, and at those of the
	// request. It sets the number of refused codes to 0, so that codes of the app are
	// accepted at all addresses again ([ReasonCodesBlocked]). It succeeds if none holds.
	// Codes: validation_failed, not_found.
	LiftLimits(ctx context.Context, r LiftLimitsRequest) error

	// PreviewFields counts the users whose user fields would violate the given fields, and
	// those who keep a value of a field that these make read-only. It
	// changes nothing, and stops after 10 seconds. Codes: validation_failed, with the field
	// error invalid_format of fields, if the fields are invalid.
	PreviewFields(ctx context.Context, fields []Field) (FieldsPreview, error)

	// FillFields starts a job that gives every user the default of each required field for
	// which they have no value, in the schema of that revision. It never replaces a value.
	// The job goes on after a restart, and ends when the host has another revision. It
	// replaces a job that runs. Codes: validation_failed, with the field error mismatch of
	// revision, if the host has another revision. The values that it fills in are not a
	// change by the user: User.Updated stays, and there is no event about the user. A host may
	// rely on an earlier result of Profile for its FreshFor, as after a change through
	// another host.
	FillFields(ctx context.Context, revision string) error

	// FieldsFill returns the progress of the job that FillFields started last.
	FieldsFill(ctx context.Context) (FieldsFill, error)

	// SignIn opens a session for a user whom the host has authenticated itself. The address
	// and the agent of the [Call] are the user's. It asks for the code of a second factor as
	// [Service.Authorize] does, unless SecondFactorDone is set. Codes: malformed_request with both
	// a user id and an identity; validation_failed, not_found for an identity of no account, too;
	// account_disabled, email_unverified, code_required, invalid_code, codes_blocked.
	//
	// Register users by RegisterIdentity, not by CreateUser, LinkIdentity and SignIn: these open a session
	// with an e-mail that is not confirmed, take the address, and are not judged as a registration.
	SignIn(ctx context.Context, r SignInRequest) (SignedIn, error)

	// LinkIdentity links the identity of a user at a provider to their account, which a session
	// and a proof of it name. It succeeds if the identity is the account's already. With UserID alone it links the first identity of an account
	// that no one can have signed in to: it has no password and no other identity, and never had
	// a session, as after CreateUser. Codes: unauthenticated, email_unverified if the user has
	// not confirmed their e-mail, where the site verifies e-mails, and Credentials are set;
	// validation_failed; not_found; already_exists if the identity is another account's;
	// too_many_identities.
	LinkIdentity(ctx context.Context, r LinkIdentityRequest) error

	// FindIdentity returns the id of the user to whom an identity is linked, to be shown: that may
	// have changed when the id is used, so SignIn takes the identity itself. Codes: not_found for
	// an identity of no account; validation_failed.
	FindIdentity(ctx context.Context, i Identity) (userID int64, err error)

	// RegisterIdentity creates an account without a password, which the identity signs in to, and its
	// first session, in one transaction. Login, e-mail and fields are those of [Service.Register]; what
	// that refuses, limits and judges, this does. It returns what Register returns, the zero SignedIn
	// where the e-mail must be verified first. An identity may have 30 attempts an hour.
	// For an Administrator nothing is judged, and the address of the call is not the user's.
	// Codes: malformed_request if the [Call] has neither the address of the visitor nor an
	// Administrator; validation_failed; already_exists, with the field error taken of identity if an
	// account has it, whatever that account's state.
	RegisterIdentity(ctx context.Context, r RegisterIdentityRequest) (SignedIn, error)

	// ProveIdentity is [Service.Prove] by an identity of the session's account, at which a provider has just
	// authenticated the user. The proof begins then; it is void when the identity is unlinked. It opens
	// no session. An account with a second factor needs a code. Codes: unauthenticated;
	// validation_failed, with the field error mismatch of identity if it is not the account's, and of
	// authenticated_at if that is too long ago.
	ProveIdentity(ctx context.Context, r ProveIdentityRequest) (Proof, error)

	// EndIdentitySessions ends the sessions that an identity has opened, because the user has signed out at
	// the provider, and returns the user's id. It succeeds if there are none; the id is 0 for an identity of no
	// account. Codes: validation_failed.
	EndIdentitySessions(ctx context.Context, r EndIdentitySessionsRequest) (userID int64, err error)

	// UnlinkIdentity removes an identity from its account, for the user with a proof or for an
	// administrator, and ends every session of the account that SignIn has opened. It succeeds if the account does not have the identity.
	// Codes: unauthenticated, validation_failed, not_found, last_way_in if the account has
	// neither password nor verified e-mail, and nothing else signs in to it.
	UnlinkIdentity(ctx context.Context, r UnlinkIdentityRequest) error
}

// UserState is a property by which [Administration.FindUsers] selects users. A user may
// have several.
type UserState string

// The states. The zero value matches all users.
const (
	UserActive      UserState = "active"      // not disabled
	UserDisabled    UserState = "disabled"    // by an administrator, or because they have deleted their account
	UserUnconfirmed UserState = "unconfirmed" // they must confirm their e-mail before they can sign in
	UserTwoFactor   UserState = "two_factor"  // a second factor is on
)

// FindUsersRequest has the parameters of [Administration.FindUsers]. A user is listed if
// they match everything that is set. In FIELDS the parameters are called search, state,
// since, until, field, value, fields, after and limit.
type FindUsersRequest struct {
	Search string    // part of a login, an e-mail or a name, as people may spell it, or a whole id; empty: all users
	State  UserState // empty: all states
	Since  time.Time // registered at or after this time; zero: no bound
	Until  time.Time // registered before this time; zero: no bound
	Field  string    // the name of an enum, boolean or integer field; empty: none
	Value  string    // what Field must be, as a form sends it: an option, true or false, or a number
	Fields []string  // the user fields to return in User.Fields, by name
	Oldest bool      // the oldest first, else the newest
	After  int64     // UserPage.Next of the previous page; 0: the first page
	Limit  int       // users on the page, up to MaxUserLimit; 0: DefaultUserLimit
}

// UserPage is one page of users.
type UserPage struct {
	Users []User
	Next  int64 // FindUsersRequest.After of the next page; 0 on the last page
}

// User is a user in a list. Its JSON form is that of the command line; docs/helping-users.md
// lists the keys.
type User struct {
	ID              int64     `json:"id"`
	Login           string    `json:"login"`
	Name            *string   `json:"name,omitempty"`             // nil if none
	Email           string    `json:"email,omitempty"`            // empty if none; an imported user may have none
	EmailVerified   bool      `json:"email_verified"`             // whether Email was confirmed
	UnverifiedEmail string    `json:"unverified_email,omitempty"` // the address that they must confirm before they can sign in; empty for none
	Disabled        bool      `json:"disabled"`
	EraseAt         time.Time `json:"erase_at,omitzero"`  // UTC; when the account, which its user has deleted, is erased; zero if it was not deleted
	TwoFactor       bool      `json:"two_factor"`         // whether a second factor is on
	Created         time.Time `json:"created"`            // UTC
	Updated         time.Time `json:"updated"`            // UTC
	LastSeen        time.Time `json:"last_seen,omitzero"` // UTC; the last use of any session that is still stored, zero if there is none

	// LastSignIn is when the user signed in last, UTC, up to a day too early: a sign-in
	// within 24 hours of the stored one does not change it. A registration that opens a
	// session counts. It is zero for users who have never signed in.
	LastSignIn time.Time `json:"last_sign_in,omitzero"`

	Fields []ProfileField `json:"-"` // those that FindUsersRequest.Fields names, in the schema's order; else nil
}

// UserRecord is all data about a user that administrators may see.
type UserRecord struct {
	User
	Fields     []ProfileField   // every user field, including hidden ones, in the schema's order
	Passkeys   []Passkey        // the newest first
	Identities []LinkedIdentity // the latest first
}

// RevokeUserSessionRequest has the parameters of [Administration.RevokeUserSession].
type RevokeUserSessionRequest struct {
	UserID int64
	ID     string // [Session].ID
}

// RemoveTwoFactorRequest has the parameters of [Administration.RemoveTwoFactor].
type RemoveTwoFactorRequest struct {
	UserID          int64
	KeepOtherWaysIn bool // else passkeys and identities are removed, too
}

// ResetAccessRequest has the parameters of [Administration.ResetAccess]. In FIELDS the address is
// called email.
type ResetAccessRequest struct {
	UserID int64
	Email  string // valid as at registration; it may be the present one
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

// CreateUserRequest has the parameters of [Administration.CreateUser].
type CreateUserRequest struct {
	Login  string           // valid as at registration; it may be a reserved one
	Email  string           // valid as at registration; empty: none
	Fields map[string]Input // "name" and any user field
	Invite bool             // sends a mail; Email is required
	Locale string           // BCP 47; the language of the user's mails; empty: that of the call
}

// ExplainRequest has the parameters of [Administration.Explain]. In FIELDS they are
// called login and addresses.
type ExplainRequest struct {
	Login     string       // a login, an e-mail or an id
	Addresses []netip.Addr // of the user, besides those that the module knows
}

// Explanation says why a user cannot sign in.
type Explanation struct {
	User     *User     // nil if there is none
	Verdicts []Verdict // the decisive one first; at least one
}

// Verdict is one answer to why a user cannot sign in. Only the values that its Reason
// names are set. Its JSON form is that of the command line.
type Verdict struct {
	Reason  Reason    `json:"reason"`
	Action  Action    `json:"action,omitempty"`  // what helps; empty: nothing is needed, or only time helps
	Limit   string    `json:"limit,omitempty"`   // the name of the limit
	Address string    `json:"address,omitempty"` // an address, or for IPv6 a network; empty: everywhere, or unknown
	Since   time.Time `json:"since,omitzero"`    // UTC; when it happened or began
	Until   time.Time `json:"until,omitzero"`    // UTC; zero: it does not end by itself
	Kind    string    `json:"kind,omitempty"`    // of a mail
	Reply   string    `json:"reply,omitempty"`   // the mail relay's words
	Count   int       `json:"count,omitempty"`

	Providers string `json:"providers,omitempty"` // of identities: their names, separated by commas
}

// Reason says why a user cannot sign in, or what else an administrator should know.
// Readers must tolerate unknown reasons.
type Reason string

// The reasons.
const (
	ReasonNoAccount      Reason = "no_account"        // no user has the login, e-mail or id
	ReasonEmailSignInOff Reason = "email_sign_in_off" // they enter their e-mail, and the site accepts only logins
	ReasonDisabled       Reason = "disabled"          // by an administrator
	ReasonDeleted        Reason = "deleted"           // by the user; Until: when the account is erased
	ReasonUnverified     Reason = "unverified"        // they must confirm their e-mail first; Until: when the account is erased
	ReasonNoPassword     Reason = "no_password"       // created or imported without one, or their access was reset, and nothing else signs them in
	ReasonOnlyOtherWays  Reason = "only_other_ways"   // they have no password, and sign in with passkeys, identities (Providers) or a mailed code
	ReasonIdentities     Reason = "identities"        // Count: identities that sign them in; Providers
	ReasonNoEmail        Reason = "no_email"          // no mail can reach them
	ReasonLimit          Reason = "limit"             // of the account: Limit, Address, Until
	ReasonAddressLimit   Reason = "address_limit"     // of all users at an address: Limit, Address, Until
	ReasonMailLimit      Reason = "mail_limit"        // too many mails of a budget: Kind, Until; Address if only of a network
	ReasonCodesBlocked   Reason = "codes_blocked"     // too many codes were refused: away from fully known addresses, a sign-in needs a recovery code; Until
	ReasonTwoFactor      Reason = "two_factor"        // a code is needed; Count: their recovery codes
	ReasonTwoFactorKey   Reason = "two_factor_key"    // the secret key of the second factor is missing
	ReasonMailedCode     Reason = "mailed_code"       // a mailed code signs them in
	ReasonPasskeys       Reason = "passkeys"          // Count: passkeys that sign them in
	ReasonMailWaiting    Reason = "mail_waiting"      // Kind, Since, Until: the next attempt, Count: attempts so far
	ReasonMailRefused    Reason = "mail_refused"      // Kind, Since, Reply
	ReasonFailed         Reason = "failed"            // wrong passwords or codes: Count, Since: the last one, Address
	ReasonMissingFields  Reason = "missing_fields"    // Count: user fields without a valid value, which the site may ask for
	ReasonNothing        Reason = "nothing"           // nothing prevents them from signing in
)

// Action is what helps. Readers must tolerate unknown actions.
type Action string

// The actions.
const (
	ActionCreate          Action = "create"            // [Administration.CreateUser]
	ActionEnable          Action = "enable"            // [Administration.EnableUser]
	ActionVerify          Action = "verify"            // [Service.ResendVerification]
	ActionRecover         Action = "recover"           // [Service.Recover]
	ActionSetEmail        Action = "set_email"         // [Administration.SetEmail]
	ActionLiftLimits      Action = "lift_limits"       // [Administration.LiftLimits]
	ActionRemoveTwoFactor Action = "remove_two_factor" // [Administration.RemoveTwoFactor], once it is certain that the user asks
	ActionOperator        Action = "operator"          // the operator of the site must correct its configuration
)

// LiftLimitsRequest has the parameters of [Administration.LiftLimits]. In FIELDS the
// addresses are called addresses.
type LiftLimitsRequest struct {
	UserID    int64
	Addresses []netip.Addr // of the user, besides those that the module knows
}

// FieldsPreview is what a schema would find in the users there are.
type FieldsPreview struct {
	Accounts   int64             `json:"accounts"`   // users that were checked
	Violations int64             `json:"violations"` // of those, users who lack a required value or have one that is refused
	Fillable   int64             `json:"fillable"`   // of those, users who would violate nothing after the defaults were filled in
	Complete   bool              `json:"-"`          // all users were checked; false: there are at least so many
	Kept       map[string]int64  `json:"-"`          // users who have a value of a field that becomes read-only, by its name: they may have typed it
	Examples   []FieldsViolation `json:"examples"`   // up to MaxPreviewExamples
}

// FieldsViolation is a user whose user fields violate a schema.
type FieldsViolation struct {
	UserID int64       `json:"user_id"`
	Login  string      `json:"login"`
	Fields FieldErrors `json:"fields"` // by user field
}

// FillState is the state of a filling job.
type FillState string

// The states.
const (
	FillRunning    FillState = "running"
	FillDone       FillState = "done"       // all users were checked
	FillSuperseded FillState = "superseded" // the host has another revision: it ended early
)

// FieldsFill is the progress of a filling job.
type FieldsFill struct {
	Revision string    `json:"revision"` // of the schema; empty: there was no job
	State    FillState `json:"state"`
	Checked  int64     `json:"checked"`          // users so far
	Total    int64     `json:"total"`            // users when it began
	Filled   int64     `json:"filled"`           // users whose values were filled in
	Started  time.Time `json:"started,omitzero"` // UTC
	Ended    time.Time `json:"ended,omitzero"`   // UTC; zero while it runs
}
