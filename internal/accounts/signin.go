package accounts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// SignIn implements [personal.Administration]. It judges like Authorize after the password. It
// starts again if the account has changed since: the host has authenticated the user, whatever
// their password is.
func (s *Service) SignIn(ctx context.Context, r personal.SignInRequest) (personal.SignedIn, error) {
	r = personal.AsTyped(r)
	var invalid personal.FieldErrors
	if r.Identity != (personal.Identity{}) {
		if r.UserID != 0 {
			return personal.SignedIn{}, personal.NewError(personal.CodeMalformedRequest, errors.New("both a user id and an identity"))
		}
		invalid = checkIdentity(r.Identity)
	}
	checkOrigin(&invalid, r.Method, r.ProviderSession)
	if err := invalid.Err(); err != nil {
		return personal.SignedIn{}, err
	}
	for range tries {
		in, err := s.signInUser(ctx, r)
		if !errors.Is(err, ErrStale) {
			return in, err
		}
	}
	return personal.SignedIn{}, fail("opening a session", ErrUnavailable)
}

// checkOrigin checks how a host has authenticated a user.
func checkOrigin(invalid *personal.FieldErrors, method, providerSession string) {
	check(invalid, "method", checkMethod(method))
	if len(providerSession) > personal.MaxProviderSession {
		invalid.Add("provider_session", personal.FieldErrorTooLong)
	}
}

// checkMethod returns what is wrong with the name of a method; "" for nothing.
func checkMethod(method string) personal.FieldErrorCode {
	switch {
	case method == "":
		return personal.FieldErrorRequired
	case len(method) > personal.MaxMethod:
		return personal.FieldErrorTooLong
	case strings.Trim(method, "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
		return personal.FieldErrorInvalidFormat
	case slices.Contains(personal.ModuleMethods(), method):
		return personal.FieldErrorTaken
	}
	return ""
}

// signInUser is SignIn for an account as it is now; ErrStale if that changes, or loses the identity.
func (s *Service) signInUser(ctx context.Context, r personal.SignInRequest) (personal.SignedIn, error) {
	id := r.UserID
	if r.Identity != (personal.Identity{}) {
		var err error
		if id, err = s.FindIdentity(ctx, r.Identity); err != nil {
			return personal.SignedIn{}, err
		}
	}
	account, err := s.store.Account(ctx, id)
	if err != nil {
		return personal.SignedIn{}, failWith(personal.CodeNotFound, "finding an account", err)
	}
	if code := account.refusal(); code != "" {
		if err := s.charge(ctx, s.signInAccount(account.ID)); err != nil { // otherwise OpenSession charges it
			return personal.SignedIn{}, err
		}
		s.failed(ctx, account.LoginKey, account.ID)
		return personal.SignedIn{}, refusal(code)
	}
	open := func(code checkedCode) (in personal.SignedIn, err error) {
		in, err = s.signIn(ctx, account, signInBy{
			method: r.Method, identity: r.Identity, providerSession: r.ProviderSession, code: code,
			authenticated: s.proofSince(r.AuthenticatedAt, s.signInProofLifetime()),
		})
		if errors.Is(err, ErrStale) {
			s.refund(ctx, code.charges) // it was not used
		}
		return in, err
	}
	if !account.TwoFactor.On() || r.SecondFactorDone {
		return open(checkedCode{})
	}
	in, code, err := s.signInOtherwise(ctx, account, r.Code, open)
	if err != nil {
		return personal.SignedIn{}, err
	}
	s.refund(ctx, code.charges)
	return in, nil
}

// proofSince returns when a proof began that a user gave when they were authenticated; the zero time if
// that is too long ago, or unknown.
func (s *Service) proofSince(authenticated time.Time, lifetime time.Duration) time.Time {
	now := s.store.Now()
	if authenticated.IsZero() || !lasts(authenticated, lifetime, now) {
		return time.Time{}
	}
	if authenticated.After(now) {
		return now
	}
	return authenticated
}
