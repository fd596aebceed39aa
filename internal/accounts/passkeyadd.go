package accounts

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"strconv"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/shared/personal"
)

// AddPasskey implements [personal.Service].
func (s *Service) AddPasskey(ctx context.Context, r personal.AddPasskeyRequest) (started personal.PasskeyCeremony, err error) {
	r = personal.AsTyped(r)
	if err := s.offersPasskeys(); err != nil {
		return started, err
	}
	e := evidence{parameter: "password", password: r.Password, code: r.Code, proof: r.Proof}
	who, guess, err := s.identifyGuess(ctx, r.Credentials, e.guess(), nil)
	if err != nil {
		return started, err
	}
	a := who.account
	if err := s.mayEnrol(a); err != nil {
		s.refund(ctx, guess.charges)
		return started, err
	}
	code, err := s.confirm(ctx, who, guess, r.FieldErrors, e)
	if err != nil {
		return started, err
	}
	list, err := s.store.Passkeys(ctx, a.ID)
	if err != nil {
		return started, fail("reading passkeys", err)
	}
	text, attempt := newCeremony(who, passkeyAdd)
	attempt.WithCode = a.TwoFactor.On() && (code.judged() || e.proof != "" && who.session.Proof.WithCode)
	candidate := make([]byte, userHandleSize)
	_, _ = rand.Read(candidate) // it never fails
	handle, err := s.store.BeginPasskey(ctx, a.ID, attempt, candidate, code.use, code.jobs...)
	if errors.Is(err, ErrTooManyPasskeys) {
		return started, refusal(personal.CodeTooManyPasskeys)
	}
	if err := s.authorized(ctx, code, "storing an attempt", err); err != nil {
		return started, err
	}
	user := passkey.User{Handle: handle, Name: a.Login, DisplayName: a.Login}
	if a.Name != nil {
		user.DisplayName = *a.Name
	}
	return personal.PasskeyCeremony{Attempt: text, Options: s.settings.Passkeys.CreationOptions(attempt.Challenge[:], user, keysOf(list))}, nil
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
	if errors.Is(err, passkey.ErrInvalid) || errors.Is(err, ErrCeremonyUsed) { // a repetition?
		found, missing := s.store.ConfirmedPasskey(ctx, a.ID, confirmation)
		if missing == nil {
			return passkeyOf(found), nil
		}
		if !errors.Is(missing, ErrNotFound) {
			return none, fail("finding a passkey", missing)
		}
	}
	switch {
	case errors.Is(err, passkey.ErrInvalid), errors.Is(err, ErrCeremonyUsed), errors.Is(err, ErrPasskeyTaken):
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
func (s *Service) newPasskey(ctx context.Context, who caller, text, credential string) (p Passkey, use CeremonyUse, err error) {
	attempt, err := s.findCeremony(ctx, who, text, passkeyAdd)
	if err != nil {
		return p, use, err
	}
	p = Passkey{
		AccountID: who.account.ID, RelyingParty: s.settings.Passkeys.ID, Created: s.store.Now(), WithCode: attempt.WithCode,
	}
	p.Key, err = s.settings.Passkeys.Register(attempt.Challenge[:], credential)
	return p, CeremonyUse{Digest: attempt.Digest, SessionID: who.session.ID}, err
}
