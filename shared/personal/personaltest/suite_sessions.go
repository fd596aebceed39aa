package personaltest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

func testAuthorize(t *testing.T, s *suite) {
	u := s.register(t)
	for _, login := range []string{u.login, strings.ToUpper(u.login), u.email, strings.ToUpper(u.email)} {
		in, err := s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: Password})
		if err != nil {
			t.Fatalf("signing in as %q: %v", login, err)
		}
		if in.Credentials.UserID != u.Credentials.UserID || in.Credentials.UserHash == u.Credentials.UserHash {
			t.Fatalf("signing in as %q: got %v, want a new session of user %d", login, in.Credentials.UserID, u.Credentials.UserID)
		}
		if diff := cmp.Diff(u.Profile, in.Profile); diff != "" {
			t.Fatalf("profile (-want +got):\n%s", diff)
		}
	}
	if !s.alive(t, u.Credentials) {
		t.Fatal("signing in ended an earlier session")
	}
}

func testInvalidCredentials(t *testing.T, s *suite) {
	u := s.register(t)
	for name, r := range map[string]personal.AuthorizeRequest{
		"wrong password":      {Login: u.login, Password: "wrong horse battery"},
		"unknown login":       {Login: "nobody-at-all", Password: Password},
		"unknown e-mail":      {Login: "nobody@example.com", Password: Password},
		"impossible login":    {Login: "a\x00b", Password: Password},
		"impossible password": {Login: u.login, Password: strings.Repeat("x", 5000)},
		"very long login":     {Login: strings.Repeat("x", 5000), Password: Password},
	} {
		_, err := s.service.Authorize(t.Context(), r)
		t.Run(name, func(t *testing.T) { wantFieldErrors(t, err, personal.CodeInvalidCredentials, nil) })
	}
}

func testUnauthenticated(t *testing.T, s *suite) {
	u := s.register(t)
	other := s.register(t)
	flipped := []byte(u.Credentials.UserHash)
	flipped[20] ^= 1
	for name, c := range map[string]personal.Credentials{
		"none":              {},
		"another user's id": {UserID: other.Credentials.UserID, UserHash: u.Credentials.UserHash},
		"changed hash":      {UserID: u.Credentials.UserID, UserHash: string(flipped)},
		"shortened hash":    {UserID: u.Credentials.UserID, UserHash: u.Credentials.UserHash[:42]},
	} {
		t.Run(name, func(t *testing.T) {
			for _, o := range personal.Operations() {
				if !o.Credentials {
					continue
				}
				err := callAs(t.Context(), s.service, o.Name, c)
				t.Run(string(o.Name), func(t *testing.T) { wantFieldErrors(t, err, personal.CodeUnauthenticated, nil) })
			}
		})
	}
	if !s.alive(t, u.Credentials) {
		t.Fatal("an invalid hash ended a session")
	}
}

func testRefresh(t *testing.T, s *suite) {
	u := s.register(t)
	first, err := s.service.Refresh(t.Context(), u.Credentials)
	if err != nil {
		t.Fatalf("refreshing: %v", err)
	}
	if first == u.Credentials || first.UserID != u.Credentials.UserID {
		t.Fatal("got the same hash or another user, want a rotated hash")
	}
	again, err := s.service.Refresh(t.Context(), u.Credentials)
	if err != nil {
		t.Fatalf("refreshing with the superseded hash: %v", err)
	}
	if again != first {
		t.Fatal("got another hash from a repeated refresh, want the same")
	}
	second, err := s.service.Refresh(t.Context(), first)
	if err != nil {
		t.Fatalf("refreshing again: %v", err)
	}
	for _, old := range []personal.Credentials{u.Credentials, first} {
		if current, err := s.service.Refresh(t.Context(), old); err != nil || current != second {
			t.Fatalf("refreshing within the grace period: got another hash or error %v, want the current hash", err)
		}
	}
}

func testRefreshRace(t *testing.T, s *suite) {
	u := s.register(t)
	type result struct {
		c   personal.Credentials
		err error
	}
	results := together(32, func(int) result {
		c, err := s.service.Refresh(t.Context(), u.Credentials)
		return result{c, err}
	})
	for _, r := range results {
		if r.err != nil {
			t.Fatalf("refreshing: %v", r.err)
		}
		if r.c != results[0].c {
			t.Fatal("got two new hashes, want one")
		}
	}
	if !s.alive(t, results[0].c) || !s.alive(t, u.Credentials) {
		t.Fatal("concurrent refreshes ended the session")
	}
}

