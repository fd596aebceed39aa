package personaltest

import (
	"slices"
	"strings"
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
	wantFieldErrors(t, update(map[string]personal.Input{
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
		t.Fatalf("record after a rejected change (-want +got):\n%s", diff)
	}

	if err := update(map[string]personal.Input{
		"name": {}, "number": personal.Text("C-1"), "note": personal.Text("pays late"), "phone": personal.Text("+371 12345"),
	}); err != nil {
		t.Fatalf("changing a user: %v", err)
	}
	updated := s.awaitEvents(t, id, personal.EventUserUpdated)[0]
	if diff := cmp.Diff([]string{"name", "note", "number", "phone"}, updated.Fields); diff != "" {
		t.Errorf("fields of the event (-want +got):\n%s", diff)
	}
	after := s.record(t, id)
	want := before
	want.Name, want.Updated = nil, after.Updated
	want.Fields = withValues(before.Fields, map[string]any{"number": "C-1", "note": "pays late", "phone": "+371 12345"})
	if diff := cmp.Diff(want, after); diff != "" {
		t.Fatalf("record (-want +got):\n%s", diff)
	}
	if !after.Updated.After(before.Updated) {
		t.Fatalf("got updated %v, want later than %v", after.Updated, before.Updated)
	}
	if _, err := s.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{Credentials: u.Credentials,
		Fields: map[string]personal.Input{
			"name": {}, "phone": personal.Text("+371 12345"), // as they are: no event
		}}); err != nil {
		t.Fatalf("changing nothing of a profile: %v", err)
	}
	if _, err := s.service.UpdateProfile(t.Context(), personal.UpdateProfileRequest{Credentials: u.Credentials,
		Fields: map[string]personal.Input{
			"name": personal.Text("Ada"), "phone": personal.Text("+371 12345"), "age": personal.Text("41"),
		}}); err != nil {
		t.Fatalf("changing a profile: %v", err)
	}
	changed := s.awaitEvents(t, id, personal.EventProfileUpdated)[0]
	if diff := cmp.Diff([]string{"age", "name"}, changed.Fields); diff != "" || changed.Actor != personal.ActorUser {
		t.Errorf("got an event by %q; its fields (-want +got):\n%s", changed.Actor, diff)
	}
	entries, _ := s.audit(t, personal.AuditEntriesRequest{UserID: id, Type: personal.EventProfileUpdated})
	if diff := cmp.Diff([]personal.Event{changed}, entries); diff != "" {
		t.Errorf("audit entries (-published +got):\n%s", diff)
	}
	after = s.record(t, id)
	want.Name, want.Updated, want.Fields = after.Name, after.Updated, withValues(want.Fields, map[string]any{"age": int64(41)})
	profile, err := s.service.Profile(t.Context(), u.Credentials)
	if err != nil {
		t.Fatalf("reading the profile: %v", err)
	}
	if diff := cmp.Diff(want.Fields[:len(want.Fields)-1], profile.Fields); diff != "" {
		t.Fatalf("profile (-want +got):\n%s", diff)
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
	wantSignedOut(t, s, pairs)
	signIn := func(password string) error {
		_, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.login, Password: password})
		return err
	}
	wantCode(t, signIn(Password), personal.CodeAccountDisabled)
	wantCode(t, signIn("not the password"), personal.CodeInvalidCredentials)
	if record := s.record(t, id); !record.Disabled || !record.LastSeen.IsZero() {
		t.Fatalf("got record %+v, want disabled and never seen", record.User)
	}
	if err := s.administration.DisableUser(t.Context(), id); err != nil {
		t.Fatalf("disabling again: %v", err)
	}

	if err := s.administration.EnableUser(t.Context(), id); err != nil {
		t.Fatalf("enabling: %v", err)
	}
	s.awaitEvents(t, id, personal.EventUserDisabled, personal.EventUserEnabled)
	wantSignedOut(t, s, pairs)
	if !s.alive(t, s.signIn(t, u.login, Password)) || !s.alive(t, other.Credentials) {
		t.Fatal("a session that should be valid is not")
	}
	for _, e := range s.host.Events() {
		if e.UserID == id && e.Type == personal.EventSessionTheft {
			t.Fatal("a hash from before the disabling counted as stolen")
		}
	}
}

