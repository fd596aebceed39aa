package personaltest

import (
	"context"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// prove returns a proof of the session's user.
func (s *suite) prove(t *testing.T, c personal.Credentials, code string) string {
	t.Helper()
	p, err := s.service.Prove(t.Context(), personal.ProveRequest{Credentials: c, Password: Password, Code: code})
	if err != nil {
		t.Fatalf("proving: %v", err)
	}
	return p.Proof
}

// evidence is what shows that a request is the user's.
type evidence struct{ password, code, proof string }

// provenOperations are the operations that take a proof, with valid parameters otherwise, in an
// order in which one session can call them. Each but the first needs a second factor; the last ends
// all sessions. An operation may return new credentials.
func (s *suite) provenOperations() []provenOperation {
	none := func(err error) (personal.Credentials, error) { return personal.Credentials{}, err }
	return []provenOperation{
		{"BeginTwoFactor", func(ctx context.Context, c personal.Credentials, e evidence) (personal.Credentials, error) {
			_, err := s.service.BeginTwoFactor(ctx, personal.BeginTwoFactorRequest{Credentials: c, Password: e.password, Proof: e.proof})
			return none(err)
		}},
		{"ChangePassword", func(ctx context.Context, c personal.Credentials, e evidence) (personal.Credentials, error) {
			return s.service.ChangePassword(ctx, personal.ChangePasswordRequest{
				Credentials: c, OldPassword: e.password, Code: e.code, Proof: e.proof, Password: Password + "!", ConfirmPassword: Password + "!",
			})
		}},
		{"ChangeEmail", func(ctx context.Context, c personal.Credentials, e evidence) (personal.Credentials, error) {
			_, email := s.newLogin()
			return none(s.service.ChangeEmail(ctx, personal.ChangeEmailRequest{
				Credentials: c, Email: email, Password: e.password, Code: e.code, Proof: e.proof,
			}))
		}},
		{"Export", func(ctx context.Context, c personal.Credentials, e evidence) (personal.Credentials, error) {
			_, err := s.service.Export(ctx, personal.ExportRequest{Credentials: c, Password: e.password, Code: e.code, Proof: e.proof})
			return none(err)
		}},
		{"RenewRecoveryCodes", func(ctx context.Context, c personal.Credentials, e evidence) (personal.Credentials, error) {
			_, err := s.service.RenewRecoveryCodes(ctx, personal.RenewRecoveryCodesRequest{
				Credentials: c, Password: e.password, Code: e.code, Proof: e.proof,
			})
			return none(err)
		}},
		{"RemoveOwnTwoFactor", func(ctx context.Context, c personal.Credentials, e evidence) (personal.Credentials, error) {
			return s.service.RemoveOwnTwoFactor(ctx, personal.RemoveOwnTwoFactorRequest{Credentials: c, Password: e.password, Code: e.code,
				Proof: e.proof})
		}},
		{"Delete", func(ctx context.Context, c personal.Credentials, e evidence) (personal.Credentials, error) {
			_, err := s.service.Delete(ctx, personal.DeleteRequest{Credentials: c, Password: e.password, Code: e.code, Proof: e.proof})
			return none(err)
		}},
	}
}

type provenOperation struct {
	name string
	call func(context.Context, personal.Credentials, evidence) (personal.Credentials, error)
}

// wantProofRefused checks that no operation accepts a proof.
func (s *suite) wantProofRefused(t *testing.T, why string, c personal.Credentials, proof string) {
	t.Helper()
	for _, o := range s.provenOperations() {
		_, err := o.call(t.Context(), c, evidence{proof: proof})
		got := personal.FieldErrors(nil)
		if e, ok := asError(err); ok {
			got = e.FieldErrors
		}
		if personal.CodeOf(err) != personal.CodeValidationFailed || len(got) != 1 || got["proof"] != personal.FieldErrorMismatch {
			t.Errorf("%s with a proof %s: got %v, want the field error mismatch of proof", o.name, why, err)
		}
	}
}

func testProve(t *testing.T, s *suite) {
	u := s.enrol(t)
	required, mismatch := personal.FieldErrorRequired, personal.FieldErrorMismatch
	for _, attempt := range []struct {
		request personal.ProveRequest
		want    personal.FieldErrors
	}{
		{personal.ProveRequest{}, personal.FieldErrors{"password": required, "code": required}},
		{personal.ProveRequest{Password: Password}, personal.FieldErrors{"code": required}},
		{personal.ProveRequest{Password: Password, Code: u.used}, personal.FieldErrors{"code": mismatch}},
		{personal.ProveRequest{Password: "not the password", Code: u.code()}, personal.FieldErrors{"password": mismatch}},
		{personal.ProveRequest{Attempt: "a", Credential: "{}"}, personal.FieldErrors{"credential": mismatch}},
		{personal.ProveRequest{Attempt: "a"}, personal.FieldErrors{"credential": required}},
		{personal.ProveRequest{Credential: "{}"}, personal.FieldErrors{"attempt": required}},
		{personal.ProveRequest{Credential: "{}", Password: Password}, personal.FieldErrors{"attempt": required, "credential": mismatch}},
		{personal.ProveRequest{Password: Password, Code: u.code(), Attempt: "a", Credential: "{}"}, personal.FieldErrors{"credential": mismatch}},
	} {
		attempt.request.Credentials = u.Credentials
		_, err := s.service.Prove(t.Context(), attempt.request)
		wantFieldErrors(t, err, personal.CodeValidationFailed, attempt.want)
	}
	before := time.Now()
	code := u.code()
	p, err := s.service.Prove(t.Context(), personal.ProveRequest{Credentials: u.Credentials, Password: Password, Code: code})
	if lifetime := p.Until.Sub(before); err != nil || len(p.Proof) != 43 || lifetime < 4*time.Minute || lifetime > 6*time.Minute {
		t.Fatalf("got a proof of %d characters for %v, error %v; want one of 43 for 5 minutes", len(p.Proof), lifetime, err)
	}
	_, err = s.service.Prove(t.Context(), personal.ProveRequest{Credentials: u.Credentials, Password: Password, Code: code})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"code": mismatch}) // it is used up
	if other := s.prove(t, s.register(t).Credentials, ""); other == p.Proof {
		t.Error("two users got the same proof")
	}
	if !s.alive(t, u.Credentials) {
		t.Error("proving has ended the session")
	}
}

