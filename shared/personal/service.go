package personal

import (
	"context"
	"time"
)

// Service is what a personal-account module offers to visitors: the operations behind
// {base_url}/api/v1/personal/.
//
// Every error is or wraps an [*Error]. Treat any other error as an internal failure
// and do not show its text. Besides the codes listed at each method, every method may
// return [CodeMalformedRequest] for a text that is not valid UTF-8, which never reaches a
// module in another process, [CodeTooManyAttempts], [CodeInternal], [CodeUnavailable] and,
// if the running version does not offer the operation, [CodeNotFound]. Methods that take
// [Credentials] return [CodeUnauthenticated] if the pair is malformed, unknown,
// expired or revoked.
//
// If a request has several errors, the first of this list is returned:
// malformed_request; the decision of an [Admission], refused or validation_failed;
// too_many_attempts; unauthenticated or invalid_credentials; too_many_attempts by a limit
// of the session or the account; account_disabled or email_unverified; validation_failed,
// with all invalid parameters at once; already_exists, with the login if it is taken, and
// the e-mail otherwise; two_factor_on or two_factor_off.
//
// A Code in a request is a code of the second factor, or a recovery code unless the
// method says otherwise. It is judged only when nothing else is wrong, and used up only
// by an operation that succeeds. Accounts without a second factor need none. Where a method does not
// say otherwise, a missing code is the field error required, and a wrong or used one mismatch.
//
// A Proof in a request is one that [Service.Prove] has returned to the same session. If it is set, it alone
// shows that the session's user makes the request: the password and the code of the request are ignored. A
// proof that is wrong, expired, void, or of another session is the field error mismatch of proof.
//
// Implementations are safe for concurrent use and honour the context's deadline.
type Service interface {
	// Authorize signs a user in with a login or an e-mail address, and a password, and
	// creates a session. If the account has a second factor, a code is needed as well.
	// Codes: invalid_credentials for an unknown login as for a wrong password,
	// account_disabled, email_unverified, code_required, invalid_code, codes_blocked,
	// validation_failed.
	Authorize(ctx context.Context, r AuthorizeRequest) (SignedIn, error)

	// Refresh rotates the session's hash and returns the new one. For a hash that was
	// superseded less than the grace period ago it returns the current hash instead.
	// The same holds for the immediate predecessor until its successor is used, and for
	// the grace period after that. Any other superseded hash counts as stolen and ends
	// the session (HTTP contract, section 3, auth_refresh).
	Refresh(ctx context.Context, c Credentials) (Credentials, error)

	// Register creates an account and its first session in one transaction. Where the
	// site requires a verified e-mail, it creates no session and returns the zero
	// SignedIn: the user can sign in after [Service.ConfirmEmail]; whether the e-mail
	// is another account's is not revealed.
	// Codes: malformed_request, validation_failed, already_exists.
	Register(ctx context.Context, r RegisterRequest) (SignedIn, error)

	// Recover requests a mail with a recovery token. It succeeds whether or not
	// an account matches. Codes: validation_failed.
	Recover(ctx context.Context, r RecoverRequest) error

	// RecoverConfirm sets a new password with a mailed token, ends every session of the
	// account, and removes its passkeys and identities. The second factor stays. With Preview it
	// returns what it would remove, and changes nothing. Codes: validation_failed, invalid_token.
	RecoverConfirm(ctx context.Context, r RecoverConfirmRequest) (Recovered, error)

	// Profile returns the profile of the account that the credentials identify. It may be
	// a remembered one if ctx is of [AllowRemembered].
	Profile(ctx context.Context, c Credentials) (Profile, error)

	// UpdateProfile changes the fields that were sent and no others, and returns the
	// whole profile.
	// Codes: malformed_request, validation_failed.
	UpdateProfile(ctx context.Context, r UpdateProfileRequest) (Profile, error)

	// Prove shows that the session's user is there, by their password and the code of their second
	// factor, and returns a proof of that. Other operations of the session take it instead of both
	// until it ends, more than once. It is void when the password or the e-mail changes, a second
	// factor is switched on or off, the account is disabled or deleted, the session ends, or another
	// proof is made in it. Attempt and Credential are those of a passkey, Attempt and MailedCode those of a
	// mailed code; they are sent without a password.
	// Codes: validation_failed, with the field error mismatch for a wrong password, credential or mailed
	// code.
	Prove(ctx context.Context, r ProveRequest) (Proof, error)

	// ChangePassword replaces the password, returns new credentials for this session
	// and ends every other session. If it removes the passkey that began this session, that
	// ends, too, and the new credentials are unauthenticated. Codes: validation_failed, with the field error
	// mismatch for a wrong old_password.
	ChangePassword(ctx context.Context, r ChangePasswordRequest) (Credentials, error)

	// ChangeEmail mails a token to the new address. The address changes only when
	// ConfirmEmail is called with the token. Codes: validation_failed, with the field
	// error mismatch for a wrong password; already_exists.
	ChangeEmail(ctx context.Context, r ChangeEmailRequest) error

	// ConfirmEmail changes the account's e-mail to the address that the token was
	// mailed to, or confirms it if it is that address already, as after a
	// registration. It returns the user's id, which a visitor must not see.
	// For an account that waits for the address (see Register), Login must be its
	// login: else the field error of login is required, or mismatch, neither of which
	// uses the token up. The tenth mismatch voids it.
	// Codes: validation_failed, invalid_token, already_exists.
	ConfirmEmail(ctx context.Context, r ConfirmEmailRequest) (userID int64, err error)

	// Logout ends this session or every session of the account.
	// Codes: validation_failed.
	Logout(ctx context.Context, r LogoutRequest) error

	// Sessions lists the account's active sessions, the most recently used first.
	Sessions(ctx context.Context, c Credentials) ([]Session, error)

	// RevokeSession ends one session of the caller's account. With an id that is
	// unknown or belongs to another account it succeeds and changes nothing.
	// Codes: validation_failed.
	RevokeSession(ctx context.Context, r RevokeSessionRequest) error

	// RevokeOtherSessions ends every session of the account but the caller's.
	RevokeOtherSessions(ctx context.Context, c Credentials) error

	// Fields returns the user fields that are not hidden, in the schema's order.
	Fields(ctx context.Context) ([]Field, error)

	// Features returns what a page must know before it draws a form.
	Features(ctx context.Context) (Features, error)

	// ResendVerification requests another mail that proves the account's e-mail. It
	// succeeds whether or not an account matches or needs one. Codes: validation_failed.
	ResendVerification(ctx context.Context, r ResendVerificationRequest) error

	// Export returns what is kept about the user. A user may have three exports at once,
	// and then one every 8 hours. Codes: validation_failed, with the field error
	// mismatch for a wrong password.
	Export(ctx context.Context, r ExportRequest) (Export, error)

	// Delete disables the account, ends every session, and mails a token with which
	// UndoDelete undoes that. It returns when the account is erased, in UTC.
	// Codes: validation_failed, with the field error mismatch for a wrong password.
	Delete(ctx context.Context, r DeleteRequest) (eraseAt time.Time, err error)

	// UndoDelete enables an account that its user has deleted, and returns the user's
	// id. It does not lift an administrator's disabling.
	// Codes: validation_failed, invalid_token.
	UndoDelete(ctx context.Context, r UndoDeleteRequest) (userID int64, err error)

	// BeginTwoFactor makes a secret for the user's authenticator app. It counts for nothing
	// until ConfirmTwoFactor is called, in the same session and within 10 minutes.
	// Codes: email_unverified if the user has not confirmed their e-mail, where the site
	// verifies e-mails; validation_failed; two_factor_on.
	BeginTwoFactor(ctx context.Context, r BeginTwoFactorRequest) (TwoFactorSecret, error)

	// ConfirmTwoFactor switches the second factor on with a code that the new secret
	// yields, ends every other session, and returns the recovery codes and new credentials
	// for this one, whose former hashes are void. It takes no recovery code.
	// Codes: email_unverified, validation_failed, two_factor_off if no secret waits for its
	// confirmation.
	ConfirmTwoFactor(ctx context.Context, r ConfirmTwoFactorRequest) (ConfirmedTwoFactor, error)

	// RenewRecoveryCodes replaces all recovery codes and returns the new ones.
	// Codes: validation_failed, two_factor_off.
	RenewRecoveryCodes(ctx context.Context, r RenewRecoveryCodesRequest) (recoveryCodes []string, err error)

	// RemoveOwnTwoFactor switches the second factor off, ends every other session, and returns
	// new credentials for this one, whose former hashes are void.
	// Codes: validation_failed, two_factor_off.
	RemoveOwnTwoFactor(ctx context.Context, r RemoveOwnTwoFactorRequest) (Credentials, error)

	// BeginPasskey begins a ceremony with a passkey: a sign-in by anyone, or a proof of the
	// session's user. It stores nothing for a sign-in. All operations with passkeys are
	// not_found unless the site has switched passkeys on.
	// Codes: validation_failed; unauthenticated for a proof.
	BeginPasskey(ctx context.Context, r BeginPasskeyRequest) (PasskeyCeremony, error)

	// AuthorizePasskey signs a user in with a passkey and creates a session, which has a proof.
	// If the account has a second factor, a code is needed as well, unless the passkey was added
	// with one. An attempt works once.
	// Codes: invalid_credentials for an attempt that is wrong, expired or used, and for a
	// credential that is malformed or wrong; the others of Authorize.
	AuthorizePasskey(ctx context.Context, r AuthorizePasskeyRequest) (SignedIn, error)

	// BeginMailedCode starts an attempt, and mails a code for it: for a sign-in to the verified e-mail of the
	// account with the login or e-mail, for a proof to that of the session's user. The response is the
	// same whether or not there is a mail. Only a verified e-mail of an account that is neither
	// disabled nor waits for another one gets a code, and for a proof only that of an account without a password, unless the site has
	// switched mailed codes on. Without that a sign-in is not_found.
	// Codes: validation_failed; unauthenticated for a proof.
	BeginMailedCode(ctx context.Context, r BeginMailedCodeRequest) (MailedCodeAttempt, error)

	// AuthorizeMailedCode signs a user in with a mailed code and creates a session, which has a proof. If
	// the account has a second factor, a code is needed as well. A mailed code is 10 minutes valid, and used
	// up by a sign-in alone; five wrong ones void that of their attempt. It is not_found unless the site
	// has switched mailed codes on.
	// Codes: invalid_code for every attempt and mailed code that do not sign in; code_required.
	AuthorizeMailedCode(ctx context.Context, r AuthorizeMailedCodeRequest) (SignedIn, error)

	// AddPasskey begins the creation of a passkey for the session's user. It lasts five minutes
	// and does nothing before ConfirmPasskey is called in the same session.
	// Codes: email_unverified if the user has not confirmed their e-mail, where the site
	// verifies e-mails; validation_failed; too_many_passkeys.
	AddPasskey(ctx context.Context, r AddPasskeyRequest) (PasskeyCeremony, error)

	// ConfirmPasskey stores the passkey that an authenticator has created. Repeated in the same
	// session it returns the same passkey as long as that exists.
	// Codes: email_unverified; validation_failed, with the field error mismatch of credential for
	// one that is wrong or known, or whose attempt is wrong, expired or used; too_many_passkeys.
	ConfirmPasskey(ctx context.Context, r ConfirmPasskeyRequest) (Passkey, error)

	// Passkeys lists the user's passkeys, the newest first.
	Passkeys(ctx context.Context, c Credentials) ([]Passkey, error)

	// RenamePasskey renames a passkey of the user. With an id that is unknown or belongs to
	// another account it succeeds and changes nothing. Codes: validation_failed.
	RenamePasskey(ctx context.Context, r RenamePasskeyRequest) error

	// RemovePasskey removes a passkey of the user and ends the sessions that it began, the
	// caller's too. With an id that is unknown or belongs to another account it succeeds and
	// changes nothing.
	// Codes: validation_failed; last_way_in if the account has no password, no e-mail and no
	// other passkey.
	RemovePasskey(ctx context.Context, r RemovePasskeyRequest) error
}

