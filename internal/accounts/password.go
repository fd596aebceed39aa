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
	// ReplacePassword sets the hash of an account, which is given as it was read, raises the
	// credential version, voids the account's mailed tokens, ends every session but keep, whose
	// secrets it replaces (the id and the creation stay), keeps what the caller's address is to
	// the account, forgets refused codes, and keeps the other ways in valid or removes them as
	// RemoveOtherWaysIn does, also the kept session if one of them began it. It stores the jobs,
	// which it requests with what was removed and is left.
	// ErrStale if the credential version has changed, the account is disabled, or the session
	// has ended; ErrCodeUsed; ErrProofVoid.
	ReplacePassword(ctx context.Context, before Account, hash string, keep KeptSession, code CodeUse,
		removeOtherWays bool, jobs func(removed, left OtherWays) []NewJob) error
}

// KeptSession is the caller's session, which an operation keeps while it ends all others.
type KeptSession struct {
	Session
	Known KnownAt // the caller's address: if it was fully known it stays so
}

// keepSession returns the caller's session with fresh secrets, and the secret.
func (s *Service) keepSession(ctx context.Context, who caller) (KeptSession, token.Secret) {
	session, secret := s.newSession(ctx, who.account.ID, "") // the method stays
	session.ID = who.session.ID
	return KeptSession{session, s.knownAt(ctx)}, secret
}

// ChangePassword implements [personal.Service]. The caller's session continues with
// fresh secrets, so that its former hashes are void, unless another way in began it that is removed.
func (s *Service) ChangePassword(ctx context.Context, r personal.ChangePasswordRequest) (personal.Credentials, error) {
	r = personal.AsTyped(r)
	e := evidence{parameter: "old_password", password: r.OldPassword, code: r.Code, proof: r.Proof}
	who, attempt, err := s.identifyGuess(ctx, r.Credentials, e.guess(), nil)
	if err != nil {
		return personal.Credentials{}, err
	}
	invalid := maps.Clone(r.FieldErrors)
	requireCode(&invalid, who.account, e)
	guessed, err := s.confirmIdentity(ctx, who, &invalid, e)
	if !guessed {
		s.refund(ctx, attempt.charges)
	}
	if err != nil {
		return personal.Credentials{}, err
	}
	prepared := s.newPassword(&invalid, r.Password, r.ConfirmPassword, identifiersOf(who.account)...)
	if err := invalid.Err(); err != nil {
		return personal.Credentials{}, err
	}
	code, err := s.confirmCode(ctx, who, attempt.address, e)
	if err != nil {
		return personal.Credentials{}, err
	}
	hash, err := s.hasher.Hash(ctx, hashSource(ctx), prepared)
	if err != nil {
		return personal.Credentials{}, fail("hashing a password", err)
	}
	keep, secret := s.keepSession(ctx, who)
	a := who.account
	err = s.store.ReplacePassword(ctx, a, hash, keep, code.use, r.RemoveOtherWaysIn, func(removed, left OtherWays) []NewJob {
		jobs := append([]NewJob{s.event(ctx, personal.ActorUser, personal.EventPasswordChanged, a.ID)}, code.jobs...)
		jobs = append(jobs, s.waysRemovedEvents(ctx, personal.ActorUser, a.ID, removed)...)
		if a.Email.Key == "" {
			return jobs
		}
		return append(jobs, s.noticeJobs(ctx, personal.ActorUser, a.ID,
			noticeJob{Kind: mailtext.PasswordChanged, To: a.Email.Address, Removed: removed, Left: left})...)
	})
	if err := s.authorized(ctx, code, "replacing a password", err); err != nil {
		return personal.Credentials{}, err
	}
	return credentials(who.account.ID, keep.Selector, secret), nil
}

// identifyGuess identifies the caller of an operation that also requires their
// password or a proof, and charges the password and the further charges. A throttled attempt is refused for every caller; an attempt
// without an identity or a password tests nothing that can be guessed and costs nothing.
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

// confirmIdentity adds a field error unless the password is the account's, or the proof is valid;
// with a proof, errors of what it replaces do not count.
// It returns whether that was a wrong guess, which is reported like a failed sign-in
// and must not be refunded; a missing password and a proof, which may have expired, are none.
func (s *Service) confirmIdentity(ctx context.Context, who caller, invalid *personal.FieldErrors, e evidence) (guessed bool, err error) {
	if e.proof != "" {
		delete(*invalid, e.parameter)
		delete(*invalid, "code")
		if _, valid := s.proofUse(who, e); !valid {
			invalid.Add("proof", personal.FieldErrorMismatch)
		}
		return false, nil
	}
	if e.password == "" {
		invalid.Add(e.parameter, personal.FieldErrorRequired)
		return false, nil
	}
	result, err := s.verifyPassword(ctx, who.account.PasswordHash, who.account.LoginKey, e.password)
	if err != nil {
		return false, fail("verifying a password", err)
	}
	if !result.Match {
		invalid.Add(e.parameter, personal.FieldErrorMismatch)
		s.failed(ctx, who.account.LoginKey, who.account.ID)
	}
	return !result.Match, nil
}

// confirmPassword is confirmIdentity for an operation that checks no other parameters. It
// returns all field errors with those that were found before, and refunds the attempt
// unless it was a wrong guess.
func (s *Service) confirmPassword(ctx context.Context, who caller, guess attempt, found personal.FieldErrors, e evidence) error {
	invalid := maps.Clone(found)
	guessed, err := s.confirmIdentity(ctx, who, &invalid, e)
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
func (s *Service) confirm(ctx context.Context, who caller, guess attempt, found personal.FieldErrors, e evidence) (checkedCode, error) {
	invalid := maps.Clone(found)
	requireCode(&invalid, who.account, e)
	if err := s.confirmPassword(ctx, who, guess, invalid, e); err != nil {
		return checkedCode{}, err
	}
	return s.confirmCode(ctx, who, guess.address, e)
}

// newPassword checks a new password and its confirmation and returns it prepared
// for hashing.
func (s *Service) newPassword(invalid *personal.FieldErrors, entered, confirm string, identifiers ...string) string {
	prepared, code := s.policy.Check(entered, identifiers...)
	check(invalid, "password", code)
	require(invalid, "confirm_password", confirm)
	if confirm != entered {
		invalid.Add("confirm_password", personal.FieldErrorMismatch) // unless it is missing
	}
	return prepared
}

// identifiersOf returns the login and the e-mail of an account: its password must not be one of them.
func identifiersOf(a Account) []string {
	return []string{a.Login, a.LoginKey, a.Email.Address, a.Email.Key}
}