// wantSignedOut checks that the credentials are invalid.
func wantSignedOut(t *testing.T, s *administrationSuite, pairs []personal.Credentials) {
	t.Helper()
	for _, pair := range pairs {
		if s.alive(t, pair) {
			t.Fatal("a session is still valid")
		}
		_, err := s.service.Refresh(t.Context(), pair)
		wantCode(t, err, personal.CodeUnauthenticated)
	}
}

func testDisabledTokens(t *testing.T, s *administrationSuite) {
	u := s.register(t)
	id := u.Credentials.UserID
	wantInvalid := s.mailTokens(t, u)
	if err := s.administration.DisableUser(t.Context(), id); err != nil {
		t.Fatalf("disabling: %v", err)
	}
	wantInvalid()
	if err := s.administration.EnableUser(t.Context(), id); err != nil {
		t.Fatalf("enabling: %v", err)
	}
	wantInvalid()
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
	third := s.signIn(t, u.login, Password)
	latest, err := s.administration.UserSessions(t.Context(), id)
	if err != nil || len(latest) != 3 {
		t.Fatalf("got %d sessions, error %v; want 3", len(latest), err)
	}
	is := func(other personal.Session) func(personal.Session) bool {
		return func(one personal.Session) bool { return one.ID == other.ID }
	}
	for _, one := range latest {
		if slices.ContainsFunc(got, is(one)) {
			continue
		}
		if err := s.administration.RevokeUserSession(t.Context(), personal.RevokeUserSessionRequest{UserID: id, ID: one.ID}); err != nil {
			t.Fatalf("revoking a session: %v", err)
		}
	}
	wantSignedOut(t, s, []personal.Credentials{third})
	if err := s.administration.RevokeUserSessions(t.Context(), id); err != nil {
		t.Fatalf("revoking sessions: %v", err)
	}
	wantSignedOut(t, s, []personal.Credentials{u.Credentials, second})
	s.awaitEvents(t, id, personal.EventUserSignedOut)
	if got, err := s.administration.UserSessions(t.Context(), id); err != nil || len(got) != 0 {
		t.Fatalf("got %d sessions, error %v; want none", len(got), err)
	}
	if !s.alive(t, other.Credentials) || !s.alive(t, s.signIn(t, u.login, Password)) {
		t.Fatal("a session that should be valid is not")
	}
}

func testDeleteUser(t *testing.T, s *administrationSuite) {
	u, other := s.register(t), s.register(t)
	id := u.Credentials.UserID
	if err := s.service.Recover(t.Context(), personal.RecoverRequest{Login: u.login}); err != nil {
		t.Fatalf("requesting a recovery: %v", err)
	}
	token := tokenIn(t, s.mailTo(t, u.email, 1))
	if err := s.administration.DeleteUser(t.Context(), id); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	s.awaitEvents(t, id, personal.EventUserDeleted)
	s.awaitErased(t, id)
	wantSignedOut(t, s, []personal.Credentials{u.Credentials})
	_, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.login, Password: Password})
	wantCode(t, err, personal.CodeInvalidCredentials)
	wantInvalidToken(t, s.recoverConfirm, token)
	if ids, _ := s.find(t, personal.FindUsersRequest{Search: u.email}); len(ids) > 0 {
		t.Fatalf("found %v, want none", ids)
	}
	_, err = s.administration.User(t.Context(), id)
	wantCode(t, err, personal.CodeNotFound)
	wantCode(t, s.administration.DeleteUser(t.Context(), id), personal.CodeNotFound)

	again, err := s.service.Register(t.Context(), personal.RegisterRequest{
		Login: u.login, Password: Password, ConfirmPassword: Password, Email: u.email,
		Fields: map[string]personal.Input{"city": personal.Text("riga")},
	})
	if err != nil {
		t.Fatalf("registering the deleted user's login and e-mail: %v", err)
	}
	if newID := again.Credentials.UserID; newID <= other.Credentials.UserID {
		t.Fatalf("got id %d, want one above %d", newID, other.Credentials.UserID)
	}
	wantSignedOut(t, s, []personal.Credentials{u.Credentials})
	if !s.alive(t, other.Credentials) {
		t.Fatal("another user was signed out")
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
			"RevokeUserSession":     s.administration.RevokeUserSession(t.Context(), personal.RevokeUserSessionRequest{UserID: id, ID: "1"}),
			"DeleteUser":            s.administration.DeleteUser(t.Context(), id),
		} {
			t.Run(operation, func(t *testing.T) { wantCode(t, err, personal.CodeNotFound) })
		}
	}
}