// A proof stands for password and code, more than once; without them and without it, all is as before.
func testProofOperations(t *testing.T, s *suite) {
	ctx := t.Context()
	u := factorUser{user: s.verified(t)}
	proof := s.prove(t, u.Credentials, "")
	for _, o := range s.provenOperations() {
		if o.name == "ChangePassword" { // from here on there is a second factor
			s.switchOn(t, &u)
			proof = s.prove(t, u.Credentials, u.recoveryCode())
		}
		// Only who has the proof gets any further, also while the user has just proved.
		_, err := o.call(ctx, u.Credentials, evidence{})
		if e, ok := asError(err); !ok || e.Code != personal.CodeValidationFailed || e.FieldErrors["proof"] != "" || len(e.FieldErrors) == 0 {
			t.Errorf("%s without evidence: got %v, want field errors of password and code", o.name, err)
		}
		c, err := o.call(ctx, u.Credentials, evidence{password: "ignored", code: "ignored", proof: proof})
		if err != nil {
			t.Fatalf("%s: %v", o.name, err)
		}
		if c.UserID != 0 { // the credentials are new, and the proof is void
			u.Credentials = c
			s.wantProofRefused(t, "from before "+o.name, c, proof)
			if o.name == "ChangePassword" {
				p, err := s.service.Prove(ctx, personal.ProveRequest{Credentials: c, Password: Password + "!", Code: u.recoveryCode()})
				if err != nil {
					t.Fatalf("proving with the new password: %v", err)
				}
				proof = p.Proof
			} else {
				p, err := s.service.Prove(ctx, personal.ProveRequest{Credentials: c, Password: Password + "!"})
				if err != nil {
					t.Fatalf("proving without a second factor: %v", err)
				}
				proof = p.Proof
			}
		}
	}
}

