package accounts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// Store keeps accounts, sessions, mailed tokens and counted attempts. Every
// method is one transaction: it happens as a whole or not at all. All times
// given are the database clock's (Now), in UTC, exact to the microsecond.
//
// A database that can't be reached, or is too busy, is ErrUnavailable; errors
// other than that and the ones named at a method mean that it failed.
type Store interface {
	AccountStore
	AdministrationStore
	SessionStore
	MailTokenStore
	AttemptStore

	// Now is the database's time. Nodes measure their offset from it, so that
	// lifetimes are the same on all of them.
	Now() time.Time
	// Enqueue stores a job on its own.
	Enqueue(ctx context.Context, j NewJob) error
}

// The errors a Store decides by.
var (
	// ErrNotFound means that no such row exists.
	ErrNotFound = errors.New("not found")
	// ErrStale means that what the caller read has changed meanwhile; nothing
	// was written.
	ErrStale = errors.New("changed meanwhile")
	// ErrUnavailable means that the database can't be used just now. Whether the
	// write took place may be unknown.
	ErrUnavailable = errors.New("database unavailable")
)

// TakenError says which unique value belongs to another account: the login, or the
// e-mail if the login is free. Nothing but charges was written.
type TakenError struct{ Login, Email bool }

// Error names the columns, never their values.
func (e *TakenError) Error() string {
	var taken []string
	if e.Login {
		taken = append(taken, "login")
	}
	if e.Email {
		taken = append(taken, "email")
	}
	return "taken: " + strings.Join(taken, ", ")
}

// WaitError says that a limit is used up for now. Nothing was written.
type WaitError struct{ Wait time.Duration }

// Error gives the wait.
func (e *WaitError) Error() string { return fmt.Sprintf("too many attempts, wait %v", e.Wait) }

// AccountStore keeps accounts.
type AccountStore interface {
	// FindAccount returns the account that the query means; "" matches none. It comes
	// without Fields: the time of a wrong password would tell how much its user filled
	// in. ErrNotFound.
	FindAccount(ctx context.Context, q AccountQuery) (Account, error)
	// CreateAccount stores an account, its first session and the jobs made for
	// the id that the database gave. *TakenError; one that names the e-mail is
	// charged in the transaction that finds it, or *WaitError is returned in its
	// place.
	CreateAccount(ctx context.Context, a Account, first Session, jobs func(id int64) []NewJob, taken ...throttle.Charge) (id int64, err error)
	// UpdateProfile runs change on the account as it is now, under a lock, and
	// stores Name, Fields and Updated, and the jobs. ErrNotFound.
	UpdateProfile(ctx context.Context, id int64, change func(*Account) error, jobs ...NewJob) (Account, error)
	// ReplacePassword sets the hash and raises the credential version, voids the
	// account's mailed tokens, ends every session but one, which it gives new
	// secrets (same id, same creation), and stores the jobs. ErrStale when the
	// credential version is not the given one any more, the account is disabled,
	// or the session has ended.
	ReplacePassword(ctx context.Context, accountID, credentialVersion int64, hash string, keep Session, jobs ...NewJob) error
}

// AccountQuery says how an account is found: by its login or by its e-mail.
type AccountQuery struct {
	LoginKey string
	EmailKey string
	OwnEmail bool // EmailKey counts only where it is the account's login, too
}

// AdministrationStore is what administrators need of accounts beyond that.
type AdministrationStore interface {
	// SearchAccounts returns the accounts that are looked for, the highest id
	// first.
	SearchAccounts(ctx context.Context, q AccountSearch) ([]SeenAccount, error)
	// Account returns an account by its id. ErrNotFound.
	Account(ctx context.Context, id int64) (SeenAccount, error)
	// SetEmail sets the account's e-mail, the zero one for none (and its login,
	// where that is the old e-mail), voids every token, and stores the jobs that
	// were made, under a lock, for the account as it was. Their error means that
	// nothing is written. An e-mail that it has already changes nothing.
	// ErrNotFound, *TakenError.
	SetEmail(ctx context.Context, id int64, email Email, jobs func(before Account) ([]NewJob, error)) error
	// SetDisabled disables or enables an account, raises the credential version,
	// ends every session, voids every mailed token and stores the jobs; of one that
	// is so already it changes nothing. Enabling does all that too, for an account
	// that was disabled in another way. ErrNotFound.
	SetDisabled(ctx context.Context, id int64, disabled bool, jobs ...NewJob) error
	// DeleteAccount removes an account with its sessions, tokens, mails and
	// places, makes its audit lines anonymous, does with jobs that wait what the
	// erasure says, and stores the jobs. ErrNotFound.
	DeleteAccount(ctx context.Context, id int64, e Erasure, jobs ...NewJob) error
	// AuditEntries returns the entries of the audit log that match the request,
	// the highest cursor first, Limit at most.
	AuditEntries(ctx context.Context, r personal.AuditEntriesRequest) ([]personal.AuditEntry, error)
}