// Credentials identify a session. In HTTP they are the headers User-Id and User-Hash.
type Credentials struct {
	UserID   int64  // 1 … 2^53−1; 0 if the caller sent no valid credentials
	UserHash string // a secret: 32 bytes as unpadded base64url, 43 characters
}

// SignedIn is the result of a sign-in or a registration.
type SignedIn struct {
	Credentials Credentials
	Profile     Profile

	// Proof is that of the session, see [Service.Prove], for five minutes at most. RenewRecoveryCodes and
	// RemoveOwnTwoFactor refuse it: they ask for a code again. Zero: the user was not authenticated recently.
	Proof Proof
}

// Profile is the account's data that its user sees.
type Profile struct {
	Login  string
	Name   *string // nil if none
	Email  string
	Fields []ProfileField // the user fields that are not hidden, in the schema's order

	EmailVerified bool // whether Email was confirmed
	TwoFactor     bool // whether a second factor is on
	NoPassword    bool // whether the user has no password, and proves who they are otherwise

	// Missing are the names of the user fields that the user can set and that have no valid
	// value although they need one, in the schema's order.
	Missing []string

	// FreshFor is how long a host may rely on a result of [Service.Profile], counted
	// from the moment of the call. It is 0 if the host must ask again each time, and in
	// the results of all other operations. Visitors do not see it.
	FreshFor time.Duration
}

