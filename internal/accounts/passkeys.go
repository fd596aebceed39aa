package accounts

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// PasskeyStore keeps passkeys and the attempts of their ceremonies.
type PasskeyStore interface {
	// Passkeys returns the account's passkeys, the newest first.
	Passkeys(ctx context.Context, accountID int64) ([]Passkey, error)
	// FindPasskey returns the passkey with a credential id, with its account as far as a sign-in
	// needs it, and whether the sealed attempt with the digest was used. ErrNotFound.
	FindPasskey(ctx context.Context, credentialID []byte, attempt [32]byte) (Passkey, Account, bool, error)

	// AddAttempt stores an attempt to prove, in place of the session's oldest if it has
	// MaxAttempts. ErrStale if the session has ended.
	AddAttempt(ctx context.Context, a PasskeyAttempt) error
	// BeginPasskey is AddAttempt for an attempt to add a passkey: it also uses up the code, stores
	// the jobs, and returns the account's user handle, which is the candidate if it had none.
	// ErrTooManyPasskeys; ErrCodeUsed; ErrProofVoid; ErrStale also if the credential version has
	// changed or the account is disabled.
	BeginPasskey(ctx context.Context, accountID int64, a PasskeyAttempt, candidate []byte, code CodeUse, jobs ...NewJob) (handle []byte,
		err error)
	// FindAttempt returns an attempt that waits in a session, if it was stored after the given
	// time and for this credential version; else ErrNotFound. ErrStale if the session has ended.
	FindAttempt(ctx context.Context, sessionID, credentialVersion int64, digest [32]byte, after time.Time) (PasskeyAttempt, error)
	// AddPasskey stores a passkey, uses the attempt up, stores the jobs, and returns the id.
	// ErrAttemptUsed; ErrPasskeyTaken if an account has the credential id; ErrTooManyPasskeys;
	// ErrStale if the credential version has changed, the account is disabled, or the session of
	// the attempt has ended.
	AddPasskey(ctx context.Context, p Passkey, credentialVersion int64, attempt AttemptUse, jobs ...NewJob) (id int64, err error)
	// ConfirmedPasskey returns the account's passkey that a confirmation has added. ErrNotFound.
	ConfirmedPasskey(ctx context.Context, accountID int64, confirmation [32]byte) (Passkey, error)
	// RenamePasskey renames a passkey of the account; a missing one is no error.
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
	// ErrAttemptUsed means that an attempt was used, has expired, or is another session's, which
	// goes on.
	// Nothing was written.
	ErrAttemptUsed = errors.New("the attempt was used")
	// ErrPasskeyTaken means that an account has the credential id. Nothing was written.
	ErrPasskeyTaken = errors.New("an account has this passkey")
	// ErrTooManyPasskeys means that the account has as many as it may. Nothing was written.
	ErrTooManyPasskeys = errors.New("too many passkeys")
	// ErrLastWayIn means that the account would be left without a way to sign in. Nothing was
	// written.
	ErrLastWayIn = errors.New("the last way in")
)

// MaxAttempts is how many attempts wait in one session.
const MaxAttempts = 10

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

// PasskeyAttempt is a ceremony that waits in a session.
type PasskeyAttempt struct {
	Digest            [32]byte
	SessionID         int64
	Purpose           personal.PasskeyPurpose // passkeyAdd: an addition
	Challenge         passkey.Challenge
	CredentialVersion int64
	WithCode          bool // see Passkey.WithCode
}

// passkeyAdd is the purpose of attempts that passkeys_add/ begins.
const passkeyAdd personal.PasskeyPurpose = "add"

// AttemptUse is an attempt whose response was found right. The transaction that it authorises
// uses it up, or fails with ErrAttemptUsed.
type AttemptUse struct {
	Digest    [32]byte
	SessionID int64     // 0: it was sealed
	Expires   time.Time // of a sealed one
}

