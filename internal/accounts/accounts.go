// Package accounts is the domain: what signing in, refreshing, registering,
// recovering and the other operations on a personal account do. It implements
// personal.Service and personal.Administration. Its ports are declared beside the
// operations that use them; it knows neither HTTP nor gRPC nor SQL.
//
// Each operation reads from top to bottom in the order in which the HTTP contract
// judges errors: unreadable parameters (400), limits by address and login (429),
// the caller's identity (401), limits by session and account (429), a disabled
// account (403), invalid parameters (422), values that are taken (409).
package accounts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/seal"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// Settings are the rules an administrator may change.
type Settings struct {
	SessionIdle        time.Duration // an unused session expires after this time
	SessionAbsolute    time.Duration // any session expires this long after its sign-in
	SupersededGrace    time.Duration // how long superseded hashes of a session stay valid
	ProofLifetime      time.Duration // how long a proof is valid
	VerifyCache        time.Duration // how long, at most, a host may use a remembered profile
	MinPassword        int           // characters a new password must have
	PasswordWords      []string      // words of the site, see [password.Policy]
	ReservedLogins     []string      // mapped logins (see [LoginKey]) that users may not register
	RecoveryLifetime   time.Duration // how long the token of a recovery is valid, and that of an e-mail change
	InvitationLifetime time.Duration // how long the token of an invitation is valid, and that of a reset
	RecoveryURL        string        // link in recovery mails, with the placeholder {token}; "" for no link
	EmailURL           string        // link in e-mail confirmations, likewise
	Site               string        // the site's name in mails; "" for none
	Mails              Mails         // texts of mails; nil: the built-in ones
	LoginWithEmail     bool          // whether an e-mail is accepted as login at sign-in

	EmailVerification    personal.EmailVerification
	RegistrationURL      string        // link in mails that verify a registration, likewise
	VerificationLifetime time.Duration // how long the token of such a mail is valid
	UnverifiedLifetime   time.Duration // after which an account that must verify its e-mail first, and has not, is erased
	Notices              bool          // whether mails about what happened to an account are sent
	DeletionGrace        time.Duration // between the deletion of an account and its erasure
	DeletionURL          string        // link in mails that undo a deletion, likewise
	TwoFactor            bool          // whether users can switch a second factor on; accounts that have one need its code in any case
	TwoFactorIssuer      string        // the name of the site in authenticator apps
	Passkeys             passkey.Site  // the relying party; without an ID there are no passkeys
	MailedCode           bool          // whether users can sign in with a mailed code
	Keys                 *seal.Keyring // encrypts the secrets of second factors, and the login key; nil: no key

	Throttle Throttle
}

// Mails writes the texts of mails, as [mailtext.Set.Write] does.
type Mails interface {
	Write(k mailtext.Kind, locale string, l mailtext.Letter) (subject, text, html string, err error)
}

// Store keeps everything that outlives a process. Each method is one transaction:
// it takes effect as a whole or not at all. All times are the database clock's
// (Now), in UTC, exact to the microsecond.
//
// A database that cannot be reached or is overloaded is ErrUnavailable. Errors that
// are neither that nor named at a method mean that the database failed.
type Store interface {
	SignInStore
	SessionStore
	RegistrationStore
	ProfileStore
	ProofStore
	PasswordStore
	MailStore
	MailLimitStore
	LoginKeyStore
	RecoveryStore
	EmailStore
	DeletionStore
	VerificationStore
	TwoFactorStore
	RepeatStore
	CodeStore
	PasskeyStore
	MailedCodeStore
	IdentityStore
	WayInStore
	ExportStore
	AdministrationStore
	ExplainStore
	LimitStore
	AttemptStore
	KnownAddressStore
	FieldsStore
	JobStore

	// Now is the database's time. Nodes measure their offset from it, so that
	// lifetimes are the same on all of them.
	Now() time.Time
}

