package personal

import (
	"context"
	"time"
)

// Service is what a personal-account module offers: the operations behind
// {base_url}/api/v1/personal/.
//
// Every error is, or wraps, an [*Error]; whatever does not is an internal
// failure and must be shown to nobody. Besides the codes listed at each method
// any of them may return [CodeTooManyAttempts], [CodeInternal],
// [CodeUnavailable] and, when the running version does not offer the operation,
// [CodeNotFound]. Methods that take [Credentials] return [CodeUnauthenticated]
// when the pair is malformed, unknown, expired or revoked.
//
// Errors of a request are judged in a fixed order, whichever way the request is
// wrong: malformed_request, too_many_attempts, then the 401s, then
// too_many_attempts by the limits of the session or the account, account_disabled,
// validation_failed with every faulty parameter at once, and already_exists last,
// with the login if that is taken and the e-mail only otherwise.
//
// Implementations are safe for concurrent use and honour the context's deadline.
type Service interface {
	// Authorize signs a user in by login, or e-mail, and password and opens a
	// new session. Codes: invalid_credentials for an unknown login and a wrong
	// password alike, account_disabled, validation_failed.
	Authorize(ctx context.Context, r AuthorizeRequest) (SignedIn, error)

	// Refresh rotates the session's hash. A hash that was superseded less than the
	// grace period ago returns the current hash. So does the immediate predecessor
	// until its successor is used, and for the grace period after that. Any other
	// superseded hash is theft and ends the session (HTTP contract, section 3,
	// auth_refresh).
	Refresh(ctx context.Context, c Credentials) (Credentials, error)

	// Register creates an account and its first session, both or neither.
	// Codes: malformed_request, validation_failed, already_exists.
	Register(ctx context.Context, r RegisterRequest) (SignedIn, error)

	// Recover asks for a mail with a recovery token. It succeeds whether or not
	// an account matches. Codes: validation_failed.
	Recover(ctx context.Context, r RecoverRequest) error

	// RecoverConfirm sets a new password by a mailed token and ends every
	// session of the account. Codes: validation_failed, invalid_token.
	RecoverConfirm(ctx context.Context, r RecoverConfirmRequest) error

	// Profile tells who the credentials belong to.
	Profile(ctx context.Context, c Credentials) (Profile, error)

	// UpdateProfile changes the fields that were sent and no others.
	// Codes: malformed_request, validation_failed.
	UpdateProfile(ctx context.Context, r UpdateProfileRequest) (Profile, error)

	// ChangePassword replaces the password, answers a fresh pair for this
	// session and ends every other one. Codes: validation_failed, with mismatch
	// on old_password when that is wrong.
	ChangePassword(ctx context.Context, r ChangePasswordRequest) (Credentials, error)

	// ChangeEmail mails a token to the new address; nothing changes until it
	// comes back. Codes: validation_failed, with mismatch on password when that
	// is wrong; already_exists.
	ChangeEmail(ctx context.Context, r ChangeEmailRequest) error

	// ConfirmEmail makes the address that the token was mailed to the
	// account's. Codes: validation_failed, invalid_token, already_exists.
	ConfirmEmail(ctx context.Context, r ConfirmEmailRequest) error

	// Logout ends this session, or every session of the account.
	// Codes: validation_failed.
	Logout(ctx context.Context, r LogoutRequest) error

	// Sessions lists the account's living sessions, the latest used first.
	Sessions(ctx context.Context, c Credentials) ([]Session, error)

	// RevokeSession ends one session of the caller's account. An id that is
	// unknown or somebody else's succeeds and changes nothing.
	// Codes: validation_failed.
	RevokeSession(ctx context.Context, r RevokeSessionRequest) error

	// Fields returns the user fields a form may show: all but the hidden ones,
	// in the schema's order.
	Fields(ctx context.Context) ([]Field, error)
}

// Credentials are the pair that identifies a session: User-Id and User-Hash.
type Credentials struct {
	UserID   int64  // 1 … 2^53−1; 0 where the caller sent none that could be read
	UserHash string // 32 bytes as unpadded base64url, 43 characters; a secret
}

// SignedIn is the answer to a sign-in or a registration.
type SignedIn struct {
	Credentials Credentials
	Profile     Profile
}

// Profile is what an account shows of itself.
type Profile struct {
	Login  string
	Name   *string // nil if none
	Email  string
	Fields []ProfileField // every user field that is not hidden, in the schema's order
}

// ProfileField is one user field of a profile.
type ProfileField struct {
	Name  string
	Value any // nil, bool, int64, float64, string or []string
}

// AuthorizeRequest carries the parameters of [Service.Authorize].
type AuthorizeRequest struct {
	Login       string // a login or an e-mail address
	Password    string
	FieldErrors FieldErrors // parameters that could not be read, see [FieldErrors]
}

// RegisterRequest carries the parameters of [Service.Register].
type RegisterRequest struct {
	Login           string
	Password        string
	ConfirmPassword string
	Email           string
	Fields          map[string]Input // "name" and every other parameter sent, known or not
	FieldErrors     FieldErrors
}

// RecoverRequest carries the parameters of [Service.Recover]: one of the two at
// least; where both are given, both must match one account.
type RecoverRequest struct {
	Login       string
	Email       string
	FieldErrors FieldErrors
}

// RecoverConfirmRequest carries the parameters of [Service.RecoverConfirm].
type RecoverConfirmRequest struct {
	Token           string
	Password        string
	ConfirmPassword string
	FieldErrors     FieldErrors
}

// UpdateProfileRequest carries the parameters of [Service.UpdateProfile].
type UpdateProfileRequest struct {
	Credentials Credentials
	Fields      map[string]Input // "name" and every other parameter sent; an unset one clears
}

// ChangePasswordRequest carries the parameters of [Service.ChangePassword].
type ChangePasswordRequest struct {
	Credentials     Credentials
	OldPassword     string
	Password        string
	ConfirmPassword string
	FieldErrors     FieldErrors
}

// ChangeEmailRequest carries the parameters of [Service.ChangeEmail].
type ChangeEmailRequest struct {
	Credentials Credentials
	Password    string
	Email       string
	FieldErrors FieldErrors
}

// ConfirmEmailRequest carries the parameters of [Service.ConfirmEmail].
type ConfirmEmailRequest struct {
	Token       string
	FieldErrors FieldErrors
}

// LogoutRequest carries the parameters of [Service.Logout].
type LogoutRequest struct {
	Credentials Credentials
	All         bool // every session of the account, this one too
	FieldErrors FieldErrors
}

// RevokeSessionRequest carries the parameters of [Service.RevokeSession].
type RevokeSessionRequest struct {
	Credentials Credentials
	ID          string // as listed by [Service.Sessions]
	FieldErrors FieldErrors
}

// Session is one living session of an account.
type Session struct {
	ID       string
	Created  time.Time // UTC
	LastSeen time.Time // UTC; written at most once a minute
	Expires  time.Time // UTC; when it ends if it is not used any more
	Address  string    // the client's address at sign-in; empty if unknown
	Agent    string    // the client's User-Agent at sign-in, shortened; empty if unknown
	Current  bool      // the session that asks
}