// PasskeyUse is the response of a passkey that was found right. The transaction that it
// authorises uses its attempt up, and stores the state of the passkey. It fails with
// ErrAttemptUsed also if the passkey was removed. The zero value is none.
type PasskeyUse struct {
	ID        int64
	SignCount uint32
	BackedUp  bool
	Attempt   AttemptUse
	OnClone   func() []NewJob // stored if the sign count has not risen
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

// offersPasskeys returns not_found unless the site has passkeys.
func (s *Service) offersPasskeys() error {
	if s.settings.Passkeys.ID == "" {
		return refusal(personal.CodeNotFound)
	}
	return nil
}

// BeginPasskey implements [personal.Service]. For a sign-in it asks the database nothing, except
// for the key of attempts when the process needs that first.
func (s *Service) BeginPasskey(ctx context.Context, r personal.BeginPasskeyRequest) (begun personal.PasskeyAttempt, err error) {
	if err := s.offersPasskeys(); err != nil {
		return begun, err
	}
	var who caller
	if r.Purpose == personal.PasskeyProve {
		if who, err = s.identifyWrite(ctx, r.Credentials, WholeAccount); err != nil {
			return begun, err
		}
	}
	invalid := maps.Clone(r.FieldErrors)
	require(&invalid, "purpose", string(r.Purpose))
	if r.Purpose != personal.PasskeySignIn && r.Purpose != personal.PasskeyProve {
		invalid.Add("purpose", personal.FieldErrorNotInList) // unless it is missing
	}
	if err := invalid.Err(); err != nil {
		return begun, err
	}
	if r.Purpose == personal.PasskeySignIn {
		return s.beginSignIn(ctx)
	}
	list, err := s.store.Passkeys(ctx, who.account.ID)
	if err != nil {
		return begun, fail("reading passkeys", err)
	}
	usable := make([][]byte, 0, len(list))
	for _, p := range list {
		usable = append(usable, p.CredentialID)
	}
	text, attempt := newAttempt(who, personal.PasskeyProve)
	if err := s.store.AddAttempt(ctx, attempt); err != nil {
		return begun, failWith(personal.CodeUnauthenticated, "storing an attempt", err)
	}
	return personal.PasskeyAttempt{Attempt: text, Options: s.settings.Passkeys.RequestOptions(attempt.Challenge[:], usable)}, nil
}

// newAttempt returns an attempt of the caller's session, and its text.
func newAttempt(who caller, purpose personal.PasskeyPurpose) (text string, a PasskeyAttempt) {
	text, digest := token.NewMailToken()
	return text, PasskeyAttempt{
		Digest: digest, SessionID: who.session.ID, Purpose: purpose, Challenge: passkey.NewChallenge(),
		CredentialVersion: who.account.CredentialVersion,
	}
}

// beginSignIn returns a sealed attempt: anyone may ask for any number of them.
func (s *Service) beginSignIn(ctx context.Context) (begun personal.PasskeyAttempt, err error) {
	key, err := s.attemptKey(ctx)
	if err != nil {
		return begun, err
	}
	challenge := passkey.NewChallenge()
	return personal.PasskeyAttempt{
		Attempt: passkey.Seal(key, challenge, s.store.Now().Add(passkey.AttemptLifetime)),
		Options: s.settings.Passkeys.RequestOptions(challenge[:], nil),
	}, nil
}

// attemptKey returns the key that seals attempts, which all processes of the site share.
func (s *Service) attemptKey(ctx context.Context) ([]byte, error) {
	key, err := s.siteKey(ctx, &s.sealKey, "passkey attempts")
	return key, fail("reading the key of attempts", err)
}

// AuthorizePasskey implements [personal.Service]. An unknown passkey costs the same as one whose
// response is wrong: the same queries, the same checks of signatures, the same lines in the log,
// the same response.
func (s *Service) AuthorizePasskey(ctx context.Context, r personal.AuthorizePasskeyRequest) (in personal.PasskeySignedIn, err error) {
	if err := s.offersPasskeys(); err != nil {
		return in, err
	}
	fields := maps.Clone(r.FieldErrors)
	require(&fields, "attempt", r.Attempt)
	require(&fields, "credential", r.Credential)
	guess, signIn := s.guessAddress(ctx), s.signInAddress(ctx)
	all := append(append([]throttle.Charge(nil), guess...), signIn...)
	if invalid := fields.Err(); invalid != nil {
		if err := s.checkLimits(ctx, all); err != nil {
			return in, err
		}
		return in, invalid
	}
	if err := s.charge(ctx, all); err != nil {
		return in, err
	}
	p, a, use, err := s.checkPasskey(ctx, r.Attempt, r.Credential)
	switch {
	case personal.CodeOf(err) == personal.CodeInvalidCredentials:
		s.failed(ctx, "", a.ID)
		return in, err
	case err != nil: // the passkey has not been judged
		s.refund(ctx, guess)
		return in, err
	}
	if code := a.refusal(); code != "" {
		if !p.needsCode(a) { // otherwise only a completed sign-in is refunded
			s.refund(ctx, guess)
		}
		if err := s.charge(ctx, s.signInAccount(a.ID)); err != nil { // otherwise OpenSession charges it
			return in, err
		}
		s.failed(ctx, a.LoginKey, a.ID)
		return in, refusal(code)
	}
	text, proof := s.newProof(a)
	proof.WithCode, proof.PasskeyID = a.TwoFactor.On(), p.ID
	open := func(code checkedCode) (personal.SignedIn, error) {
		return s.signIn(ctx, a, signInBy{method: personal.MethodPasskey, code: code, passkey: use, proof: proof})
	}
	var code checkedCode
	if p.needsCode(a) {
		var address KnownAddress
		if address, err = s.callersAddress(ctx, AccountQuery{LoginKey: a.LoginKey}); err != nil {
			return in, err
		}
		in.SignedIn, code, err = s.signInWithCode(ctx, caller{account: a}.owner(address), r.Code, open)
	} else {
		in.SignedIn, err = open(code)
	}
	if errors.Is(err, ErrAttemptUsed) || errors.Is(err, ErrStale) { // or the passkey was removed meanwhile
		s.failed(ctx, "", a.ID)
		return personal.PasskeySignedIn{}, refusal(personal.CodeInvalidCredentials)
	}
	if err == nil || !p.needsCode(a) { // in an outage, the passkey was right
		s.refund(ctx, append(guess, code.charges...))
	}
	if err != nil {
		return personal.PasskeySignedIn{}, err
	}
	in.Proof = personal.Proof{Proof: text, Until: s.provedUntil(proof)}
	return in, nil
}

// checkPasskey judges the response to a sealed attempt. Of a passkey whose response is wrong it
// returns the account's id with invalid_credentials.
func (s *Service) checkPasskey(ctx context.Context, attempt, credential string) (p Passkey, a Account, use PasskeyUse, err error) {
	key, err := s.attemptKey(ctx)
	if err != nil {
		return p, a, use, err
	}
	challenge, expires, sealed := passkey.Open(key, attempt)
	assertion, err := passkey.ParseAssertion(credential)
	if err != nil || !sealed || !lasts(expires.Add(-passkey.AttemptLifetime), passkey.AttemptLifetime, s.store.Now()) {
		return p, a, use, refusal(personal.CodeInvalidCredentials)
	}
	digest := sha256.Sum256(challenge[:])
	p, a, used, err := s.store.FindPasskey(ctx, assertion.CredentialID, digest)
	unknown := errors.Is(err, ErrNotFound)
	if err != nil && !unknown {
		return p, Account{}, use, fail("finding a passkey", err)
	}
	if unknown {
		p.Key = passkey.Dummy(assertion)
	}
	after, err := s.settings.Passkeys.VerifyAlike(challenge[:], assertion, p.Key)
	switch {
	case unknown:
		err = errUnknownPasskey
	case err == nil && (len(assertion.UserHandle) == 0 || string(assertion.UserHandle) != string(p.UserHandle)):
		err = errOtherHandle
	case err == nil && used:
		err = ErrAttemptUsed
	}
	if err != nil {
		s.refusedPasskey(ctx, a.ID, err)
		return p, Account{ID: a.ID}, use, refusal(personal.CodeInvalidCredentials)
	}
	return p, a, s.usePasskey(ctx, p, after, a, AttemptUse{Digest: digest, Expires: expires}), nil
}

// usePasskey is what is stored when a passkey was used.
func (s *Service) usePasskey(ctx context.Context, p Passkey, after passkey.Key, a Account, attempt AttemptUse) PasskeyUse {
	return PasskeyUse{
		ID: p.ID, SignCount: after.SignCount, BackedUp: after.BackedUp, Attempt: attempt,
		OnClone: func() []NewJob {
			return s.reports(ctx, personal.ActorUser, personal.EventPasskeyCloned, mailtext.PasskeyCloned, a.ID, a.Email)
		},
	}
}

// The reasons beside those of package passkey for which a response is refused.
var (
	errUnknownPasskey = errors.New("no account has the passkey")
	errOtherHandle    = errors.New("the user handle is missing or another one")
)

// refusedPasskey logs why the response of a passkey was refused, of the account or of an unknown
// one: a wrong origin is the usual sign of wrong settings.
func (s *Service) refusedPasskey(ctx context.Context, accountID int64, err error) {
	s.log.InfoContext(ctx, "a passkey was refused", slog.Int64("user_id", accountID), slog.Any("reason", err))
}

// provedPasskey is a passkey with which a user has proved who they are.
type provedPasskey struct {
	use      PasskeyUse
	withCode bool // it stands for a code of the second factor in force
}

// errWrongCredential is the error of an operation of a session for the wrong response of a passkey.
func errWrongCredential() error {
	return personal.FieldErrors{"credential": personal.FieldErrorMismatch}.Err()
}

// provePasskey judges the response of a passkey to an attempt of the caller's session, and the
// code if it needs one. It refunds the attempt unless the response was wrong.
func (s *Service) provePasskey(ctx context.Context, who caller, guess attempt, r personal.ProveRequest) (proved provedPasskey,
	code checkedCode, err error) {
	invalid := maps.Clone(r.FieldErrors)
	require(&invalid, "attempt", r.Attempt)
	require(&invalid, "credential", r.Credential)
	if r.Password != "" { // one or the other
		invalid.Add("credential", personal.FieldErrorMismatch)
	}
	if err := invalid.Err(); err != nil {
		s.refund(ctx, guess.charges)
		return proved, code, err
	}
	p, use, err := s.checkProof(ctx, who, r.Attempt, r.Credential)
	if errors.Is(err, passkey.ErrInvalid) {
		s.refusedPasskey(ctx, who.account.ID, err)
		s.failed(ctx, who.account.LoginKey, who.account.ID)
		return proved, code, errWrongCredential()
	}
	s.refund(ctx, guess.charges)
	if err != nil {
		return proved, code, err
	}
	proved = provedPasskey{use: use, withCode: who.account.TwoFactor.On() && p.WithCode}
	if !p.needsCode(who.account) {
		return proved, code, nil
	}
	require(&invalid, "code", r.Code)
	if err := invalid.Err(); err != nil {
		return proved, code, err
	}
	code, err = s.confirmCode(ctx, who, guess.address, evidence{code: r.Code})
	return proved, code, err
}

// checkProof returns the passkey of the caller that has responded to an attempt of their session.
// passkey.ErrInvalid.
func (s *Service) checkProof(ctx context.Context, who caller, text, credential string) (p Passkey, use PasskeyUse, err error) {
	attempt, err := s.findAttempt(ctx, who, text, personal.PasskeyProve)
	if err != nil {
		return p, use, err
	}
	assertion, err := passkey.ParseAssertion(credential)
	if err != nil {
		return p, use, err
	}
	p, a, _, err := s.store.FindPasskey(ctx, assertion.CredentialID, attempt.Digest)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && a.ID != who.account.ID:
		return p, use, passkey.ErrInvalid
	case err != nil:
		return p, use, fail("finding a passkey", err)
	}
	after, err := s.settings.Passkeys.Verify(attempt.Challenge[:], assertion, p.Key)
	if err != nil {
		return p, use, err
	}
	if len(assertion.UserHandle) > 0 && string(assertion.UserHandle) != string(p.UserHandle) {
		return p, use, passkey.ErrInvalid
	}
	return p, s.usePasskey(ctx, p, after, who.account, AttemptUse{Digest: attempt.Digest, SessionID: who.session.ID}), nil
}