// Erasure says what becomes of jobs that wait when an account is deleted.
type Erasure struct {
	Left  func(outbox.Job) []byte        // the payload that is left of one of the account's; nil: it goes
	Open  outbox.Kind                    // jobs of this kind are nobody's until they are done,
	Means func(outbox.Job, Account) bool // and go if they mean the account
}

// AccountSearch says which accounts are looked for.
type AccountSearch struct {
	Text     string // part of the name, in any case; "": every account is meant
	Key      string // part of the login's or the e-mail's key
	ID       int64  // the whole id; 0: none
	Disabled *bool  // nil: either
	Before   int64  // ids are lower; 0: any
	Most     int
}

// SeenAccount is an account and when it was last in use.
type SeenAccount struct {
	Account
	LastSeen time.Time // of its sessions that have not been removed; zero if there is none
}

// SessionStore keeps sessions.
type SessionStore interface {
	// OpenSession stores a session if the account still has the given credential
	// version and is not disabled, else ErrStale: a sign-in that was hashing while
	// the password changed must not succeed. A rehash, if not empty, replaces the
	// password hash on the same condition (the version stays). Sessions of the
	// account that have ended by expiry, and the longest unused beyond most, go.
	// It returns the account as it was before. *WaitError if the charges, which are
	// made in the same transaction, are refused.
	OpenSession(ctx context.Context, o OpenSession) (Account, error)
	// FindSession returns a session and its account by the token's selector.
	// ErrNotFound.
	FindSession(ctx context.Context, s token.Selector) (Session, Account, error)
	// RotateSession stores what a rotation changes of a session (Newest, Rotated,
	// Used, LastSeen, Rotations, Marks), if its digest is still the one from before;
	// else ErrStale.
	RotateSession(ctx context.Context, before [32]byte, rotated Session) error
	// TouchSession sets LastSeen to now. If used, it also notes now as the first
	// use of the current hash, where that is still the given one and unused.
	TouchSession(ctx context.Context, id int64, newest [32]byte, used bool, now time.Time) error
	// Sessions returns the account's sessions that are alive at the given
	// lifetimes, the latest used first.
	Sessions(ctx context.Context, accountID int64, l Lifetimes) ([]Session, error)
	// EndSession removes one session of the account; a missing one is no error.
	EndSession(ctx context.Context, accountID, id int64) error
	// EndStolen removes a session and stores the jobs, if its newest digest is
	// still the given one's; else ErrStale.
	EndStolen(ctx context.Context, s Session, jobs ...NewJob) error
	// EndSessions removes every session of the account.
	EndSessions(ctx context.Context, accountID int64) error
}

// MailTokenStore keeps tokens that were mailed, as digests.
type MailTokenStore interface {
	// ReserveMail notes that a mail of this purpose is about to be sent to the
	// account, if the limits allow, and stores the jobs, whose payload it leaves
	// as given. mailID names the mail: a repeated reservation of the same mail is
	// granted and not counted again. When refused it returns the wait, at least
	// one second, and stores nothing. ErrNotFound; *TakenError if NewEmailKey is
	// another account's, which is charged in the same transaction, or *WaitError.
	ReserveMail(ctx context.Context, r MailReservation, jobs ...NewJob) (wait time.Duration, err error)
	// MailWait is the wait that ReserveMail would return now.
	MailWait(ctx context.Context, r MailReservation) (wait time.Duration, err error)
	// AddMailToken stores one more token of a reserved mail. Earlier tokens stay
	// valid. ErrStale if the account's password or e-mail are not those that the
	// token was made for any more, or it is disabled or gone.
	AddMailToken(ctx context.Context, t MailToken) error
	// FindMailToken returns the account of a token that is neither void nor
	// expired. ErrNotFound.
	FindMailToken(ctx context.Context, p MailPurpose, digest [32]byte) (Account, error)
	// RedeemRecovery uses up a recovery token: sets the hash, raises the
	// credential version, voids every token and ends every session of the account,
	// stores the jobs. ErrNotFound when the token is void, expired or unknown by
	// now, or the account disabled.
	RedeemRecovery(ctx context.Context, digest [32]byte, hash string, jobs ...NewJob) error
	// RedeemEmail uses up an e-mail token: sets the account's e-mail (and its
	// login, where that is the old e-mail), voids every token, stores the jobs.
	// ErrNotFound as above; *TakenError when the address has been taken
	// meanwhile, which uses up nothing.
	RedeemEmail(ctx context.Context, digest [32]byte, jobs ...NewJob) error
}