// The errors that a Store reports and the domain decides by.
var (
	// ErrNotFound means that the row does not exist.
	ErrNotFound = errors.New("not found")
	// ErrStale means that what the caller read has changed since; nothing was
	// written.
	ErrStale = errors.New("what was read has changed")
	// ErrOtherLogin means that a token came with another login than its account's.
	ErrOtherLogin = errors.New("not the login of the account")
	// ErrUnavailable means that the database cannot be used at the moment. It may be
	// unknown whether a write took place.
	ErrUnavailable = errors.New("database unavailable")
)

// MaxAhead is how far after the database's clock a time may lie at which something happened,
// because the clocks of nodes, and of providers, differ a little. A later one is false: the clock
// was wrong when it was stored. It counts as no time.
const MaxAhead = throttle.Slack

// isFalse reports whether a time at which something happened is false.
func isFalse(t, now time.Time) bool { return t.After(now.Add(MaxAhead)) }

// lasts reports whether what lives for a lifetime since its creation is valid at now.
func lasts(since time.Time, lifetime time.Duration, now time.Time) bool {
	return !isFalse(since, now) && now.Before(since.Add(lifetime))
}

// TakenError says which unique value belongs to another account: the login, or, if
// the login is free, the e-mail. Only charges were written.
type TakenError struct{ Login, Email bool }

// Error names the columns, never their values.
func (e *TakenError) Error() string {
	return fmt.Sprintf("taken by another account (login: %t, e-mail: %t)", e.Login, e.Email)
}

// WaitError says that a limit is used up for now. Nothing was written.
type WaitError struct {
	Wait  time.Duration
	Limit string // its name
}

// Error returns the wait.
func (e *WaitError) Error() string { return fmt.Sprintf("too many attempts, wait %v", e.Wait) }

// Account is a stored account.
type Account struct {
	ID                int64 // 1 … 2^53−1, never reused
	Login             string
	LoginKey          string // the mapped form, which is unique
	Name              *string
	Email             Email
	PasswordHash      string // encoded by package password
	CredentialVersion int64  // raised by every change of the password, by disabling and enabling the account, by its deletion, and when its user switches a second factor on or off
	Fields            userfields.Values
	Disabled          bool
	Created, Updated  time.Time

	Locale        string // as [mailtext.Set.Write] takes it: the languages of mails that no request of the user causes; "" if unknown
	EmailVerified bool   // whether Email was confirmed
	Unverified    Email  // the address that must be confirmed before the first sign-in; zero: none

	EraseAt time.Time // when an account that its user has deleted is erased; zero: it was not deleted

	TwoFactor TwoFactor

	// When it was used; only as SearchAccounts, Accounts and Account return it.
	LastSeen   time.Time // the latest of its sessions that are still stored; zero without any
	LastSignIn time.Time // see personal.User
}

// Email is an address as shown and as matched.
type Email struct{ Address, Key string }

// Hasher hashes and verifies passwords. It is implemented by [password.Hasher],
// which limits how many hashes run at once.
type Hasher interface {
	Hash(ctx context.Context, from password.Source, prepared string) (string, error)
	Verify(ctx context.Context, from password.Source, encoded, entered string) (password.Result, error)
	VerifyDummy(ctx context.Context, from password.Source, digest uint32, entered string) error
}

// Service is the domain. Use [New] to make one; the zero value does not work.
type Service struct {
	settings Settings
	store    Store
	hasher   Hasher
	policy   password.Policy
	host     personal.Host
	schema   schemaCache
	log      *slog.Logger
	logKey   [32]byte // key of digests in the log, which ends with the process
	wake     func()   // wakes the outbox worker after a job was stored

	rejected   func(limit string)       // see CountRejections
	suppressed func(kind mailtext.Kind) // see CountSuppressedMails

	mailKey digestKey
	sealKey digestKey // see ceremonyKey
	drawKey digestKey // see keyOfDraws

	loginKey   atomic.Pointer[[]byte] // see ReadKeys; nil: logKey counts typed logins
	requestKey digestKey              // see sealRequest

	refusedSite atomic.Pointer[string] // see RefusedSite

	previewTime time.Duration // of PreviewFields; a test shortens it

	resealing   sync.Mutex      // held by ResealSecrets
	missingKeys map[string]bool // those in the log; guarded by resealing

	sessionWrites throttle.Memory // by session id
	useWarnings   throttle.Memory // one key: limits the log warnings about last uses that were not stored
	keyWarnings   throttle.Memory // one key: limits the log errors about missing secret keys
}