// ProfileField is one user field of a profile.
type ProfileField struct {
	Name  string
	Value any // nil, bool, int64, float64, string or []string
}

// AuthorizeRequest has the parameters of [Service.Authorize].
type AuthorizeRequest struct {
	Login       string // a login or an e-mail address
	Password    string
	Code        string      // of the second factor; "" if none was sent
	FieldErrors FieldErrors // errors that the decoder found, see [FieldErrors]
}

// RegisterRequest has the parameters of [Service.Register].
type RegisterRequest struct {
	Login           string
	Password        string
	ConfirmPassword string
	Email           string
	Fields          map[string]Input // "name" and every other parameter that was sent, known or not
	FieldErrors     FieldErrors
}

// RecoverRequest has the parameters of [Service.Recover]. At least one is required.
// If both are set, both must match the same account.
type RecoverRequest struct {
	Login       string
	Email       string
	FieldErrors FieldErrors
}

// RecoverConfirmRequest has the parameters of [Service.RecoverConfirm].
type RecoverConfirmRequest struct {
	Token           string
	Password        string
	ConfirmPassword string
	Preview         bool `parameter:"-"` // only Token counts, and stays valid; not a parameter of the HTTP API
	FieldErrors     FieldErrors
}

// Recovered is the result of [Service.RecoverConfirm].
type Recovered struct {
	UserID int64 // a visitor must not see it

	// Of a preview: the other ways in that the recovery would remove.
	Passkeys  int
	Providers []string // of the identities, see [Providers]
}

