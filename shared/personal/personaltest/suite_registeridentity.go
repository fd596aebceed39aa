package personaltest

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// visitorCall is the context of a visitor's request.
func visitorCall(t *testing.T) context.Context {
	return personal.WithCall(t.Context(), personal.Call{Address: netip.MustParseAddr("2001:db8::f:2"), Agent: "a browser"})
}

// newcomer is the request of a user who comes from a provider for the first time.
func (s *suite) newcomer() personal.RegisterIdentityRequest {
	login, email := s.newLogin()
	return personal.RegisterIdentityRequest{
		Identity: s.newIdentity(), Login: login, Email: email, Name: "Ada", Method: method, AuthenticatedAt: time.Now(),
		Fields: map[string]personal.Input{"city": personal.Text("riga")},
	}
}

// A registration by a provider is one by an identity in place of a password.
func testRegisterIdentity(t *testing.T, s *administrationSuite) {
	r := s.newcomer()
	_, err := s.administration.RegisterIdentity(t.Context(), r)
	wantCode(t, err, personal.CodeMalformedRequest) // no visitor
	ctx := visitorCall(t)
	invalid := r
	invalid.Identity, invalid.Email, invalid.Method = personal.Identity{Issuer: "i"}, "none", personal.MethodPassword
	invalid.Fields = map[string]personal.Input{"age": personal.Text("old")}
	_, err = s.administration.RegisterIdentity(ctx, invalid)
	if e, ok := asError(err); !ok || e.Code != personal.CodeValidationFailed || e.FieldErrors["identity"] == "" || e.FieldErrors["email"] == "" ||
		e.FieldErrors["method"] == "" {
		t.Errorf("got %v, want field errors of identity, email and method", err)
	}
	in, err := s.administration.RegisterIdentity(ctx, r)
	if err != nil {
		t.Fatalf("registering: %v", err)
	}
	s.wantIdentity(t, r.Identity, in.Credentials.UserID)
	s.wantUsed(t, in.Credentials.UserID, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if p := in.Profile; p.Login != r.Login || p.Email != r.Email || p.Name == nil || *p.Name != "Ada" || !p.NoPassword || p.EmailVerified {
		t.Errorf("got the profile %+v, want login, e-mail and name of the request, without a password and unverified", p)
	}
	sessions, err := s.service.Sessions(ctx, in.Credentials)
	if err != nil || len(sessions) != 1 || sessions[0].Method != method {
		t.Errorf("got the sessions %+v, %v; want one by %s", sessions, err, method)
	}
	fresh, err := s.service.ChangePassword(ctx, personal.ChangePasswordRequest{
		Credentials: in.Credentials, Proof: in.Proof.Proof, Password: Password, ConfirmPassword: Password,
	})
	if err != nil {
		t.Fatalf("setting the first password with the proof of the registration: %v", err)
	}
	if p, err := s.service.Profile(ctx, fresh); err != nil || p.NoPassword {
		t.Errorf("after the first password: got %+v, %v; want that there is one", p, err)
	}

	again := s.newcomer()
	again.Identity, again.AuthenticatedAt = r.Identity, time.Time{}
	_, err = s.administration.RegisterIdentity(ctx, again)
	taken := personal.FieldErrorTaken
	wantFieldErrors(t, err, personal.CodeAlreadyExists, personal.FieldErrors{"identity": taken})
	_, err = s.administration.RegisterIdentity(ctx, r) // a repeated request
	wantFieldErrors(t, err, personal.CodeAlreadyExists, personal.FieldErrors{"identity": taken})
	again.Identity = s.newIdentity()
	if in, err = s.administration.RegisterIdentity(ctx, again); err != nil || in.Proof != (personal.Proof{}) {
		t.Errorf("with the login of the refused registration, and an unknown time: got the proof %v, error %v; want no proof", in.Proof, err)
	}
	email := s.newcomer()
	email.Email = r.Email
	_, err = s.administration.RegisterIdentity(ctx, email)
	wantFieldErrors(t, err, personal.CodeAlreadyExists, personal.FieldErrors{"email": taken})
	s.wantIdentity(t, email.Identity, 0)
	verified := s.newcomer()
	verified.EmailVerified = true
	if in, err := s.administration.RegisterIdentity(ctx, verified); err != nil || !in.Profile.EmailVerified {
		t.Errorf("with a verified e-mail: got %+v, %v", in.Profile, err)
	}
}

// An identity of the session's account gives it a proof until it is unlinked.
func testProveIdentity(t *testing.T, s *administrationSuite) {
	ctx := visitorCall(t)
	r := s.newcomer()
	r.EmailVerified = true
	in, err := s.administration.RegisterIdentity(ctx, r)
	if err != nil {
		t.Fatalf("registering: %v", err)
	}
	another := s.newcomer()
	another.EmailVerified = true
	stranger, err := s.administration.RegisterIdentity(ctx, another)
	if err != nil {
		t.Fatalf("registering: %v", err)
	}
	now, mismatch := time.Now(), personal.FieldErrorMismatch
	for name, attempt := range map[string]struct {
		request personal.ProveIdentityRequest
		want    personal.FieldErrors
	}{
		"unknown identity":   {personal.ProveIdentityRequest{Identity: s.newIdentity(), AuthenticatedAt: now}, personal.FieldErrors{"identity": mismatch}},
		"no time":            {personal.ProveIdentityRequest{Identity: r.Identity}, personal.FieldErrors{"authenticated_at": mismatch}},
		"long ago":           {personal.ProveIdentityRequest{Identity: r.Identity, AuthenticatedAt: now.Add(-time.Hour)}, personal.FieldErrors{"authenticated_at": mismatch}},
		"another's identity": {personal.ProveIdentityRequest{Identity: r.Identity, AuthenticatedAt: now, Credentials: stranger.Credentials}, personal.FieldErrors{"identity": mismatch}},
	} {
		if attempt.request.Credentials == (personal.Credentials{}) {
			attempt.request.Credentials = in.Credentials
		}
		t.Log(name)
		_, err := s.administration.ProveIdentity(ctx, attempt.request)
		wantFieldErrors(t, err, personal.CodeValidationFailed, attempt.want)
	}
	_, err = s.administration.ProveIdentity(ctx, personal.ProveIdentityRequest{Identity: r.Identity, AuthenticatedAt: now})
	wantCode(t, err, personal.CodeUnauthenticated)

	prove := personal.ProveIdentityRequest{Credentials: in.Credentials, Identity: r.Identity, AuthenticatedAt: now}
	registered := s.wantUsed(t, in.Credentials.UserID, now.Add(-time.Hour), now.Add(time.Hour))
	p, err := s.administration.ProveIdentity(ctx, prove)
	if lifetime := p.Until.Sub(now); err != nil || lifetime < 4*time.Minute || lifetime > 6*time.Minute {
		t.Fatalf("got a proof for %v, error %v; want one for 5 minutes", lifetime, err)
	}
	s.wantUsed(t, in.Credentials.UserID, registered.Add(time.Microsecond), now.Add(time.Hour))
	export := func(proof string) error {
		_, err := s.service.Export(ctx, personal.ExportRequest{Credentials: in.Credentials, Proof: proof})
		return err
	}
	if err := export(p.Proof); err != nil {
		t.Errorf("exporting with the proof: %v", err)
	}
	s.wantProofRefused(t, "of another user's identity", stranger.Credentials, p.Proof)

	u := factorUser{user: user{r.Login, r.Email, in}}
	s.switchOnWith(t, &u, p.Proof)
	in.Credentials, prove.Credentials = u.Credentials, u.Credentials
	_, err = s.administration.ProveIdentity(ctx, prove)
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"code": personal.FieldErrorRequired})
	prove.Code = "000000"
	_, err = s.administration.ProveIdentity(ctx, prove)
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"code": mismatch})
	prove.Code = u.recoveryCode()
	if p, err = s.administration.ProveIdentity(ctx, prove); err != nil {
		t.Fatalf("proving with a code: %v", err)
	}
	in.Credentials, err = s.service.RemoveOwnTwoFactor(ctx, personal.RemoveOwnTwoFactorRequest{Credentials: in.Credentials, Proof: p.Proof})
	if err != nil {
		t.Fatalf("removing the second factor with a proof that was given by a code: %v", err)
	}
}