func testProofMismatch(t *testing.T, s *suite) {
	ctx := t.Context()
	u, other := s.verified(t), s.verified(t)
	second := s.signIn(t, u.login, Password)
	proof := s.prove(t, u.Credentials, "")
	s.wantProofRefused(t, "that is made up", u.Credentials, "proof")
	s.wantProofRefused(t, "that is no proof", u.Credentials, u.Credentials.UserHash)
	s.wantProofRefused(t, "of another session", second, proof)
	s.wantProofRefused(t, "of another user", other.Credentials, proof)
	s.wantProofRefused(t, "with another case", u.Credentials, swapCase(proof))

	_, err := s.service.ChangePassword(ctx, personal.ChangePasswordRequest{
		Credentials: u.Credentials, Proof: "proof", OldPassword: Password, Password: "short", ConfirmPassword: "shorter",
		FieldErrors: personal.FieldErrors{"old_password": personal.FieldErrorInvalidType, "code": personal.FieldErrorInvalidType},
	})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{
		"proof": personal.FieldErrorMismatch, "password": personal.FieldErrorTooShort, "confirm_password": personal.FieldErrorMismatch,
	})
	refreshed, err := s.service.Refresh(ctx, u.Credentials)
	if err != nil {
		t.Fatalf("refreshing: %v", err)
	}
	export := func(c personal.Credentials, proof string) error {
		_, err := s.service.Export(ctx, personal.ExportRequest{Credentials: c, Proof: proof})
		return err
	}
	if err := export(refreshed, proof); err != nil {
		t.Errorf("after a refresh: %v", err)
	}
	later := s.prove(t, refreshed, "")
	s.wantProofRefused(t, "that another has replaced", refreshed, proof)

	_, email := s.newLogin()
	if err := s.service.ChangeEmail(ctx, personal.ChangeEmailRequest{Credentials: refreshed, Email: email, Proof: later}); err != nil {
		t.Fatalf("requesting an e-mail change: %v", err)
	}
	if err := export(refreshed, later); err != nil {
		t.Errorf("after an operation with the same proof: %v", err)
	}
	if _, err := s.confirmEmail(ctx, tokenIn(t, s.mailTo(t, email, 1))); err != nil {
		t.Fatalf("confirming the e-mail: %v", err)
	}
	s.wantProofRefused(t, "for the former e-mail", refreshed, later)

	proof = s.prove(t, refreshed, "")
	pair, err := s.service.ChangePassword(ctx, personal.ChangePasswordRequest{
		Credentials: second, OldPassword: Password, Password: Password + "!", ConfirmPassword: Password + "!",
	})
	if err != nil {
		t.Fatalf("changing the password: %v", err)
	}
	wantCode(t, export(refreshed, proof), personal.CodeUnauthenticated)
	s.wantProofRefused(t, "of a session that has ended", pair, proof)
	_, err = s.service.ConfirmTwoFactor(ctx, personal.ConfirmTwoFactorRequest{Credentials: pair})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"code": personal.FieldErrorRequired})
}

// The proof of a sign-in is that of its session until it ends. Operations that ask for a code again refuse it, and
// judge no code beside it.
func testProofOfSignIn(t *testing.T, s *suite) {
	ctx := t.Context()
	registered := s.register(t)
	u := s.enrol(t)
	in, err := s.authorize(t, u.login, Password, u.recoveryCode())
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	for way, in := range map[string]personal.SignedIn{"registration": registered.SignedIn, "password and code": in} {
		lifetime := time.Until(in.Proof.Until)
		if len(in.Proof.Proof) != 43 || lifetime < 4*time.Minute || lifetime > 6*time.Minute {
			t.Errorf("%s: got a proof of %d characters for %v; want one of 43 for 5 minutes", way, len(in.Proof.Proof), lifetime)
		}
		if in.Profile.NoPassword {
			t.Errorf("%s: the user has no password, want one", way)
		}
		export := personal.ExportRequest{Credentials: in.Credentials, Proof: in.Proof.Proof}
		if _, err := s.service.Export(ctx, export); err != nil {
			t.Errorf("exporting with the proof of a %s: %v", way, err)
		}
	}
	code := u.recoveryCode()
	mismatch := personal.FieldErrors{"proof": personal.FieldErrorMismatch}
	_, err = s.service.RenewRecoveryCodes(ctx, personal.RenewRecoveryCodesRequest{Credentials: in.Credentials, Proof: in.Proof.Proof, Code: code})
	wantFieldErrors(t, err, personal.CodeValidationFailed, mismatch)
	remove := personal.RemoveOwnTwoFactorRequest{Credentials: in.Credentials, Proof: in.Proof.Proof, Password: Password, Code: code}
	_, err = s.service.RemoveOwnTwoFactor(ctx, remove)
	wantFieldErrors(t, err, personal.CodeValidationFailed, mismatch)
	s.wantProofRefused(t, "of a sign-in, in another session", u.Credentials, in.Proof.Proof)
	s.wantProofRefused(t, "of another user's registration", u.Credentials, registered.Proof.Proof)
	remove.Proof = ""
	if _, err = s.service.RemoveOwnTwoFactor(ctx, remove); err != nil {
		t.Errorf("with the code that was beside the proof: %v", err)
	}
}

// swapCase returns a text with the case of its first letter changed.
func swapCase(text string) string {
	for i := range text {
		if c := text[i] ^ ' '; 'a' <= c|' ' && c|' ' <= 'z' {
			return text[:i] + string(c) + text[i+1:]
		}
	}
	return text
}