// UpdateProfileRequest has the parameters of [Service.UpdateProfile].
type UpdateProfileRequest struct {
	Credentials Credentials
	Fields      map[string]Input // "name" and every other parameter that was sent; an unset input clears the field
}

// ProveRequest has the parameters of [Service.Prove]: a password, or the response of a passkey to an attempt.
type ProveRequest struct {
	Credentials Credentials
	Password    string
	Code        string // of the second factor
	Attempt     string // at which the passkey responded, or whose code was mailed
	Credential  string // the response of the passkey, as JSON
	MailedCode  string
	FieldErrors FieldErrors
}

// Proof is the result of [Service.Prove].
type Proof struct {
	Proof string    // a secret: 32 bytes as unpadded base64url, 43 characters
	Until time.Time // UTC; when it ends
}

// ChangePasswordRequest has the parameters of [Service.ChangePassword].
type ChangePasswordRequest struct {
	Credentials       Credentials
	OldPassword       string
	Password          string
	ConfirmPassword   string
	Code              string // of the second factor
	Proof             string // instead of OldPassword and Code
	RemoveOtherWaysIn bool   // removes all passkeys and identities of the account, and ends the sessions that they began
	FieldErrors       FieldErrors
}

// ChangeEmailRequest has the parameters of [Service.ChangeEmail].
type ChangeEmailRequest struct {
	Credentials Credentials
	Password    string
	Email       string
	Code        string // of the second factor
	Proof       string // instead of Password and Code
	FieldErrors FieldErrors
}

// ConfirmEmailRequest has the parameters of [Service.ConfirmEmail].
type ConfirmEmailRequest struct {
	Token       string
	Login       string // of an account that waits for the address; else ignored
	FieldErrors FieldErrors
}

// LogoutRequest has the parameters of [Service.Logout].
type LogoutRequest struct {
	Credentials Credentials
	All         bool // end every session of the account, including this one
	FieldErrors FieldErrors
}

// RevokeSessionRequest has the parameters of [Service.RevokeSession].
type RevokeSessionRequest struct {
	Credentials Credentials
	ID          string // a Session.ID
	FieldErrors FieldErrors
}

// Session is one active session of an account.
type Session struct {
	ID       string
	Created  time.Time // UTC
	LastSeen time.Time // UTC; written at most once a minute
	Expires  time.Time // UTC; when the session expires if it is not used again
	Address  string    // the client's address at sign-in; empty if unknown
	Agent    string    // the client's User-Agent at sign-in, shortened; empty if unknown
	Current  bool      // the session of the caller's credentials
	Method   string    // [MethodPassword], [MethodPasskey], [MethodMailedCode], [MethodRegistration] or that of a [SignInRequest]
}

