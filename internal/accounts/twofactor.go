package accounts

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// TwoFactorStore keeps second factors, the secrets that wait to be confirmed, and
// recovery codes.
type TwoFactorStore interface {
	// SetPendingFactor stores a secret that waits for its confirmation in a session, in
	// place of an earlier one. ErrStale if the credential version has changed, the account
	// is disabled, or the session has ended; ErrProofVoid.
	SetPendingFactor(ctx context.Context, p PendingFactor) error
	// PendingFactor returns the secret that waits in a session, if it was stored after the
	// given time and for this credential version; else ErrNotFound.
	PendingFactor(ctx context.Context, sessionID, credentialVersion int64, after time.Time) (Sealed, error)
	// EnableTwoFactor makes the pending secret the second factor of its account, with the
	// step as its last used one, replaces the recovery codes, raises the credential version,
	// ends every session but keep, that of the secret, as ReplacePassword does, voids the account's mailed tokens, and stores the jobs. ErrStale if the
	// account has a second factor, its credential version has changed, it is disabled, or
	// the secret does not wait any more.
	EnableTwoFactor(ctx context.Context, p PendingFactor, step int64, codes NewRecoveryCodes, keep KeptSession, jobs ...NewJob) error
	// ReplaceRecoveryCodes uses up the code, replaces the recovery codes and the account's repeats,
	// and stores the jobs. ErrCodeUsed; ErrProofVoid; ErrStale if the credential version has
	// changed or the account is disabled.
	ReplaceRecoveryCodes(ctx context.Context, accountID, credentialVersion int64, code CodeUse, codes NewRecoveryCodes, jobs ...NewJob) error
	// RemoveOwnTwoFactor uses up the code, removes the second factor and the recovery codes,
	// raises the credential version, ends every session but keep, as ReplacePassword does,
	// voids the account's mailed tokens, and stores the jobs, which it requests with the other
	// ways in that are left. Errors are those of ReplaceRecoveryCodes.
	RemoveOwnTwoFactor(ctx context.Context, accountID, credentialVersion int64, keep KeptSession, code CodeUse,
		jobs func(left OtherWays) []NewJob) error
	// RemoveTwoFactor removes the second factor, the recovery codes and, unless it keeps them, the
	// other ways in, and ends every session; no address is fully known any more. It keeps the
	// credential version, because a deletion by the user depends on it. It stores the jobs, which it
	// requests under a lock with the account before the change and what was removed and is left. An account without a second factor stays as it is. ErrNotFound;
	// ErrLastWayIn.
	RemoveTwoFactor(ctx context.Context, accountID int64, keepOtherWays bool,
		jobs func(before Account, removed, left OtherWays) []NewJob) error

	// CountSecrets returns how many secrets of second factors, and whether the login key, each
	// key encrypts, in the order of key ids.
	CountSecrets(ctx context.Context) ([]SecretCount, error)
	// SecretsOfKey returns up to n secrets of second factors that the key encrypts, of
	// accounts with an id above after, in the order of these.
	SecretsOfKey(ctx context.Context, key string, after int64, n int) ([]AccountSecret, error)
	// Reseal replaces an encrypted secret by another encryption of it. ErrStale if the
	// account has another one.
	Reseal(ctx context.Context, accountID int64, from, to Sealed) error
}

// NewRecoveryCodes are the recovery codes that replace those of an account.
type NewRecoveryCodes struct {
	Digests [][32]byte
	Repeat  Repeat // the response that has the codes
}

// PendingFactor is a secret that waits for its confirmation.
type PendingFactor struct {
	AccountID         int64
	SessionID         int64
	CredentialVersion int64
	Secret            Sealed
	Proof             ProofUse // in place of the password; not stored
}

// AccountSecret is the secret of an account's second factor.
type AccountSecret struct {
	AccountID int64
	Secret    Sealed
}

// SecretCount is what a key encrypts.
type SecretCount struct {
	Key      string
	Accounts int64 // with a second factor whose secret it is
	LoginKey bool
}

// PendingFactorLifetime is how long a secret waits to be confirmed (HTTP contract, section
// 3).
const PendingFactorLifetime = 10 * time.Minute