// findAttempt finds an attempt of the caller's session. passkey.ErrInvalid; unauthenticated if the
// session has ended meanwhile.
func (s *Service) findAttempt(ctx context.Context, who caller, text string, purpose personal.PasskeyPurpose) (a PasskeyAttempt, err error) {
	digest, ok := token.MailDigest(text)
	if !ok {
		return a, passkey.ErrInvalid
	}
	after := s.store.Now().Add(-passkey.AttemptLifetime)
	a, err = s.store.FindAttempt(ctx, who.session.ID, who.account.CredentialVersion, digest, after)
	if errors.Is(err, ErrNotFound) || err == nil && a.Purpose != purpose {
		return a, passkey.ErrInvalid
	}
	return a, failWith(personal.CodeUnauthenticated, "finding an attempt", err)
}

// AddPasskey implements [personal.Service].
func (s *Service) AddPasskey(ctx context.Context, r personal.AddPasskeyRequest) (begun personal.PasskeyAttempt, err error) {
	if err := s.offersPasskeys(); err != nil {
		return begun, err
	}
	e := evidence{"password", r.Password, r.Code, r.Proof}
	who, guess, err := s.identifyGuess(ctx, r.Credentials, e.guess(), nil)
	if err != nil {
		return begun, err
	}
	a := who.account
	if err := s.mayEnrol(a); err != nil {
		s.refund(ctx, guess.charges)
		return begun, err
	}
	code, err := s.confirm(ctx, who, guess, r.FieldErrors, e)
	if err != nil {
		return begun, err
	}
	list, err := s.store.Passkeys(ctx, a.ID)
	if err != nil {
		return begun, fail("reading passkeys", err)
	}
	exclude := make([][]byte, 0, len(list))
	for _, p := range list {
		exclude = append(exclude, p.CredentialID)
	}
	text, attempt := newAttempt(who, passkeyAdd)
	attempt.WithCode = a.TwoFactor.On() && (code.judged() || e.proof != "" && who.session.Proof.WithCode)
	candidate := make([]byte, userHandleSize)
	_, _ = rand.Read(candidate) // it never fails
	handle, err := s.store.BeginPasskey(ctx, a.ID, attempt, candidate, code.use, code.jobs...)
	if errors.Is(err, ErrTooManyPasskeys) {
		return begun, refusal(personal.CodeTooManyPasskeys)
	}
	if err := s.authorized(ctx, code, "storing an attempt", err); err != nil {
		return begun, err
	}
	user := passkey.User{Handle: handle, Name: a.Login, DisplayName: a.Login}
	if a.Name != nil {
		user.DisplayName = *a.Name
	}
	return personal.PasskeyAttempt{Attempt: text, Options: s.settings.Passkeys.CreationOptions(attempt.Challenge[:], user, exclude)}, nil
}