// Features are the rules in force and what users can switch on. They are the same for
// every caller.
type Features struct {
	PasswordMinLength int // of a new password, in characters
	PasswordMaxBytes  int // of a password, in bytes of UTF-8

	LoginMinLength int // of a new login, in characters
	LoginMaxLength int
	LoginWithEmail bool // whether an e-mail is accepted as login at sign-in

	EmailVerification EmailVerification // what is in force, which may be less than the settings ask for
	TwoFactor         bool              // whether users can switch a second factor on
	Passkeys          bool              // whether users can add passkeys
	MailedCode        bool              // whether users can sign in with a mailed code

	DeletionGrace time.Duration // between the deletion of an account and its erasure
}

// EmailVerification says whether users must prove that an e-mail is theirs.
type EmailVerification string

// The values of [EmailVerification].
const (
	VerificationOff      EmailVerification = "off"      // no mail
	VerificationOptional EmailVerification = "optional" // a mail after the registration
	VerificationRequired EmailVerification = "required" // no sign-in before the e-mail is verified
)

// ResendVerificationRequest has the parameters of [Service.ResendVerification]. At
// least one is required. If both are set, both must match the same account.
type ResendVerificationRequest struct {
	Login       string
	Email       string
	FieldErrors FieldErrors
}

// ExportRequest has the parameters of [Service.Export].
type ExportRequest struct {
	Credentials Credentials
	Password    string
	Code        string // of the second factor
	Proof       string // instead of Password and Code
	FieldErrors FieldErrors
}

// Export is what is kept about a user. It has no hashes, digests or secrets, and no
// names and addresses of other people. The lists are newest first.
type Export struct {
	UserID           int64
	Profile          Profile
	Created, Updated time.Time // UTC, like all times
	Sessions         []Session
	Passkeys         []Passkey
	KnownAddresses   []KnownAddress
	Identities       []LinkedIdentity
	Events           []ExportedEvent // of the audit log
	PendingMails     []PendingMail
	Truncated        bool // older entries were left out, so that MaxExport holds
}

// KnownAddress is an address, or for IPv6 a network, from which a user has signed in.
type KnownAddress struct {
	Address  string
	LastSeen time.Time // written at most once a day
}

// ExportedEvent is an entry of the audit log as its user may see it.
type ExportedEvent struct {
	Type    EventType
	Time    time.Time
	Address string // empty if unknown or an administrator's
	Actor   Actor
}

// PendingMail is a mail that waits to be sent.
type PendingMail struct {
	Kind    string
	Created time.Time
}

// DeleteRequest has the parameters of [Service.Delete].
type DeleteRequest struct {
	Credentials Credentials
	Password    string
	Code        string // of the second factor
	Proof       string // instead of Password and Code
	FieldErrors FieldErrors
}

// UndoDeleteRequest has the parameters of [Service.UndoDelete].
type UndoDeleteRequest struct {
	Token       string
	FieldErrors FieldErrors
}

// BeginTwoFactorRequest has the parameters of [Service.BeginTwoFactor].
type BeginTwoFactorRequest struct {
	Credentials Credentials
	Password    string
	Proof       string // instead of Password
	FieldErrors FieldErrors
}

// TwoFactorSecret is the secret of a second factor (TOTP, RFC 6238: SHA-1, 6 digits, 30 s).
type TwoFactorSecret struct {
	Secret string // in base32 without padding
	URI    string // otpauth://totp/…, with the secret, for a QR code
}

// ConfirmTwoFactorRequest has the parameters of [Service.ConfirmTwoFactor].
type ConfirmTwoFactorRequest struct {
	Credentials Credentials
	Code        string
	FieldErrors FieldErrors
}

// ConfirmedTwoFactor is the result of [Service.ConfirmTwoFactor].
type ConfirmedTwoFactor struct {
	Credentials   Credentials // of the caller's session
	RecoveryCodes []string    // secrets, which are returned this once
}

// RenewRecoveryCodesRequest has the parameters of [Service.RenewRecoveryCodes].
type RenewRecoveryCodesRequest struct {
	Credentials Credentials
	Password    string
	Code        string
	Proof       string // instead of Password and Code
	FieldErrors FieldErrors
}

// RemoveOwnTwoFactorRequest has the parameters of [Service.RemoveOwnTwoFactor].
type RemoveOwnTwoFactorRequest struct {
	Credentials Credentials
	Password    string
	Code        string
	Proof       string // instead of Password and Code
	FieldErrors FieldErrors
}
