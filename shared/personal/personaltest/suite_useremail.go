package personaltest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

func testSetEmail(t *testing.T, s *administrationSuite) {
	u, other := s.register(t), s.register(t)
	id := u.Credentials.UserID
	_, fresh := s.newLogin()
	wantVoid := s.mailTokens(t, u)
	before := s.record(t, id)
	s.setEmail(t, id, "Mixed.Case."+fresh)
	s.awaitEvents(t, id, personal.EventEmailChanged)
	after := s.record(t, id)
	want := before
	want.Email, want.Updated = "Mixed.Case."+fresh, after.Updated
	if diff := cmp.Diff(want, after); diff != "" {
		t.Fatalf("record (-want +got):\n%s", diff)
	}
	if !after.Updated.After(before.Updated) {
		t.Fatalf("updated %v, before %v", after.Updated, before.Updated)
	}
	wantVoid()
	s.mailTo(t, u.email, 2) // behind the recovery's: the old address is told
	if !s.alive(t, u.Credentials) {
		t.Fatal("a session ended")
	}
	s.signIn(t, strings.ToUpper("mixed.case."+fresh), Password)
	_, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.email, Password: Password})
	wantCode(t, err, personal.CodeInvalidCredentials)

	s.setEmail(t, other.Credentials.UserID, u.email) // which is free again
	s.setEmail(t, id, "")
	if got := s.record(t, id); got.Email != "" || got.Login != u.login {
		t.Fatalf("record without an e-mail: %+v", got.User)
	}
	s.setEmail(t, id, "")
	s.signIn(t, u.login, Password)
	s.setEmail(t, id, fresh)
	s.signIn(t, fresh, Password)
}

func testSetEmailFaults(t *testing.T, s *administrationSuite) {
	u, other := s.register(t), s.register(t)
	id := u.Credentials.UserID
	before := s.record(t, id)
	for _, test := range []struct {
		email string
		code  personal.Code
		fault personal.FieldErrorCode
	}{
		{"nowhere", personal.CodeValidationFailed, personal.FieldErrorInvalidFormat},
		{"a@" + strings.Repeat("x.", 130) + "example.com", personal.CodeValidationFailed, personal.FieldErrorTooLong},
		{strings.ToUpper(other.email), personal.CodeAlreadyExists, personal.FieldErrorTaken},
	} {
		err := s.administration.SetEmail(t.Context(), personal.SetEmailRequest{UserID: id, Email: test.email})
		wantFaults(t, err, test.code, personal.FieldErrors{"email": test.fault})
	}
	if diff := cmp.Diff(before, s.record(t, id)); diff != "" {
		t.Fatalf("a refused change left a trace (-want +got):\n%s", diff)
	}
}

func (s *administrationSuite) setEmail(t *testing.T, id int64, email string) {
	t.Helper()
	if err := s.administration.SetEmail(t.Context(), personal.SetEmailRequest{UserID: id, Email: email}); err != nil {
		t.Fatalf("setting an e-mail: %v", err)
	}
}

// mailTokens has a token of each purpose mailed for a user, and returns the check
// that neither is good any more.
func (s *administrationSuite) mailTokens(t *testing.T, u user) (wantVoid func()) {
	t.Helper()
	_, fresh := s.newLogin()
	if err := s.service.Recover(t.Context(), personal.RecoverRequest{Login: u.login}); err != nil {
		t.Fatalf("asking for a recovery: %v", err)
	}
	recovery := tokenIn(t, s.mailTo(t, u.email, 1))
	err := s.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{Credentials: u.Credentials, Password: Password, Email: fresh})
	if err != nil {
		t.Fatalf("asking for another e-mail: %v", err)
	}
	email := tokenIn(t, s.mailTo(t, fresh, 1))
	return func() {
		t.Helper()
		wantCode(t, s.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
			Token: recovery, Password: Password + "!", ConfirmPassword: Password + "!",
		}), personal.CodeInvalidToken)
		wantCode(t, s.service.ConfirmEmail(t.Context(), personal.ConfirmEmailRequest{Token: email}), personal.CodeInvalidToken)
	}
}
