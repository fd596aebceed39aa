// Package accounts is the domain: what signing in, refreshing, registering,
// recovering and the rest of the personal account mean. It implements
// personal.Service and personal.Administration over the ports in ports.go and
// knows neither HTTP nor gRPC nor SQL.
//
// Each operation has a file of its own and reads from top to bottom in the order
// in which the HTTP contract judges errors: what can't be read (400), limits by
// address and login (429), who asks (401), limits by session and account (429), a
// disabled account (403), what is wrong with the parameters (422), what is taken
// (409).
package accounts

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// MostSessions is how many sessions an account may have; the longest unused
// goes when another one is opened (HTTP contract, section 3).
const MostSessions = 100

// Settings are the rules an administrator may change.
type Settings struct {
	SessionIdle     time.Duration // a session ends when it is not used for so long
	SessionAbsolute time.Duration // a session ends so long after its sign-in, used or not
	SessionGrace    time.Duration // how long superseded hashes of a session stay valid
	MinPassword     int           // characters a new password must have
	PasswordWords   []string      // words of the site, see [password.Policy]
	ReservedLogins  []string      // logins that users may not register, in any case
	MailLifetime    time.Duration // how long a mailed token is good for
	RecoveryURL     string        // link of recovery mails, {token} within; "" for none
	EmailURL        string        // link of e-mail confirmations, likewise
	LoginWithEmail  bool          // whether an e-mail is accepted as login at sign-in
	Throttle        Throttle
}

// Hasher hashes and verifies passwords. Implemented by [password.Hasher], which
// bounds how many hashes run at once.
type Hasher interface {
	Hash(ctx context.Context, from password.Source, prepared string) (string, error)
	Verify(ctx context.Context, from password.Source, encoded, entered string) (password.Result, error)
	VerifyDummy(ctx context.Context, from password.Source, entered string) error
}

// Service is the domain. Its zero value is of no use; see [New].
type Service struct {
	settings Settings
	store    Store
	hasher   Hasher
	policy   password.Policy
	host     personal.Host
	schema   schemaCache
	log      *slog.Logger
	logKey   [32]byte // of digests in the log
	wake     func()   // tells the outbox worker that a job was stored

	sessionWrites throttle.Memory // by session id
	useWarnings   throttle.Memory // one key: warnings in the log about last uses that were lost
}

var (
	_ personal.Service        = (*Service)(nil)
	_ personal.Administration = (*Service)(nil)
)

// New returns the domain over its ports. wake is called after a job was stored;
// it must not block.
func New(settings Settings, store Store, hasher Hasher, host personal.Host, log *slog.Logger, wake func()) *Service {
	s := &Service{
		settings: settings,
		store:    store,
		hasher:   hasher,
		policy:   password.Policy{MinLength: settings.MinPassword, Words: settings.PasswordWords},
		host:     host,
		schema:   schemaCache{asking: make(chan struct{}, 1)},
		log:      log,
		wake:     wake,
	}
	_, _ = rand.Read(s.logKey[:]) // it never fails
	return s
}

// Retry-After of an answer that the database or the hashing queue caused.
const retryAfter = 2 * time.Second

// fail turns what went wrong beneath an operation into the contract's error. A
// failure is never mistaken for "not found": an outage must not look like a
// wrong password.
func fail(doing string, err error) error {
	var known *personal.Error
	if errors.As(err, &known) {
		return err
	}
	cause := fmt.Errorf("%s: %w", doing, err)
	switch {
	case errors.Is(err, ErrUnavailable), errors.Is(err, password.ErrBusy),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &personal.Error{Code: personal.CodeUnavailable, RetryAfter: retryAfter, Cause: cause}
	}
	return personal.NewError(personal.CodeInternal, cause)
}

// refusal is an error that needs no cause: the code says it all.
func refusal(code personal.Code) error { return personal.NewError(code, nil) }

// newID returns a random identifier for what must be told apart when repeated.
func newID() string { return rand.Text() }

// require notes a missing parameter.
func require(faults *personal.FieldErrors, name, value string) {
	if value == "" {
		faults.Add(name, personal.FieldErrorRequired)
	}
}
