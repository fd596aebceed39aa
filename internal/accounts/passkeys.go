package accounts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/shared/personal"
)

// PasskeyStore keeps passkeys and the attempts of their ceremonies.
type PasskeyStore interface {
	// Passkeys returns the account's passkeys, the newest first.
	Passkeys(ctx context.Context, accountID int64) ([]Passkey, error)
	// FindPasskey returns the passkey with a credential id, with its account as far as a sign-in
	// needs it, and whether the sealed attempt with the digest was used. ErrNotFound.
	FindPasskey(ctx context.Context, credentialID []byte, attempt [32]byte) (Passkey, Account, bool, error)

	// AddCeremony stores an attempt to prove, in place of the session's oldest if it has
	// MaxCeremonies. ErrStale if the session has ended.
	AddCeremony(ctx context.Context, a PasskeyCeremony) error
	// BeginPasskey is AddCeremony for an attempt to add a passkey: it also uses up the code, stores
	// the jobs, and returns the account's user handle, which is the candidate if it had none.
	// ErrTooManyPasskeys; ErrCodeUsed; ErrProofVoid; ErrStale also if the credential version has
	// changed or the account is disabled.
	BeginPasskey(ctx context.Context, accountID int64, a PasskeyCeremony, candidate []byte, code CodeUse, jobs ...NewJob) (handle []byte,
		err error)
	// FindCeremony returns an attempt that waits in a session, if it was stored after the given
	// time and for this credential version; else ErrNotFound. ErrStale if the session has ended.
	FindCeremony(ctx context.Context, sessionID, credentialVersion int64, digest [32]byte, after time.Time) (PasskeyCeremony, error)
	// AddPasskey stores a passkey, uses the attempt up, stores the jobs, and returns the id.
	// ErrCeremonyUsed; ErrPasskeyTaken if an account has the credential id; ErrTooManyPasskeys;
	// ErrStale if the credential version has changed, the account is disabled, or the session of
	// the attempt has ended.
	AddPasskey(ctx context.Context, p Passkey, credentialVersion int64, attempt CeremonyUse, jobs ...NewJob) (id int64, err error)
	// ConfirmedPasskey returns the account's passkey that a confirmation has added. ErrNotFound.
	ConfirmedPasskey(ctx context.Context, accountID int64, confirmation [32]byte) (Passkey, error)
	// RenamePasskey renames a passkey of the account; a missing one is not an error.
	RenamePasskey(ctx context.Context, accountID, id int64, name string) error
	// RemovePasskey uses up the code and stores its jobs. If the account has the passkey, it
	// removes that, as RemoveOtherWaysIn does with all, and stores the other jobs. ErrLastWayIn;
	// ErrCodeUsed; ErrProofVoid; ErrStale if the credential version has changed or the account is disabled.
	RemovePasskey(ctx context.Context, accountID, credentialVersion, id int64, code CodeUse, codeJobs []NewJob, jobs ...NewJob) error

	// OtherRelyingParty returns an RP ID that is not the given one, of the oldest or the newest
	// passkeys; "" if there is none.
	OtherRelyingParty(ctx context.Context, id string) (string, error)
}

// The errors of a PasskeyStore.
var (
	// ErrCeremonyUsed means that an attempt was used, has expired, or is another session's, which
	// goes on.
	// Nothing was written.
	ErrCeremonyUsed = errors.New("the attempt was used")
	// ErrPasskeyTaken means that an account has the credential id. Nothing was written.
	ErrPasskeyTaken = errors.New("an account has this passkey")
	// ErrTooManyPasskeys means that the account has as many as it may. Nothing was written.
	ErrTooManyPasskeys = errors.New("too many passkeys")
	// ErrLastWayIn means that the account would be left without a way to sign in. Nothing was
	// written.
	ErrLastWayIn = errors.New("the last way in")
)

// Passkey is a stored passkey.
type Passkey struct {
	ID        int64
	AccountID int64
	passkey.Key
	RelyingParty string // its id when the passkey was added
	Name         string
	Created      time.Time
	LastUsed     time.Time // zero: never

	WithCode     bool     // it was added with a code of the second factor in force, and needs none
	Confirmation [32]byte // of the request that added it
	UserHandle   []byte   // the account's; only as FindPasskey returns it
}

