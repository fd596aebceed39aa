package personaltest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

func testUpdateUser(t *testing.T, s *administrationSuite) {
	u := s.register(t)
	id := u.Credentials.UserID
	update := func(fields map[string]personal.Input) error {
		return s.administration.UpdateUser(t.Context(), personal.UpdateUserRequest{UserID: id, Fields: fields})
	}
	before := s.record(t, id)
	if err := update(nil); err != nil {
		t.Fatalf("changing nothing: %v", err)
	}
	wantFaults(t, update(map[string]personal.Input{
		"name": personal.Text("Ada"), "age": personal.Text("200"), "city": {}, "number": {Kind: personal.InputOther},
		"login": personal.Text("x"), "email": personal.Text("x@example.com"), "disabled": personal.Text("1"), "shoe_size": personal.Text("40"),
	}), personal.CodeValidationFailed, personal.FieldErrors{
		"age": personal.FieldErrorOutOfRange, "city": personal.FieldErrorRequired, "number": personal.FieldErrorInvalidType,
		"login": personal.FieldErrorReadOnly, "email": personal.FieldErrorReadOnly, "disabled": personal.FieldErrorReadOnly,
		"shoe_size": personal.FieldErrorUnknownField,
	})
	twice := map[string]personal.Input{"number": {Kind: personal.InputRepeated, List: []string{"1", "2"}}}
	wantCode(t, update(twice), personal.CodeMalformedRequest)
	if diff := cmp.Diff(before, s.record(t, id)); diff != "" {
		t.Fatalf("a refused change left a trace (-want +got):\n%s", diff)
	}

	if err := update(map[string]personal.Input{
		"name": {}, "number": personal.Text("C-1"), "note": personal.Text("pays late"), "phone": personal.Text("+371 12345"),
	}); err != nil {
		t.Fatalf("changing a user: %v", err)
	}
	s.awaitEvents(t, id, personal.EventUserUpdated)
	after := s.record(t, id)
	want := before
	want.Name, want.Updated = nil, after.Updated
	want.Fields = withValues(before.Fields, map[string]any{"number": "C-1", "note": "pays late", "phone": "+371 12345"})
	if diff := cmp.Diff(want, after); diff != "" {
		t.Fatalf("record (-want +got):\n%s", diff)
	}
	if !after.Updated.After(before.Updated) {
		t.Fatalf("updated %v, before %v", after.Updated, before.Updated)
	}
	profile, err := s.service.Profile(t.Context(), u.Credentials)
	if err != nil {
		t.Fatalf("asking for the profile: %v", err)
	}
	if diff := cmp.Diff(want.Fields[:len(want.Fields)-1], profile.Fields); diff != "" {
		t.Fatalf("as the user sees it (-want +got):\n%s", diff)
	}
}

func withValues(fields []personal.ProfileField, values map[string]any) []personal.ProfileField {
	changed := make([]personal.ProfileField, len(fields))
	for i, f := range fields {
		if v, ok := values[f.Name]; ok {
			f.Value = v
		}
		changed[i] = f
	}
	return changed
}

func testDisableUser(t *testing.T, s *administrationSuite) {
	u, other := s.register(t), s.register(t)
	id := u.Credentials.UserID
	second := s.signIn(t, u.login, Password)
	rotated, err := s.service.Refresh(t.Context(), second)
	if err != nil {
		t.Fatalf("refreshing: %v", err)
	}
	pairs := []personal.Credentials{u.Credentials, second, rotated}
	if err := s.administration.DisableUser(t.Context(), id); err != nil {
		t.Fatalf("disabling: %v", err)
	}
	wantOut(t, s, pairs)
	signIn := func(password string) error {
		_, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.login, Password: password})
		return err
	}
	wantCode(t, signIn(Password), personal.CodeAccountDisabled)
	wantCode(t, signIn("not the password"), personal.CodeInvalidCredentials)
	if record := s.record(t, id); !record.Disabled || !record.LastSeen.IsZero() {
		t.Fatalf("record of a disabled user: %+v", record.User)
	}
	if err := s.administration.DisableUser(t.Context(), id); err != nil {
		t.Fatalf("disabling again: %v", err)
	}

	if err := s.administration.EnableUser(t.Context(), id); err != nil {
		t.Fatalf("enabling: %v", err)
	}
	s.awaitEvents(t, id, personal.EventUserDisabled, personal.EventUserEnabled)
	wantOut(t, s, pairs)
	if !s.alive(t, s.signIn(t, u.login, Password)) || !s.alive(t, other.Credentials) {
		t.Fatal("a session that should live does not")
	}
	for _, e := range s.host.Events() {
		if e.UserID == id && e.Type == personal.EventSessionTheft {
			t.Fatal("a hash from before was taken for a stolen one")
		}
	}
}

// wantOut checks that the pairs are nobody's.
func wantOut(t *testing.T, s *administrationSuite, pairs []personal.Credentials) {
	t.Helper()
	for _, pair := range pairs {
		if s.alive(t, pair) {
			t.Fatal("a session is still good")
		}
		_, err := s.service.Refresh(t.Context(), pair)
		wantCode(t, err, personal.CodeUnauthenticated)
	}
}