var (
	_ personal.Service        = (*Service)(nil)
	_ personal.Administration = (*Service)(nil)
)

// New returns the domain on top of its ports. It calls wake after a job was stored;
// wake must not block.
func New(settings Settings, store Store, hasher Hasher, host personal.Host, log *slog.Logger, wake func()) *Service {
	if settings.Mails == nil {
		settings.Mails = mailtext.BuiltIn()
	}
	s := &Service{
		settings: settings,
		store:    store,
		hasher:   hasher,
		policy:   password.Policy{MinLength: settings.MinPassword, SiteWords: settings.PasswordWords},
		host:     host,
		schema:   schemaCache{asking: make(chan struct{}, 1)},
		log:      log,
		wake:     wake,
		rejected: func(string) {},

		suppressed: func(mailtext.Kind) {},

		previewTime: previewTime,
	}
	_, _ = rand.Read(s.logKey[:]) // it never fails
	return s
}

// CountRejections makes the service call f, with the name of the limit, for each attempt
// that a limit refuses. f must be fast and safe for concurrent use. Call it before any
// other method.
func (s *Service) CountRejections(f func(limit string)) { s.rejected = f }

// CountSuppressedMails makes the service call f, with the kind, for each mail that a limit
// suppresses. f must be fast and safe for concurrent use. Call it before any other
// method.
func (s *Service) CountSuppressedMails(f func(kind mailtext.Kind)) { s.suppressed = f }

// retryAfter is the Retry-After of errors that the database or the hashing queue
// has caused.
const retryAfter = 2 * time.Second

// fail turns an error beneath an operation into the contract's error; nil stays
// nil. An outage is never reported as "not found": it must not look like a wrong
// password.
func fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	var known *personal.Error
	var taken *TakenError
	cause := fmt.Errorf("%s: %w", doing, err)
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &taken):
		e := &personal.Error{Code: personal.CodeAlreadyExists}
		if taken.Login {
			e.FieldErrors.Add("login", personal.FieldErrorTaken)
		}
		if taken.Email {
			e.FieldErrors.Add("email", personal.FieldErrorTaken)
		}
		return e
	case errors.Is(err, ErrLastWayIn):
		return refusal(personal.CodeLastWayIn)
	case errors.Is(err, ErrUnavailable), errors.Is(err, password.ErrBusy),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &personal.Error{Code: personal.CodeUnavailable, RetryAfter: retryAfter, Cause: cause}
	}
	return personal.NewError(personal.CodeInternal, cause)
}

// failWith is fail, but returns the code for ErrNotFound and ErrStale.
func failWith(code personal.Code, doing string, err error) error {
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrStale) {
		return refusal(code)
	}
	return fail(doing, err)
}

// committed wakes the worker after a write that has stored jobs. An error of the
// write is handled by failWith.
func (s *Service) committed(code personal.Code, doing string, err error) error {
	if err == nil {
		s.wake()
	}
	return failWith(code, doing, err)
}

// refusal is an error without a cause: the code says everything.
func refusal(code personal.Code) error { return personal.NewError(code, nil) }

// newID returns a random identifier, by which a receiver recognises a repetition.
func newID() string { return rand.Text() }

// parseID returns the id of a session or a passkey that a text names. An id has one text: others
// are those of 0, which nothing has.
func parseID(text string) int64 {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != text {
		return 0
	}
	return id
}

// check adds a field error, unless the code is empty.
func check(invalid *personal.FieldErrors, parameter string, code personal.FieldErrorCode) {
	if code != "" {
		invalid.Add(parameter, code)
	}
}

// require adds a field error if the parameter is missing.
func require(invalid *personal.FieldErrors, parameter, value string) {
	if value == "" {
		invalid.Add(parameter, personal.FieldErrorRequired)
	}
}