// Check returns an error that says why a passkey cannot be one that a user has added, without its
// values.
func (p Passkey) Check() error {
	var invalid personal.FieldErrors
	checkPasskeyName(&invalid, p.Name)
	switch {
	case len(invalid) > 0:
		return fmt.Errorf("its name must have 1 to %d characters, and no control characters", personal.MaxPasskeyName)
	case p.RelyingParty == "" || passkey.ValidateID(p.RelyingParty) != nil:
		return errors.New("its rp_id is not a domain")
	case len(p.UserHandle) != userHandleSize:
		return fmt.Errorf("the user handle must have %d bytes", userHandleSize)
	}
	return p.Key.Check()
}

// userHandleSize is the length of user handles in bytes.
const userHandleSize = 32

// needsCode reports whether a sign-in or a proof with the passkey needs a code.
func (p Passkey) needsCode(a Account) bool { return a.TwoFactor.On() && !p.WithCode }

func passkeyOf(p Passkey) personal.Passkey {
	return personal.Passkey{ID: strconv.FormatInt(p.ID, 10), Name: p.Name, Created: p.Created, LastUsed: p.LastUsed, BackedUp: p.BackedUp}
}

func passkeysOf(list []Passkey) []personal.Passkey {
	var all []personal.Passkey
	for _, p := range list {
		all = append(all, passkeyOf(p))
	}
	return all
}

func keysOf(list []Passkey) (keys []passkey.Key) {
	for _, p := range list {
		keys = append(keys, p.Key)
	}
	return keys
}

// offersPasskeys returns not_found unless the site has passkeys.
func (s *Service) offersPasskeys() error {
	if s.settings.Passkeys.ID == "" {
		return refusal(personal.CodeNotFound)
	}
	return nil
}

// checkPasskeyName adds the field error of a name.
func checkPasskeyName(invalid *personal.FieldErrors, name string) {
	require(invalid, "name", name)
	switch {
	case utf8.RuneCountInString(name) > personal.MaxPasskeyName:
		invalid.Add("name", personal.FieldErrorTooLong)
	case strings.ContainsFunc(name, unicode.IsControl):
		invalid.Add("name", personal.FieldErrorInvalidFormat)
	}
}

// Passkeys implements [personal.Service].
func (s *Service) Passkeys(ctx context.Context, c personal.Credentials) ([]personal.Passkey, error) {
	if err := s.offersPasskeys(); err != nil {
		return nil, err
	}
	who, err := s.identify(ctx, c, WholeAccount)
	if err != nil {
		return nil, err
	}
	list, err := s.store.Passkeys(ctx, who.account.ID)
	return passkeysOf(list), fail("reading passkeys", err)
}

// RenamePasskey implements [personal.Service].
func (s *Service) RenamePasskey(ctx context.Context, r personal.RenamePasskeyRequest) error {
	if err := s.offersPasskeys(); err != nil {
		return err
	}
	who, err := s.identifyWrite(ctx, r.Credentials, AccountState)
	if err != nil {
		return err
	}
	invalid := maps.Clone(r.FieldErrors)
	require(&invalid, "id", r.ID)
	checkPasskeyName(&invalid, r.Name)
	if err := invalid.Err(); err != nil {
		return err
	}
	return fail("renaming a passkey", s.store.RenamePasskey(ctx, who.account.ID, parseID(r.ID), r.Name))
}

// RemovePasskey implements [personal.Service].
func (s *Service) RemovePasskey(ctx context.Context, r personal.RemovePasskeyRequest) error {
	r = personal.AsTyped(r)
	if err := s.offersPasskeys(); err != nil {
		return err
	}
	e := evidence{parameter: "password", password: r.Password, code: r.Code, proof: r.Proof}
	who, guess, err := s.identifyGuess(ctx, r.Credentials, e.guess(), nil)
	if err != nil {
		return err
	}
	found := maps.Clone(r.FieldErrors)
	require(&found, "id", r.ID)
	code, err := s.confirm(ctx, who, guess, found, e)
	if err != nil {
		return err
	}
	a := who.account
	err = s.store.RemovePasskey(ctx, a.ID, a.CredentialVersion, parseID(r.ID), code.use, code.jobs,
		s.waysRemoved(ctx, personal.ActorUser, a, OtherWays{Passkeys: 1})...)
	return s.authorized(ctx, code, "removing a passkey", err)
}
