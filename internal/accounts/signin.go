package accounts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// ModuleMethods are the methods of the sessions that the module itself opens. All other sessions
// were opened by SignIn.
var ModuleMethods = []string{personal.MethodPassword, personal.MethodPasskey, personal.MethodRegistration}

// SignIn implements [personal.Administration]. It judges like Authorize after the password. It
// starts again if the account has changed since: the host has authenticated the user, whatever
// their password is.
func (s *Service) SignIn(ctx context.Context, r personal.SignInRequest) (personal.OpenedSession, error) {
	r = personal.AsTyped(r)
	var invalid personal.FieldErrors
	if r.Identity != (personal.Identity{}) {
		if r.UserID != 0 {
			return personal.OpenedSession{}, personal.NewError(personal.CodeMalformedRequest, errors.New("both a user id and an identity"))
		}
		invalid = checkIdentity(r.Identity)
	}
	check(&invalid, "method", checkMethod(r.Method))
	if err := invalid.Err(); err != nil {
		return personal.OpenedSession{}, err
	}
	for range tries {
		in, err := s.signInUser(ctx, r)
		if !errors.Is(err, ErrStale) {
			return in, err
		}
	}
	return personal.OpenedSession{}, fail("opening a session", ErrUnavailable)
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
	case slices.Contains(ModuleMethods, method):
		return personal.FieldErrorTaken
	}
	return ""
}

// signInUser is SignIn for an account as it is now; ErrStale if that changes, or loses the identity.
func (s *Service) signInUser(ctx context.Context, r personal.SignInRequest) (personal.OpenedSession, error) {
	id := r.UserID
	if r.Identity != (personal.Identity{}) {
		var err error
		if id, err = s.FindIdentity(ctx, r.Identity); err != nil {
			return personal.OpenedSession{}, err
		}
	}
	account, err := s.store.Account(ctx, id)
	if err != nil {
		return personal.OpenedSession{}, failWith(personal.CodeNotFound, "finding an account", err)
	}
	if code := account.refusal(); code != "" {
		if err := s.charge(ctx, s.signInAccount(account.ID)); err != nil { // otherwise OpenSession charges it
			return personal.OpenedSession{}, err
		}
		s.failed(ctx, account.LoginKey, account.ID)
		return personal.OpenedSession{}, refusal(code)
	}
	var opened personal.OpenedSession
	open := func(code checkedCode) (in personal.SignedIn, err error) {
		by := signInBy{method: r.Method, identity: r.Identity, code: code}
		by.proof, opened.Proof = s.proofSince(account, r.AuthenticatedAt, code)
		in, err = s.signIn(ctx, account, by)
		if errors.Is(err, ErrStale) {
			s.refund(ctx, code.charges) // it was not used
		}
		return in, err
	}
	if !account.TwoFactor.On() || r.SecondFactorDone {
		if opened.SignedIn, err = open(checkedCode{}); err != nil {
			return personal.OpenedSession{}, err
		}
		return opened, nil
	}
	address, err := s.callersAddress(ctx, AccountQuery{LoginKey: account.LoginKey})
	if err != nil {
		return personal.OpenedSession{}, err
	}
	in, code, err := s.signInWithCode(ctx, caller{account: account}.owner(address), r.Code, open)
	if err != nil {
		return personal.OpenedSession{}, err
	}
	s.refund(ctx, code.charges)
	opened.SignedIn = in
	return opened, nil
}

// proofSince returns a proof that a user gave when they were authenticated, as it is stored and as
// they get it; none if that is too long ago, or unknown. It was given by a code only if one was
// judged here.
func (s *Service) proofSince(a Account, authenticated time.Time, code checkedCode) (Proof, personal.Proof) {
	now := s.store.Now()
	if authenticated.IsZero() || !lasts(authenticated, s.settings.ProofLifetime, now) {
		return Proof{}, personal.Proof{}
	}
	if authenticated.After(now) {
		authenticated = now
	}
	text, proof := s.newProof(a)
	proof.Created, proof.WithCode = authenticated, code.judged()
	return proof, personal.Proof{Proof: text, Until: s.provedUntil(proof)}
}