func testChangePassword(t *testing.T, s *suite) {
	u := s.register(t)
	other := s.signIn(t, u.login, Password)
	const fresh = "a wholly new password"
	_, err := s.service.ChangePassword(t.Context(), personal.ChangePasswordRequest{
		Credentials: u.Credentials, OldPassword: "not the old one", Password: "short", ConfirmPassword: "shorter",
	})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{
		"old_password": personal.FieldErrorMismatch, "password": personal.FieldErrorTooShort, "confirm_password": personal.FieldErrorMismatch,
	})
	pair, err := s.service.ChangePassword(t.Context(), personal.ChangePasswordRequest{
		Credentials: u.Credentials, OldPassword: Password, Password: fresh, ConfirmPassword: fresh,
	})
	if err != nil {
		t.Fatalf("changing the password: %v", err)
	}
	if !s.alive(t, pair) {
		t.Fatal("the new credentials are invalid")
	}
	if s.alive(t, other) || s.alive(t, u.Credentials) {
		t.Fatal("a hash from before the password change is still valid")
	}
	if !s.alive(t, pair) {
		t.Fatal("using the old hash ended the session")
	}
	_, err = s.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: u.login, Password: Password})
	wantCode(t, err, personal.CodeInvalidCredentials)
	s.signIn(t, u.login, fresh)
}

func testLogout(t *testing.T, s *suite) {
	u := s.register(t)
	second, third := s.signIn(t, u.login, Password), s.signIn(t, u.login, Password)
	if err := s.service.Logout(t.Context(), personal.LogoutRequest{Credentials: second}); err != nil {
		t.Fatalf("signing out: %v", err)
	}
	if s.alive(t, second) || !s.alive(t, third) || !s.alive(t, u.Credentials) {
		t.Fatal("signing out did not end exactly one session")
	}
	if err := s.service.Logout(t.Context(), personal.LogoutRequest{Credentials: third, All: true}); err != nil {
		t.Fatalf("signing out everywhere: %v", err)
	}
	if s.alive(t, third) || s.alive(t, u.Credentials) {
		t.Fatal("a session is still valid after signing out everywhere")
	}
}

func testSessions(t *testing.T, s *suite) {
	u := s.register(t)
	second := s.signIn(t, u.login, Password)
	sessions, err := s.service.Sessions(t.Context(), second)
	if err != nil {
		t.Fatalf("listing sessions: %v", err)
	}
	if len(sessions) != 2 {
		t.Fatalf("got %d sessions, want 2", len(sessions))
	}
	var first personal.Session
	current := 0
	for _, session := range sessions {
		if session.Current {
			current++
			continue
		}
		first = session
	}
	if current != 1 {
		t.Fatalf("got %d current sessions, want 1", current)
	}
	if !first.Expires.After(first.Created) || first.LastSeen.Before(first.Created) {
		t.Fatalf("got created %v, last seen %v, expires %v; want them in this order", first.Created, first.LastSeen, first.Expires)
	}
	other := s.register(t)
	for _, r := range []personal.RevokeSessionRequest{
		{Credentials: other.Credentials, ID: first.ID},
		{Credentials: second, ID: "999999999"},
		{Credentials: second, ID: "no id at all"},
		{Credentials: second, ID: "0" + first.ID},
		{Credentials: second, ID: "+" + first.ID},
	} {
		if err := s.service.RevokeSession(t.Context(), r); err != nil {
			t.Fatalf("revoking an unknown session: %v", err)
		}
	}
	if !s.alive(t, u.Credentials) {
		t.Fatal("a session was revoked by another user, or by what is not its id")
	}
	if err := s.service.RevokeSession(t.Context(), personal.RevokeSessionRequest{Credentials: second, ID: first.ID}); err != nil {
		t.Fatalf("revoking a session: %v", err)
	}
	if s.alive(t, u.Credentials) || !s.alive(t, second) {
		t.Fatal("revoking did not end exactly one session")
	}
	err = s.service.RevokeSession(t.Context(), personal.RevokeSessionRequest{Credentials: second})
	wantFieldErrors(t, err, personal.CodeValidationFailed, personal.FieldErrors{"id": personal.FieldErrorRequired})
	t.Run("all others", func(t *testing.T) { testRevokeOtherSessions(t, s) })
}

func testRevokeOtherSessions(t *testing.T, s *suite) {
	u, stranger := s.register(t), s.register(t)
	second, third := s.signIn(t, u.login, Password), s.signIn(t, u.login, Password)
	for range 2 { // it may be repeated
		if err := s.service.RevokeOtherSessions(t.Context(), second); err != nil {
			t.Fatalf("revoking all other sessions: %v", err)
		}
	}
	if s.alive(t, u.Credentials) || s.alive(t, third) || !s.alive(t, second) || !s.alive(t, stranger.Credentials) {
		t.Fatal("revoking all other sessions did not end exactly those of the account")
	}
	wantCode(t, s.service.RevokeOtherSessions(t.Context(), third), personal.CodeUnauthenticated)
}