func testDisabledTokens(t *testing.T, s *administrationSuite) {
	u := s.register(t)
	id := u.Credentials.UserID
	wantVoid := s.mailTokens(t, u)
	if err := s.administration.DisableUser(t.Context(), id); err != nil {
		t.Fatalf("disabling: %v", err)
	}
	wantVoid()
	if err := s.administration.EnableUser(t.Context(), id); err != nil {
		t.Fatalf("enabling: %v", err)
	}
	wantVoid()
	s.signIn(t, u.login, Password)
}

func testUserSessions(t *testing.T, s *administrationSuite) {
	u, other := s.register(t), s.register(t)
	id := u.Credentials.UserID
	second := s.signIn(t, u.login, Password)
	want, err := s.service.Sessions(t.Context(), second)
	if err != nil {
		t.Fatalf("listing sessions as the user: %v", err)
	}
	for i := range want {
		want[i].Current = false
	}
	got, err := s.administration.UserSessions(t.Context(), id)
	if err != nil {
		t.Fatalf("listing sessions: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != 2 {
		t.Fatalf("sessions (-want +got):\n%s", diff)
	}
	if err := s.administration.RevokeUserSessions(t.Context(), id); err != nil {
		t.Fatalf("ending sessions: %v", err)
	}
	wantOut(t, s, []personal.Credentials{u.Credentials, second})
	if got, err := s.administration.UserSessions(t.Context(), id); err != nil || len(got) != 0 {
		t.Fatalf("%d sessions are left, error %v", len(got), err)
	}
	if !s.alive(t, other.Credentials) || !s.alive(t, s.signIn(t, u.login, Password)) {
		t.Fatal("a session that should live does not")
	}
}

func testDeleteUser(t *testing.T, s *administrationSuite) {
	u, other := s.register(t), s.register(t)
	id := u.Credentials.UserID
	if err := s.service.Recover(t.Context(), personal.RecoverRequest{Login: u.login}); err != nil {
		t.Fatalf("asking for a recovery: %v", err)
	}
	token := tokenIn(t, s.mailTo(t, u.email, 1))
	if err := s.administration.DeleteUser(t.Context(), id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	s.awaitEvents(t, id, personal.EventUserDeleted)
	wantOut(t, s, []personal.Credentials{u.Credentials})
	_, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.login, Password: Password})
	wantCode(t, err, personal.CodeInvalidCredentials)
	wantCode(t, s.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
		Token: token, Password: Password + "!", ConfirmPassword: Password + "!",
	}), personal.CodeInvalidToken)
	if ids, _ := s.find(t, personal.FindUsersRequest{Search: u.email}); len(ids) > 0 {
		t.Fatalf("found %v", ids)
	}
	_, err = s.administration.User(t.Context(), id)
	wantCode(t, err, personal.CodeNotFound)
	wantCode(t, s.administration.DeleteUser(t.Context(), id), personal.CodeNotFound)

	again, err := s.service.Register(t.Context(), personal.RegisterRequest{
		Login: u.login, Password: Password, ConfirmPassword: Password, Email: u.email,
		Fields: map[string]personal.Input{"city": personal.Text("riga")},
	})
	if err != nil {
		t.Fatalf("registering with what is free again: %v", err)
	}
	if newID := again.Credentials.UserID; newID <= other.Credentials.UserID {
		t.Fatalf("id %d after %d and %d", newID, id, other.Credentials.UserID)
	}
	wantOut(t, s, []personal.Credentials{u.Credentials})
	if !s.alive(t, other.Credentials) {
		t.Fatal("somebody else was signed out")
	}
}

func testUnknownUser(t *testing.T, s *administrationSuite) {
	u := s.register(t)
	for _, id := range []int64{-1, 0, u.Credentials.UserID + 1000, 1<<53 - 1} {
		_, user := s.administration.User(t.Context(), id)
		_, sessions := s.administration.UserSessions(t.Context(), id)
		change := personal.UpdateUserRequest{UserID: id, Fields: map[string]personal.Input{"note": personal.Text("x")}}
		for operation, err := range map[string]error{
			"User":                  user,
			"UserSessions":          sessions,
			"UpdateUser":            s.administration.UpdateUser(t.Context(), change),
			"UpdateUser to nothing": s.administration.UpdateUser(t.Context(), personal.UpdateUserRequest{UserID: id}),
			"SetEmail":              s.administration.SetEmail(t.Context(), personal.SetEmailRequest{UserID: id, Email: "nobody@example.com"}),
			"SetEmail to none":      s.administration.SetEmail(t.Context(), personal.SetEmailRequest{UserID: id}),
			"DisableUser":           s.administration.DisableUser(t.Context(), id),
			"EnableUser":            s.administration.EnableUser(t.Context(), id),
			"RevokeUserSessions":    s.administration.RevokeUserSessions(t.Context(), id),
			"DeleteUser":            s.administration.DeleteUser(t.Context(), id),
		} {
			t.Run(operation, func(t *testing.T) { wantCode(t, err, personal.CodeNotFound) })
		}
	}
}