// secretBytes is the size of a secret (RFC 4226, section 4, recommends 160 bits).
const secretBytes = 20

// offersTwoFactor returns not_found unless second factors can be switched on and off.
func (s *Service) offersTwoFactor() error {
	if !s.settings.TwoFactor || s.settings.Keys.Primary() == "" {
		return refusal(personal.CodeNotFound)
	}
	return nil
}

// mayEnrol refuses an account whose e-mail must be verified first: a recovery and the
// notices of changes go there.
func (s *Service) mayEnrol(a Account) error {
	if s.verifies() && (a.Email.Key == "" || !a.EmailVerified) {
		return refusal(personal.CodeEmailUnverified)
	}
	return nil
}

// BeginTwoFactor implements [personal.Service].
func (s *Service) BeginTwoFactor(ctx context.Context, r personal.BeginTwoFactorRequest) (personal.TwoFactorSecret, error) {
	if err := s.offersTwoFactor(); err != nil {
		return personal.TwoFactorSecret{}, err
	}
	if err := s.endRepeat(ctx, r.Credentials); err != nil {
		return personal.TwoFactorSecret{}, err
	}
	e := evidence{parameter: "password", password: r.Password, proof: r.Proof}
	who, attempt, err := s.identifyGuess(ctx, r.Credentials, e.guess(), nil)
	if err != nil {
		return personal.TwoFactorSecret{}, err
	}
	if err := s.mayEnrol(who.account); err != nil {
		s.refund(ctx, attempt.charges)
		return personal.TwoFactorSecret{}, err
	}
	if err := s.confirmPassword(ctx, who, attempt, r.FieldErrors, e); err != nil {
		return personal.TwoFactorSecret{}, err
	}
	if who.account.TwoFactor.On() {
		return personal.TwoFactorSecret{}, refusal(personal.CodeTwoFactorOn)
	}
	proof, err := s.confirmCode(ctx, who, attempt.address, e) // there is no second factor
	if err != nil {
		return personal.TwoFactorSecret{}, err
	}
	var secret [secretBytes]byte
	_, _ = rand.Read(secret[:]) // it never fails
	key, data := s.settings.Keys.Seal(who.account.ID, secret[:])
	pending := pendingFactor(who, Sealed{Key: key, Data: data})
	pending.Proof = proof.use.Proof
	err = s.store.SetPendingFactor(ctx, pending)
	if err := s.authorized(ctx, proof, "storing a pending second factor", err); err != nil {
		return personal.TwoFactorSecret{}, err
	}
	return twoFactorSecret(s.settings.TwoFactorIssuer, who.account.Login, secret[:]), nil
}

// pendingFactor binds a secret to the caller's session and credential version.
func pendingFactor(who caller, secret Sealed) PendingFactor {
	return PendingFactor{
		AccountID: who.account.ID, SessionID: who.session.ID, CredentialVersion: who.account.CredentialVersion, Secret: secret,
	}
}