func testSetEmail(t *testing.T, s *administrationSuite) {
	u, other := s.register(t), s.register(t)
	id := u.Credentials.UserID
	_, fresh := s.newLogin()
	wantInvalid := s.mailTokens(t, u)
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
		t.Fatalf("got updated %v, want later than %v", after.Updated, before.Updated)
	}
	wantInvalid()
	s.mailTo(t, u.email, 2) // after the recovery's: the old address gets a notice
	if !s.alive(t, u.Credentials) {
		t.Fatal("a session ended")
	}
	s.signIn(t, strings.ToUpper("mixed.case."+fresh), Password)
	_, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.email, Password: Password})
	wantCode(t, err, personal.CodeInvalidCredentials)

	s.setEmail(t, other.Credentials.UserID, u.email) // which is available again
	s.setEmail(t, id, "")
	if got := s.record(t, id); got.Email != "" || got.Login != u.login {
		t.Fatalf("got record %+v, want no e-mail and login %s", got.User, u.login)
	}
	s.setEmail(t, id, "")
	s.signIn(t, u.login, Password)
	s.setEmail(t, id, fresh)
	s.signIn(t, fresh, Password)
}

func testSetInvalidEmail(t *testing.T, s *administrationSuite) {
	u, other := s.register(t), s.register(t)
	id := u.Credentials.UserID
	before := s.record(t, id)
	for _, test := range []struct {
		email string
		code  personal.Code
		want  personal.FieldErrorCode
	}{
		{"nowhere", personal.CodeValidationFailed, personal.FieldErrorInvalidFormat},
		{"a@" + strings.Repeat("x.", 130) + "example.com", personal.CodeValidationFailed, personal.FieldErrorTooLong},
		{strings.ToUpper(other.email), personal.CodeAlreadyExists, personal.FieldErrorTaken},
	} {
		err := s.administration.SetEmail(t.Context(), personal.SetEmailRequest{UserID: id, Email: test.email})
		wantFieldErrors(t, err, test.code, personal.FieldErrors{"email": test.want})
	}
	if diff := cmp.Diff(before, s.record(t, id)); diff != "" {
		t.Fatalf("record after a rejected change (-want +got):\n%s", diff)
	}
}

func (s *administrationSuite) setEmail(t *testing.T, id int64, email string) {
	t.Helper()
	if err := s.administration.SetEmail(t.Context(), personal.SetEmailRequest{UserID: id, Email: email}); err != nil {
		t.Fatalf("setting an e-mail: %v", err)
	}
}

// mailTokens requests a mailed token of each purpose for a user. It returns a function
// that checks that both are invalid.
func (s *administrationSuite) mailTokens(t *testing.T, u user) (wantInvalid func()) {
	t.Helper()
	_, fresh := s.newLogin()
	if err := s.service.Recover(t.Context(), personal.RecoverRequest{Login: u.login}); err != nil {
		t.Fatalf("requesting a recovery: %v", err)
	}
	recovery := tokenIn(t, s.mailTo(t, u.email, 1))
	err := s.service.ChangeEmail(t.Context(), personal.ChangeEmailRequest{Credentials: u.Credentials, Password: Password, Email: fresh})
	if err != nil {
		t.Fatalf("requesting an e-mail change: %v", err)
	}
	email := tokenIn(t, s.mailTo(t, fresh, 1))
	return func() {
		t.Helper()
		wantInvalidToken(t, s.recoverConfirm, recovery)
		wantInvalidToken(t, s.confirmEmail, email)
	}
}
