package accounts

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"maps"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// PasskeyUse is the response of a passkey that was found right. The transaction that it
// authorises uses its attempt up, and stores the state of the passkey. It fails with
// ErrCeremonyUsed also if the passkey was removed. The zero value is none.
type PasskeyUse struct {
	ID                       int64
	SignCount                uint32
	BackupEligible, BackedUp bool
	Attempt                  CeremonyUse
	OnClone                  func() []NewJob // stored if the sign count has not risen
}

// AuthorizePasskey implements [personal.Service]. An unknown passkey costs the same as one whose
// response is wrong: the same queries, the same checks of signatures, the same lines in the log,
// the same response.
func (s *Service) AuthorizePasskey(ctx context.Context, r personal.AuthorizePasskeyRequest) (in personal.SignedIn, err error) {
	r = personal.AsTyped(r)
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
	open := func(code checkedCode) (personal.SignedIn, error) {
		return s.signIn(ctx, a, signInBy{method: personal.MethodPasskey, code: code, passkey: use, authenticated: s.store.Now()})
	}
	var code checkedCode
	if p.needsCode(a) {
		in, code, err = s.signInOtherwise(ctx, a, r.Code, open)
	} else {
		in, err = open(code)
	}
	if errors.Is(err, ErrCeremonyUsed) || errors.Is(err, ErrStale) { // or the passkey was removed since
		s.failed(ctx, "", a.ID)
		return personal.SignedIn{}, refusal(personal.CodeInvalidCredentials)
	}
	if err == nil || !p.needsCode(a) { // in an outage, the passkey was right
		s.refund(ctx, append(guess, code.charges...))
	}
	if err != nil {
		return personal.SignedIn{}, err
	}
	return in, nil
}

// checkPasskey judges the response to a sealed attempt. Of a passkey whose response is wrong it
// returns the account's id with invalid_credentials.
func (s *Service) checkPasskey(ctx context.Context, attempt, credential string) (p Passkey, a Account, use PasskeyUse, err error) {
	key, err := s.ceremonyKey(ctx)
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
		err = ErrCeremonyUsed
	}
	if err != nil {
		s.refusedPasskey(ctx, a.ID, err)
		return p, Account{ID: a.ID}, use, refusal(personal.CodeInvalidCredentials)
	}
	return p, a, s.usePasskey(ctx, p, after, a, CeremonyUse{Digest: digest, Expires: expires}), nil
}

// usePasskey is what is stored when a passkey was used.
func (s *Service) usePasskey(ctx context.Context, p Passkey, after passkey.Key, a Account, attempt CeremonyUse) PasskeyUse {
	return PasskeyUse{
		ID: p.ID, SignCount: after.SignCount, BackupEligible: after.BackupEligible, BackedUp: after.BackedUp, Attempt: attempt,
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