// AttemptStore counts attempts.
type AttemptStore interface {
	// Charge counts one attempt against every key and stores the jobs, or, if any
	// key refuses, does neither and returns the longest wait.
	Charge(ctx context.Context, charges []throttle.Charge, now time.Time, jobs ...NewJob) (wait time.Duration, err error)
	// Wait is the wait that Charge would return now.
	Wait(ctx context.Context, charges []throttle.Charge, now time.Time) (wait time.Duration, err error)
	// Refund gives the attempt back.
	Refund(ctx context.Context, charges []throttle.Charge) error
	// KnownPlace reports whether a place has been noted of an account that q means
	// since the given time.
	KnownPlace(ctx context.Context, q AccountQuery, place string, since time.Time) (bool, error)
	// NotePlace notes that an account's owner is at a place, to the day. Of the
	// account's places the longest unseen beyond most go. An account that is gone
	// is no error.
	NotePlace(ctx context.Context, accountID int64, place string, most int) error
}

// Account is a stored account.
type Account struct {
	ID                int64 // 1 … 2^53−1, never used twice
	Login             string
	LoginKey          string // the mapped form that is unique
	Name              *string
	Email             Email
	PasswordHash      string // as package password stores it
	CredentialVersion int64  // rises with every change of the password, and when the account is disabled or enabled
	Fields            userfields.Values
	Disabled          bool
	Created, Updated  time.Time
}

// Email is an address as shown and as matched.
type Email struct{ Address, Key string }

// Session is a stored session. It holds no usable token: the newest secret is
// kept as a digest, and the chain key makes nothing without a secret.
type Session struct {
	ID        int64
	AccountID int64
	Selector  token.Selector
	ChainKey  token.ChainKey
	Newest    [32]byte  // digest of the newest secret
	Created   time.Time // at sign-in
	Rotated   time.Time // when the newest secret came to be
	Used      time.Time // first use of the newest secret; zero if it has not been used
	LastSeen  time.Time
	Address   string
	Agent     string
	Rotations int64          // since the sign-in, as far as they were counted
	Marks     []RotationMark // the oldest first; the last is of the last rotation counted
}

// OpenSession is what a sign-in stores.
type OpenSession struct {
	Session           Session
	CredentialVersion int64
	Rehash            string // "" leaves the hash as it is
	Most              int    // sessions the account may have, this one included
	Lifetimes         Lifetimes
	Charges           []throttle.Charge
	Jobs              []NewJob
}

// Lifetimes say which sessions are alive: those seen after SeenAfter and created
// after CreatedAfter.
type Lifetimes struct{ SeenAfter, CreatedAfter time.Time }

// Alive reports whether s has not ended by expiry.
func (l Lifetimes) Alive(s Session) bool {
	return s.LastSeen.After(l.SeenAfter) && s.Created.After(l.CreatedAfter)
}

// MailPurpose says what a mailed token is good for.
type MailPurpose string

// The purposes of mailed tokens.
const (
	PurposeRecovery MailPurpose = "recovery"
	PurposeEmail    MailPurpose = "email"
)

// MailReservation asks for room for one mail.
type MailReservation struct {
	MailID    string
	AccountID int64
	Purpose   MailPurpose
	Gap       time.Duration // since the last mail of the purpose to the account
	Most      int           // mails of the purpose to the account within Window
	Window    time.Duration

	NewEmailKey string            // an e-mail that must not be another account's; "": none is asked about
	Taken       []throttle.Charge // what finding it taken costs
}

// MailToken is a token that was mailed.
type MailToken struct {
	AccountID         int64
	Purpose           MailPurpose
	Digest            [32]byte
	CredentialVersion int64  // the account's when the token was made
	AccountEmailKey   string // likewise
	Email             Email  // PurposeEmail: the new address
	Expires           time.Time
}

// NewJob is a job to be stored. One of an account that is gone by now is not, and
// of its event the audit log holds nothing but type and time.
type NewJob struct {
	Kind      outbox.Kind
	Payload   []byte
	AccountID int64           // whose it is: of one kind his are done one after another; 0: nobody's
	Event     *personal.Event // also becomes a line of the audit log; nil: none does
	Replaces  bool            // takes the place of the account's jobs of this kind that wait
}
