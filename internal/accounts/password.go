package accounts

import (
	"context"
	"errors"
	"maps"

	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// ChangePassword implements [personal.Service].
func (s *Service) ChangePassword(ctx context.Context, r personal.ChangePasswordRequest) (personal.Credentials, error) {
	who, attempt, err := s.identifyGuess(ctx, r.Credentials, r.OldPassword, nil)
	if err != nil {
		return personal.Credentials{}, err
	}
	faults := maps.Clone(r.FieldErrors)
	guessed, err := s.confirmIdentity(ctx, who.account, &faults, "old_password", r.OldPassword)
	if !guessed {
		s.refund(ctx, attempt)
	}
	if err != nil {
		return personal.Credentials{}, err
	}
	prepared := s.newPassword(&faults, r.Password, r.ConfirmPassword, personalWords(who.account)...)
	if err := faults.Err(); err != nil {
		return personal.Credentials{}, err
	}
	return s.replacePassword(ctx, who, prepared)
}

// identifyGuess identifies the caller of an operation that also asks for their
// password, and charges the attempt and the further charges; it returns those that
// may be refunded. A throttled attempt is refused whoever makes it; one without an
// identity or a password is no guess and costs nothing.
func (s *Service) identifyGuess(
	ctx context.Context, c personal.Credentials, entered string, further []throttle.Charge,
) (caller, []throttle.Charge, error) {
	who, identity := s.identify(ctx, c)
	if identity != nil && personal.CodeOf(identity) != personal.CodeUnauthenticated {
		return caller{}, nil, identity
	}
	attempt, err := s.guess(ctx, who.account.LoginKey, identity == nil && entered != "", further)
	if err != nil {
		return caller{}, nil, err
	}
	if identity != nil {
		return caller{}, nil, identity
	}
	if err := s.chargeWrite(ctx, who); err != nil {
		s.refund(ctx, attempt)
		return caller{}, nil, err
	}
	return who, attempt, nil
}

// confirmIdentity notes a fault unless the entered password is the account's. It
// returns whether that was a wrong guess, which is told as at a sign-in and is to
// be paid for; a missing password is none.
func (s *Service) confirmIdentity(ctx context.Context, a Account, faults *personal.FieldErrors, parameter, entered string) (guessed bool, err error) {
	if entered == "" {
		faults.Add(parameter, personal.FieldErrorRequired)
		return false, nil
	}
	result, err := s.hasher.Verify(ctx, hashSource(ctx), a.PasswordHash, entered)
	if err != nil {
		return false, fail("verifying a password", err)
	}
	if !result.Match {
		faults.Add(parameter, personal.FieldErrorMismatch)
		s.failed(ctx, a.LoginKey, a)
	}
	return !result.Match, nil
}

// replacePassword stores the new password. The session that asks lives on with
// fresh secrets, so that none of its earlier hashes is good for anything.
func (s *Service) replacePassword(ctx context.Context, who caller, prepared string) (personal.Credentials, error) {
	hash, err := s.hasher.Hash(ctx, hashSource(ctx), prepared)
	if err != nil {
		return personal.Credentials{}, fail("hashing a password", err)
	}
	event := s.event(ctx, personal.ActorUser, personal.EventPasswordChanged, who.account.ID)
	keep, secret := s.newSession(ctx, who.account.ID)
	keep.ID = who.session.ID
	err = s.store.ReplacePassword(ctx, who.account.ID, who.account.CredentialVersion, hash, keep, event)
	if errors.Is(err, ErrStale) {
		return personal.Credentials{}, refusal(personal.CodeUnauthenticated)
	}
	if err != nil {
		return personal.Credentials{}, fail("replacing a password", err)
	}
	s.wake()
	return credentials(who.account.ID, keep.Selector, secret), nil
}
