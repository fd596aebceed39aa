package accounts

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/shared/personal"
)

// Authorize implements [personal.Service]. An unknown login takes the same road
// as a wrong password: the same queries, a hash of the same cost, the same answer.
func (s *Service) Authorize(ctx context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
	faults := maps.Clone(r.FieldErrors)
	require(&faults, "login", r.Login)
	require(&faults, "password", r.Password)
	invalid := faults.Err()
	attempt, err := s.guess(ctx, r.Login, invalid == nil, perNetwork(ctx, "sign in", s.settings.Throttle.SignInAddress))
	if err != nil {
		return personal.SignedIn{}, err
	}
	if invalid != nil {
		return personal.SignedIn{}, invalid
	}
	account, rehash, err := s.checkLogin(ctx, r.Login, r.Password)
	switch {
	case personal.CodeOf(err) == personal.CodeInvalidCredentials:
		s.failed(ctx, r.Login, account)
		return personal.SignedIn{}, err
	case err != nil: // an outage kept it from being judged
		s.refund(ctx, attempt)
		return personal.SignedIn{}, err
	}
	s.forgive(ctx, attempt)
	if account.Disabled {
		if err := s.charge(ctx, s.signInAccount(account.ID)); err != nil { // else it is charged with the session
			return personal.SignedIn{}, err
		}
		s.failed(ctx, r.Login, account)
		return personal.SignedIn{}, refusal(personal.CodeAccountDisabled)
	}
	return s.signIn(ctx, account, rehash)
}

// checkLogin returns the account that the login means, even if the password is
// not its own, and a new hash when the stored one is not as the settings ask.
func (s *Service) checkLogin(ctx context.Context, login, entered string) (account Account, rehash string, err error) {
	account, known, err := s.findByLogin(ctx, login)
	if err != nil {
		return Account{}, "", err
	}
	rehash, err = s.checkPassword(ctx, account, known, entered)
	return account, rehash, err
}

// findByLogin finds the account that a login, or an e-mail where the settings
// allow it, means. One that is not there is no error: known is false.
func (s *Service) findByLogin(ctx context.Context, login string) (account Account, known bool, err error) {
	q := s.loginQuery(login)
	account, err = s.store.FindAccount(ctx, q)
	if errors.Is(err, ErrNotFound) {
		return Account{}, false, nil
	}
	if err != nil {
		return Account{}, false, fail("finding an account", err)
	}
	return account, true, nil
}

// loginQuery asks for a login as typed. One with an @ means the account with that
// e-mail, or, where e-mails are no logins, the account whose e-mail and (imported)
// login it is: another one's login with an @ counts for nothing (HTTP contract,
// section 3, register). What cannot be a login asks for nothing, but asks all the
// same.
func (s *Service) loginQuery(login string) AccountQuery {
	if strings.Contains(login, "@") {
		email, _ := ParseEmail(login)
		return AccountQuery{EmailKey: email.Key, OwnEmail: !s.settings.LoginWithEmail}
	}
	key, fault := LoginKey(login)
	if fault != "" {
		return AccountQuery{}
	}
	return AccountQuery{LoginKey: key}
}

// checkPassword returns invalid_credentials unless the password is the
// account's, and a new hash when the stored one is not as the settings ask.
func (s *Service) checkPassword(ctx context.Context, account Account, known bool, entered string) (rehash string, err error) {
	if !known {
		if err := s.hasher.VerifyDummy(ctx, hashSource(ctx), entered); err != nil {
			return "", fail("hashing a password", err)
		}
		return "", refusal(personal.CodeInvalidCredentials)
	}
	result, err := s.hasher.Verify(ctx, hashSource(ctx), account.PasswordHash, entered)
	if err != nil {
		return "", fail("verifying a password", err)
	}
	if !result.Match {
		return "", refusal(personal.CodeInvalidCredentials)
	}
	if !result.Rehash {
		return "", nil
	}
	return s.hashAnew(ctx, entered)
}

// hashAnew returns the new hash of a password that was right. One for which there
// is no turn now is left to another sign-in.
func (s *Service) hashAnew(ctx context.Context, entered string) (rehash string, err error) {
	prepared, _ := password.Canonical(entered) // there is a form, or no rehash would be due
	rehash, err = s.hasher.Hash(ctx, hashSource(ctx), prepared)
	if errors.Is(err, password.ErrBusy) {
		return "", nil
	}
	if err != nil {
		return "", fail("hashing a password anew", err)
	}
	return rehash, nil
}

// signIn opens a session for an account whose password was right.
func (s *Service) signIn(ctx context.Context, account Account, rehash string) (personal.SignedIn, error) {
	fields, err := s.userFields(ctx)
	if err != nil {
		return personal.SignedIn{}, err
	}
	session, secret := s.newSession(ctx, account.ID)
	account, err = s.store.OpenSession(ctx, OpenSession{
		Session:           session,
		CredentialVersion: account.CredentialVersion,
		Rehash:            rehash,
		Most:              MostSessions,
		Lifetimes:         s.settings.Lifetimes(session.Created),
		Charges:           s.signInAccount(account.ID),
		Jobs:              []NewJob{s.event(ctx, personal.ActorUser, personal.EventSignedIn, account.ID)},
	})
	if errors.Is(err, ErrStale) {
		// While this one was being verified the password changed, and it is wrong
		// now; or the account was disabled or deleted.
		return personal.SignedIn{}, refusal(personal.CodeInvalidCredentials)
	}
	var refused *WaitError
	if errors.As(err, &refused) {
		return personal.SignedIn{}, s.admit(ctx, refused.Wait, nil)
	}
	if err != nil {
		return personal.SignedIn{}, fail("opening a session", err)
	}
	s.wake()
	s.remember(ctx, account.ID)
	return personal.SignedIn{
		Credentials: credentials(account.ID, session.Selector, secret),
		Profile:     profile(account, fields),
	}, nil
}
