package accounts

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/personal"
)

// registerIdentityLimit limits the registrations of one identity, and where it is tried who has it.
var registerIdentityLimit = throttle.Limit{Burst: 30, Every: 2 * time.Minute, Name: "register_identity"}

// RegisterIdentity implements [personal.Administration].
func (s *Service) RegisterIdentity(ctx context.Context, r personal.RegisterIdentityRequest) (personal.SignedIn, error) {
	r = personal.AsTyped(r)
	if call := personal.CallFrom(ctx); call.Administrator == "" && !call.Shared && !call.Address.IsValid() {
		return personal.SignedIn{}, personal.NewError(personal.CodeMalformedRequest, errors.New("the call has no address of a visitor"))
	}
	schema, err := s.userFields(ctx)
	if err != nil {
		return personal.SignedIn{}, err
	}
	fields := maps.Clone(r.Fields)
	if name := personal.Text(r.Name); !name.IsZero() {
		if fields == nil {
			fields = map[string]personal.Input{}
		}
		fields["name"] = name
	}
	if err := schema.Check(fields); err != nil {
		return personal.SignedIn{}, err
	}
	var invalid personal.FieldErrors
	if len(checkIdentity(r.Identity)) > 0 {
		invalid.Add("identity", personal.FieldErrorInvalidFormat)
	}
	checkOrigin(&invalid, r.Method, r.ProviderSession)
	account := s.newAccount(ctx, personal.RegisterRequest{Login: r.Login, Email: r.Email, Fields: fields}, schema, &invalid)
	account.PasswordHash, account.EmailVerified = password.Unusable, r.EmailVerified
	waits := s.verificationRequired() && !r.EmailVerified
	limit := s.limit(registerIdentityLimit, "register", r.Identity.Issuer, r.Identity.Subject)
	if err := s.mayRegister(ctx, account, invalid, waits, limit...); err != nil {
		return personal.SignedIn{}, err
	}
	if waits {
		return personal.SignedIn{}, s.registerUnverified(ctx, account, r.Identity)
	}
	session, secret := s.newSession(ctx, 0, r.Method)
	session.Identity, session.ProviderSession = r.Identity, r.ProviderSession
	account.Created, account.Updated = session.Created, session.Created
	var proof personal.Proof
	if given := s.proofSince(r.AuthenticatedAt, s.signInProofLifetime()); !given.IsZero() {
		session.Proof, proof = s.signInProof(account, given)
	}
	account.ID, err = s.store.CreateWithIdentity(ctx, account, r.Identity, &session,
		func(id int64) []NewJob { return s.registered(ctx, id) }, s.takenEmail(ctx, false)...)
	if err != nil {
		return personal.SignedIn{}, s.notCreated(ctx, err)
	}
	if personal.CallFrom(ctx).Administrator == "" {
		s.addKnownAddress(ctx, account.ID, true)
	}
	in := s.signedIn(account, session, secret, schema)
	in.Proof = proof
	return in, nil
}

// notCreated ends a registration that was not stored.
func (s *Service) notCreated(ctx context.Context, err error) error {
	if errors.Is(err, ErrIdentityTaken) {
		return &personal.Error{Code: personal.CodeAlreadyExists, FieldErrors: personal.FieldErrors{"identity": personal.FieldErrorTaken}}
	}
	return s.notStored(ctx, "creating an account", err)
}

// ProveIdentity implements [personal.Administration].
func (s *Service) ProveIdentity(ctx context.Context, r personal.ProveIdentityRequest) (personal.Proof, error) {
	r = personal.AsTyped(r)
	who, err := s.identifyWrite(ctx, r.Credentials, WholeAccount)
	if err != nil {
		return personal.Proof{}, err
	}
	var invalid personal.FieldErrors
	owner, err := s.store.FindIdentity(ctx, r.Identity)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return personal.Proof{}, fail("finding an identity", err)
	}
	if owner != who.account.ID {
		invalid.Add("identity", personal.FieldErrorMismatch)
	}
	given := s.proofSince(r.AuthenticatedAt, s.settings.ProofLifetime)
	if given.IsZero() {
		invalid.Add("authenticated_at", personal.FieldErrorMismatch)
	}
	e := evidence{code: r.Code}
	requireCode(&invalid, who.account, e)
	if err := invalid.Err(); err != nil {
		return personal.Proof{}, err
	}
	address, err := s.callersAddress(ctx, AccountQuery{LoginKey: who.account.LoginKey})
	if err != nil {
		return personal.Proof{}, err
	}
	code, err := s.confirmCode(ctx, who, address, e)
	if err != nil {
		return personal.Proof{}, err
	}
	text, proof := newProof(who.account, given)
	proof.WithCode, proof.Identity = code.judged(), r.Identity
	err = s.store.SetProof(ctx, who.account.ID, who.session.ID, proof, code.use, PasskeyUse{}, code.jobs...)
	if err := s.authorized(ctx, code, "storing a proof", err); err != nil {
		return personal.Proof{}, err
	}
	return personal.Proof{Proof: text, Until: given.Add(s.settings.ProofLifetime).UTC()}, nil
}

// EndIdentitySessions implements [personal.Administration].
func (s *Service) EndIdentitySessions(ctx context.Context, r personal.EndIdentitySessionsRequest) (userID int64, err error) {
	invalid := checkIdentity(r.Identity)
	if len(r.ProviderSession) > personal.MaxProviderSession {
		invalid.Add("provider_session", personal.FieldErrorTooLong)
	}
	if err := invalid.Err(); err != nil {
		return 0, err
	}
	userID, err = s.store.EndIdentitySessions(ctx, r.Identity, r.ProviderSession, func(id int64) []NewJob {
		return []NewJob{s.event(ctx, personal.ActorAdministrator, personal.EventUserSignedOut, id)}
	})
	if errors.Is(err, ErrNotFound) { // an identity that is not linked has no sessions
		return 0, nil
	}
	return userID, s.committed(personal.CodeNotFound, "ending the sessions of an identity", err)
}
