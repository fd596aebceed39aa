package accounts

import (
	"context"
	"maps"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// PasswordStore replaces passwords.
type PasswordStore interface {
	// ReplacePassword sets the hash, raises the credential version, voids the
	// account's mailed tokens, ends every session but keep, whose secrets it replaces
	// (the id and the creation stay), keeps what the caller's address is to the account,
	// forgets refused codes, and stores the jobs. ErrStale if the credential
	// version has changed, the account is disabled, or the session
	// has ended; ErrCodeUsed.
	ReplacePassword(ctx context.Context, accountID, credentialVersion int64, hash string, keep KeptSession, code CodeUse, jobs ...NewJob) error
}

// KeptSession is the caller's session, which an operation keeps while it ends all others.
type KeptSession struct {
	Session
	Known KnownAt // the caller's address: if it was fully known it stays so
}

// keepSession returns the caller's session with fresh secrets, and the secret.
func (s *Service) keepSession(ctx context.Context, who caller) (KeptSession, token.Secret) {
	session, secret := s.newSession(ctx, who.account.ID)
	session.ID = who.session.ID
	return KeptSession{session, s.knownAt(ctx)}, secret
}

// ChangePassword implements [personal.Service]. The caller's session continues with
// fresh secrets, so that its former hashes are void.
func (s *Service) ChangePassword(ctx context.Context, r personal.ChangePasswordRequest) (personal.Credentials, error) {
	who, attempt, err := s.identifyGuess(ctx, r.Credentials, r.OldPassword, nil)
	if err != nil {
		return personal.Credentials{}, err
	}
	invalid := maps.Clone(r.FieldErrors)
	requireCode(&invalid, who.account, r.Code)
	guessed, err := s.confirmIdentity(ctx, who.account, &invalid, "old_password", r.OldPassword)
	if !guessed {
		s.refund(ctx, attempt.charges)
	}
	if err != nil {
		return personal.Credentials{}, err
	}
	prepared := s.newPassword(&invalid, r.Password, r.ConfirmPassword, personalWords(who.account)...)
	if err := invalid.Err(); err != nil {
		return personal.Credentials{}, err
	}
	code, err := s.confirmCode(ctx, who, attempt.address, r.Code)
	if err != nil {
		return personal.Credentials{}, err
	}
	hash, err := s.hasher.Hash(ctx, hashSource(ctx), prepared)
	if err != nil {
		return personal.Credentials{}, fail("hashing a password", err)
	}
	jobs := s.reports(ctx, personal.ActorUser, personal.EventPasswordChanged, mailtext.PasswordChanged, who.account.ID, who.account.Email)
	keep, secret := s.keepSession(ctx, who)
	err = s.store.ReplacePassword(ctx, who.account.ID, who.account.CredentialVersion, hash, keep, code.use, append(jobs, code.jobs...)...)
	if err := s.authorized(ctx, code, "replacing a password", err); err != nil {
		return personal.Credentials{}, err
	}
	return credentials(who.account.ID, keep.Selector, secret), nil
}

// identifyGuess identifies the caller of an operation that also requires their
// password, and charges the attempt and the further charges. A throttled attempt is refused for every caller; an attempt
// without an identity or a password tests nothing and costs nothing.
func (s *Service) identifyGuess(
	ctx context.Context, c personal.Credentials, entered string, further []throttle.Charge,
) (caller, attempt, error) {
	who, identity := s.identify(ctx, c, WholeAccount)
	if identity != nil && personal.CodeOf(identity) != personal.CodeUnauthenticated {
		return caller{}, attempt{}, identity
	}
	key := who.account.LoginKey
	guess, err := s.guess(ctx, AccountQuery{LoginKey: key}, key, identity == nil && entered != "", further)
	if err != nil {
		return caller{}, attempt{}, err
	}
	if identity != nil {
		return caller{}, attempt{}, identity
	}
	if err := s.chargeWrite(ctx, who); err != nil {
		s.refund(ctx, guess.charges)
		return caller{}, attempt{}, err
	}
	return who, guess, nil
}

// confirmIdentity adds a field error unless the entered password is the account's.
// It returns whether that was a wrong guess, which is reported like a failed sign-in
// and must not be refunded; a missing password is none.
func (s *Service) confirmIdentity(ctx context.Context, a Account, invalid *personal.FieldErrors, parameter, entered string) (guessed bool, err error) {
	if entered == "" {
		invalid.Add(parameter, personal.FieldErrorRequired)
		return false, nil
	}
	result, err := s.hasher.Verify(ctx, hashSource(ctx), a.PasswordHash, entered)
	if err != nil {
		return false, fail("verifying a password", err)
	}
	if !result.Match {
		invalid.Add(parameter, personal.FieldErrorMismatch)
		s.failed(ctx, a.LoginKey, a.ID)
	}
	return !result.Match, nil
}

// confirmPassword is confirmIdentity for an operation that checks no other parameters. It
// returns all field errors with those that were found before, and refunds the attempt
// unless it was a wrong guess.
func (s *Service) confirmPassword(ctx context.Context, who caller, guess attempt, found personal.FieldErrors, entered string) error {
	invalid := maps.Clone(found)
	guessed, err := s.confirmIdentity(ctx, who.account, &invalid, "password", entered)
	if !guessed {
		s.refund(ctx, guess.charges)
	}
	if err != nil {
		return err
	}
	return invalid.Err()
}

// confirm is confirmPassword, and then confirmCode, for an operation that needs a code if
// there is a second factor.
func (s *Service) confirm(
	ctx context.Context, who caller, guess attempt, found personal.FieldErrors, entered, code string,
) (checkedCode, error) {
	invalid := maps.Clone(found)
	requireCode(&invalid, who.account, code)
	if err := s.confirmPassword(ctx, who, guess, invalid, entered); err != nil {
		return checkedCode{}, err
	}
	return s.confirmCode(ctx, who, guess.address, code)
}

// newPassword checks a new password and its confirmation and returns it prepared
// for hashing.
func (s *Service) newPassword(invalid *personal.FieldErrors, entered, confirm string, words ...string) string {
	prepared, code := s.policy.Check(entered, words...)
	check(invalid, "password", code)
	require(invalid, "confirm_password", confirm)
	if confirm != entered {
		invalid.Add("confirm_password", personal.FieldErrorMismatch) // unless it is missing
	}
	return prepared
}

// personalWords are the words that the account's password must not consist of.
func personalWords(a Account) []string {
	return []string{a.Login, a.LoginKey, a.Email.Address, a.Email.Key}
}