// A sign-out at the provider ends the sessions that it began, and no other ones.
func testEndIdentitySessions(t *testing.T, s *administrationSuite) {
	ctx := visitorCall(t)
	u, i := s.visitor(t, true)
	open := func(providerSession string) personal.Credentials {
		in, err := s.signInBy(t, personal.SignInRequest{Identity: i, Method: method, ProviderSession: providerSession})
		if err != nil {
			t.Fatalf("signing in: %v", err)
		}
		return in.Credentials
	}
	a, b := open("a"), open("b")
	end := func(i personal.Identity, providerSession string) {
		t.Helper()
		if _, err := s.administration.EndIdentitySessions(ctx, personal.EndIdentitySessionsRequest{Identity: i, ProviderSession: providerSession}); err != nil {
			t.Fatalf("ending sessions: %v", err)
		}
	}
	end(s.newIdentity(), "a")
	end(i, "c")
	end(i, "a")
	if s.alive(t, a) || !s.alive(t, b) || !s.alive(t, u.Credentials) {
		t.Error("after the end of one session at the provider: want that only it has ended")
	}
	byID, err := s.signInBy(t, personal.SignInRequest{UserID: u.Credentials.UserID, Method: method})
	if err != nil {
		t.Fatalf("signing in by id: %v", err)
	}
	end(i, "")
	if s.alive(t, b) || s.alive(t, u.Credentials) || !s.alive(t, byID.Credentials) {
		t.Error("after the end of all: want that the sessions of the identity have ended, and no other one")
	}
	long := personal.EndIdentitySessionsRequest{Identity: i, ProviderSession: string(make([]byte, personal.MaxProviderSession+1))}
	_, err = s.administration.EndIdentitySessions(ctx, long)
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"provider_session": personal.FieldErrorTooLong})
}
