package personaltest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// delete deletes the account of a user, as they do themselves.
func (s *suite) delete(t *testing.T, u user) (eraseAt time.Time) {
	t.Helper()
	eraseAt, err := s.service.Delete(t.Context(), personal.DeleteRequest{Credentials: u.Credentials, Password: Password})
	if err != nil {
		t.Fatalf("deleting the account: %v", err)
	}
	return eraseAt
}

// awaitErased waits until the host is notified of the user's erasure.
func (s *suite) awaitErased(t *testing.T, id int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for known := 0; ; {
		ids, err := s.host.AwaitErased(ctx, known+1)
		if err != nil {
			t.Fatalf("the host was not notified of the erasure of user %d: %v", id, err)
		}
		if known = len(ids); slices.Contains(ids, id) {
			return
		}
	}
}

func (s *suite) undo(t *testing.T, token string) (int64, error) {
	t.Helper()
	return s.service.UndoDelete(t.Context(), personal.UndoDeleteRequest{Token: token})
}

func testDelete(t *testing.T, s *suite) {
	u := s.register(t)
	other := s.signIn(t, u.login, Password)
	_, err := s.service.Delete(t.Context(), personal.DeleteRequest{Credentials: u.Credentials, Password: "not the password"})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"password": personal.FieldErrorMismatch})
	if eraseAt := s.delete(t, u); time.Until(eraseAt) < time.Hour || eraseAt.Location() != time.UTC {
		t.Errorf("got an erasure at %v, want it in 168 hours, in UTC", eraseAt)
	}
	for _, c := range []personal.Credentials{u.Credentials, other} {
		if s.alive(t, c) {
			t.Error("a session is still valid after the deletion")
		}
	}
	_, err = s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.login, Password: Password})
	wantCode(t, err, personal.CodeAccountDisabled)
	_, err = s.service.Register(t.Context(), personal.RegisterRequest{
		Login: u.login, Email: "x" + u.email, Password: Password, ConfirmPassword: Password,
		Fields: map[string]personal.Input{"city": personal.Text("riga")},
	})
	wantFieldErrors(t, err, personal.CodeAlreadyExists, personal.FieldErrors{"login": personal.FieldErrorTaken})
	_, err = s.service.Delete(t.Context(), personal.DeleteRequest{Credentials: u.Credentials, Password: Password})
	wantCode(t, err, personal.CodeUnauthenticated)
}

func testUndoDelete(t *testing.T, s *suite) {
	u := s.register(t)
	_, err := s.undo(t, "")
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"token": personal.FieldErrorRequired})
	s.delete(t, u)
	token := s.deletionToken(t, u)
	wantInvalidToken(t, s.recoverConfirm, token)
	wantInvalidToken(t, s.confirmEmail, token)
	id, err := s.undo(t, token)
	if err != nil || id != u.Credentials.UserID {
		t.Fatalf("undoing the deletion: got id %d, error %v, want id %d", id, err, u.Credentials.UserID)
	}
	s.signIn(t, u.login, Password)
	if s.alive(t, u.Credentials) {
		t.Error("a session from before the deletion is valid again")
	}
	_, err = s.undo(t, token)
	wantCode(t, err, personal.CodeInvalidToken)
}

// deletionToken returns the token of the mail about a deletion, the last one to the user.
func (s *suite) deletionToken(t *testing.T, u user) string {
	t.Helper()
	for n := 1; ; n++ {
		if m := s.mailTo(t, u.email, n); m.Subject == "Your account will be erased" {
			return tokenIn(t, m)
		}
	}
}

// An administrator's decision about a deleted account stands.
func testDeletedUsers(t *testing.T, s *administrationSuite) {
	for name, decide := range map[string]struct {
		with  func(id int64) error
		code  personal.Code // of a sign-in
		erase bool
	}{
		"disabled": {func(id int64) error { return s.administration.DisableUser(t.Context(), id) }, personal.CodeAccountDisabled, true},
		"enabled":  {func(id int64) error { return s.administration.EnableUser(t.Context(), id) }, "", false},
	} {
		u := s.register(t)
		eraseAt := s.delete(t, u)
		token := s.deletionToken(t, u)
		if err := decide.with(u.Credentials.UserID); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err := s.undo(t, token)
		wantCode(t, err, personal.CodeInvalidToken)
		_, err = s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.login, Password: Password})
		wantCode(t, err, decide.code)
		record, err := s.administration.User(t.Context(), u.Credentials.UserID)
		if err != nil || record.EraseAt.IsZero() == decide.erase || decide.erase && !record.EraseAt.Equal(eraseAt) {
			t.Errorf("%s: got an erasure at %v, error %v; want one: %t", name, record.EraseAt, err, decide.erase)
		}
	}
}
