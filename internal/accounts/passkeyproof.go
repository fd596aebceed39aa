package accounts

import (
	"context"
	"errors"
	"maps"

	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/shared/personal"
)

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
	attempt, err := s.findCeremony(ctx, who, text, personal.PasskeyProve)
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
	return p, s.usePasskey(ctx, p, after, who.account, CeremonyUse{Digest: attempt.Digest, SessionID: who.session.ID}), nil
}