// twoFactorSecret returns a secret as users and authenticator apps read it. Issuer and
// login are escaped here: apps do not read + as a space, and the library leaves an &.
func twoFactorSecret(issuer, login string, secret []byte) personal.TwoFactorSecret {
	escape := func(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
	text := unpadded.EncodeToString(secret)
	return personal.TwoFactorSecret{
		Secret: text,
		URI: fmt.Sprintf("otpauth://totp/%s:%s?secret=%s&issuer=%s&algorithm=SHA1&digits=%d&period=%d",
			escape(issuer), escape(login), text, escape(issuer), codeDigits, codePeriod),
	}
}

// ConfirmTwoFactor implements [personal.Service]. Of two requests that are the same, the later one
// returns what the earlier one has.
func (s *Service) ConfirmTwoFactor(ctx context.Context, r personal.ConfirmTwoFactorRequest) (confirmed personal.ConfirmedTwoFactor,
	err error) {
	r = personal.AsTyped(r)
	if err := s.offersTwoFactor(); err != nil {
		return confirmed, err
	}
	request := repeatableRequest("two_factor_confirm", r.Credentials, r.FieldErrors, r.Code)
	again := func(otherwise error) (personal.ConfirmedTwoFactor, error) {
		response, ok, err := s.repeated(ctx, request)
		if !ok || err != nil {
			return personal.ConfirmedTwoFactor{}, cmp.Or(err, otherwise)
		}
		c := personal.Credentials{UserID: r.Credentials.UserID, UserHash: response.UserHash}
		return personal.ConfirmedTwoFactor{Credentials: c, RecoveryCodes: response.RecoveryCodes}, nil
	}
	if confirmed, err = again(errNoRepeat); !errors.Is(err, errNoRepeat) {
		return confirmed, err
	}
	now := s.store.Now()
	who, err := s.verifyRepeater(ctx, r.Credentials, WholeAccount, now)
	if personal.CodeOf(err) == personal.CodeUnauthenticated { // or the same request has just replaced the pair
		return again(err)
	}
	if err == nil {
		s.touch(ctx, &who, now)
		err = s.chargeWrite(ctx, who)
	}
	if err != nil {
		return confirmed, err
	}
	if err := s.mayEnrol(who.account); err != nil {
		return confirmed, err
	}
	invalid := maps.Clone(r.FieldErrors)
	require(&invalid, "code", r.Code)
	if err := invalid.Err(); err != nil {
		return confirmed, err
	}
	a := who.account
	pending, err := s.store.PendingFactor(ctx, who.session.ID, a.CredentialVersion, s.store.Now().Add(-PendingFactorLifetime))
	if errors.Is(err, ErrNotFound) { // or the same request has confirmed it
		return again(refusal(personal.CodeTwoFactorOff))
	}
	if err != nil {
		return confirmed, fail("finding a pending second factor", err)
	}
	address, err := s.callersAddress(ctx, AccountQuery{LoginKey: a.LoginKey})
	if err != nil {
		return confirmed, err
	}
	owner := who.owner(address)
	owner.factor = TwoFactor{Secret: pending}
	code, err := s.checkCode(ctx, owner, r.Code)
	if err == nil && code.use.Step == 0 { // recovery codes come with the confirmation
		err = errWrongCode
	}
	if err != nil {
		return confirmed, s.refusedCode(ctx, owner, err)
	}
	codes, digests := newRecoveryCodes()
	keep, secret := s.keepSession(ctx, who)
	fresh := credentials(a.ID, keep.Selector, secret)
	repeat, err := request.repeat(who, secret, repeatedResponse{fresh.UserHash, codes})
	if err != nil {
		return confirmed, err
	}
	err = s.store.EnableTwoFactor(ctx, pendingFactor(who, pending), code.use.Step, NewRecoveryCodes{digests, repeat}, keep,
		s.reports(ctx, personal.ActorUser, personal.EventTwoFactorOn, mailtext.TwoFactorOn, a.ID, a.Email)...)
	if err == nil {
		s.refund(ctx, code.charges)
	}
	if errors.Is(err, ErrStale) {
		return again(refusal(personal.CodeTwoFactorOff))
	}
	if err := s.committed(personal.CodeTwoFactorOff, "enabling a second factor", err); err != nil {
		return confirmed, err
	}
	return personal.ConfirmedTwoFactor{Credentials: fresh, RecoveryCodes: codes}, nil
}

// RenewRecoveryCodes implements [personal.Service]. It treats the same request as ConfirmTwoFactor does.
func (s *Service) RenewRecoveryCodes(ctx context.Context, r personal.RenewRecoveryCodesRequest) ([]string, error) {
	r = personal.AsTyped(r)
	if err := s.offersTwoFactor(); err != nil {
		return nil, err
	}
	request := repeatableRequest("two_factor_codes", r.Credentials, r.FieldErrors, r.Password, r.Code, r.Proof)
	if response, ok, err := s.repeated(ctx, request); ok || err != nil {
		return response.RecoveryCodes, err
	}
	who, code, err := s.authorizeChange(ctx, r.Credentials, evidence{parameter: "password", password: r.Password, code: r.Code, proof: r.Proof}, r.FieldErrors)
	if err != nil {
		return nil, err
	}
	a := who.account
	codes, digests := newRecoveryCodes()
	jobs := s.reports(ctx, personal.ActorUser, personal.EventRecoveryCodes, mailtext.RecoveryCodes, a.ID, a.Email)
	_, presented, _ := token.ParseHash(r.Credentials.UserHash)
	repeat, err := request.repeat(who, presented.Next(who.session.ChainKey), repeatedResponse{RecoveryCodes: codes})
	if err != nil {
		return nil, err
	}
	err = s.store.ReplaceRecoveryCodes(ctx, a.ID, a.CredentialVersion, code.use, NewRecoveryCodes{digests, repeat},
		append(jobs, code.jobs...)...)
	if errors.Is(err, ErrCodeUsed) { // by the same request, at the same time?
		if response, ok, _ := s.repeated(ctx, request); ok {
			s.refund(ctx, code.charges)
			return response.RecoveryCodes, nil
		}
	}
	if err := s.authorized(ctx, code, "replacing recovery codes", err); err != nil {
		return nil, err
	}
	return codes, nil
}

// RemoveOwnTwoFactor implements [personal.Service].
func (s *Service) RemoveOwnTwoFactor(ctx context.Context, r personal.RemoveOwnTwoFactorRequest) (personal.Credentials, error) {
	r = personal.AsTyped(r)
	if err := s.endRepeat(ctx, r.Credentials); err != nil {
		return personal.Credentials{}, err
	}
	who, code, err := s.authorizeChange(ctx, r.Credentials, evidence{parameter: "password", password: r.Password, code: r.Code, proof: r.Proof}, r.FieldErrors)
	if err != nil {
		return personal.Credentials{}, err
	}
	a := who.account
	keep, secret := s.keepSession(ctx, who)
	err = s.store.RemoveOwnTwoFactor(ctx, a.ID, a.CredentialVersion, keep, code.use, func(left OtherWays) []NewJob {
		return append(s.factorRemoved(ctx, personal.ActorUser, a, OtherWays{}, left), code.jobs...)
	})
	if err := s.authorized(ctx, code, "ending a second factor", err); err != nil {
		return personal.Credentials{}, err
	}
	return credentials(a.ID, keep.Selector, secret), nil
}

// authorizeChange identifies the caller of a change of their second factor, and checks
// their password and code, or their proof, which must be of no sign-in. The code of an account
// without a second factor is required, and not judged.
func (s *Service) authorizeChange(
	ctx context.Context, c personal.Credentials, e evidence, found personal.FieldErrors,
) (caller, checkedCode, error) {
	if err := s.offersTwoFactor(); err != nil {
		return caller{}, checkedCode{}, err
	}
	e.anew = true
	who, attempt, err := s.identifyGuess(ctx, c, e.guess(), nil)
	if err != nil {
		return caller{}, checkedCode{}, err
	}
	invalid := maps.Clone(found)
	if e.proof == "" {
		require(&invalid, "code", e.code)
	}
	if err := s.confirmPassword(ctx, who, attempt, invalid, e); err != nil {
		return caller{}, checkedCode{}, err
	}
	if !who.account.TwoFactor.On() {
		return caller{}, checkedCode{}, refusal(personal.CodeTwoFactorOff)
	}
	checked, err := s.confirmCode(ctx, who, attempt.address, e)
	return who, checked, err
}

// RemoveTwoFactor implements [personal.Administration].
func (s *Service) RemoveTwoFactor(ctx context.Context, r personal.RemoveTwoFactorRequest) error {
	err := s.store.RemoveTwoFactor(ctx, r.UserID, r.KeepOtherWaysIn, func(before Account, removed, left OtherWays) []NewJob {
		return s.factorRemoved(ctx, personal.ActorAdministrator, before, removed, left)
	})
	return s.committed(personal.CodeNotFound, "removing a second factor", err)
}

// factorRemoved are the jobs that report the removal of a second factor, and of other ways in with it.
func (s *Service) factorRemoved(ctx context.Context, by personal.Actor, a Account, removed, left OtherWays) []NewJob {
	jobs := append([]NewJob{s.event(ctx, by, personal.EventTwoFactorOff, a.ID)}, s.waysRemovedEvents(ctx, by, a.ID, removed)...)
	if a.Email.Key == "" {
		return jobs
	}
	return append(jobs, s.noticeJobs(ctx, by, a.ID,
		noticeJob{Kind: mailtext.TwoFactorOff, To: a.Email.Address, Removed: removed, Left: left})...)
}