// ConfirmPasskey implements [personal.Service].
func (s *Service) ConfirmPasskey(ctx context.Context, r personal.ConfirmPasskeyRequest) (none personal.Passkey, err error) {
	if err := s.offersPasskeys(); err != nil {
		return none, err
	}
	who, err := s.identifyWrite(ctx, r.Credentials, WholeAccount)
	if err != nil {
		return none, err
	}
	a := who.account
	if err := s.mayEnrol(a); err != nil {
		return none, err
	}
	invalid := maps.Clone(r.FieldErrors)
	require(&invalid, "attempt", r.Attempt)
	require(&invalid, "credential", r.Credential)
	checkPasskeyName(&invalid, r.Name)
	if err := invalid.Err(); err != nil {
		return none, err
	}
	confirmation := chargeKey(strconv.FormatInt(who.session.ID, 10), r.Attempt, r.Credential)
	p, attempt, err := s.newPasskey(ctx, who, r.Attempt, r.Credential)
	if err == nil {
		p.Name, p.Confirmation = r.Name, confirmation
		p.ID, err = s.store.AddPasskey(ctx, p, a.CredentialVersion, attempt,
			s.reports(ctx, personal.ActorUser, personal.EventPasskeyAdded, mailtext.PasskeyAdded, a.ID, a.Email)...)
	}
	if errors.Is(err, passkey.ErrInvalid) || errors.Is(err, ErrAttemptUsed) { // a repetition?
		found, missing := s.store.ConfirmedPasskey(ctx, a.ID, confirmation)
		if missing == nil {
			return passkeyOf(found), nil
		}
		if !errors.Is(missing, ErrNotFound) {
			return none, fail("finding a passkey", missing)
		}
	}
	switch {
	case errors.Is(err, passkey.ErrInvalid), errors.Is(err, ErrAttemptUsed), errors.Is(err, ErrPasskeyTaken):
		if errors.Is(err, passkey.ErrInvalid) {
			s.refusedPasskey(ctx, a.ID, err)
		}
		return none, errWrongCredential()
	case errors.Is(err, ErrTooManyPasskeys):
		return none, refusal(personal.CodeTooManyPasskeys)
	}
	if err := s.committed(personal.CodeUnauthenticated, "storing a passkey", err); err != nil {
		return none, err
	}
	return passkeyOf(p), nil
}

// newPasskey judges the response to an attempt to add a passkey. passkey.ErrInvalid.
func (s *Service) newPasskey(ctx context.Context, who caller, text, credential string) (p Passkey, use AttemptUse, err error) {
	attempt, err := s.findAttempt(ctx, who, text, passkeyAdd)
	if err != nil {
		return p, use, err
	}
	p = Passkey{
		AccountID: who.account.ID, RelyingParty: s.settings.Passkeys.ID, Created: s.store.Now(), WithCode: attempt.WithCode,
	}
	p.Key, err = s.settings.Passkeys.Register(attempt.Challenge[:], credential)
	return p, AttemptUse{Digest: attempt.Digest, SessionID: who.session.ID}, err
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
	if err := s.offersPasskeys(); err != nil {
		return err
	}
	e := evidence{"password", r.Password, r.Code, r.Proof}
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
