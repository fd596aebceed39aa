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
			t.Fatalf("signing in as %q did not open a session of its own", login)
		}
		if diff := cmp.Diff(u.Profile, in.Profile); diff != "" {
			t.Fatalf("profile (-want +got):\n%s", diff)
		}
	}
	if !s.alive(t, u.Credentials) {
		t.Fatal("a sign-in ended an earlier session")
	}
}

func testInvalidCredentials(t *testing.T, s *suite) {
	u := s.register(t)
	for name, r := range map[string]personal.AuthorizeRequest{
		"wrong password":          {Login: u.login, Password: "wrong horse battery"},
		"unknown login":           {Login: "nobody-at-all", Password: Password},
		"unknown e-mail":          {Login: "nobody@example.com", Password: Password},
		"what can be no login":    {Login: "a\x00b", Password: Password},
		"what can be no password": {Login: u.login, Password: strings.Repeat("x", 5000)},
		"a login of great length": {Login: strings.Repeat("x", 5000), Password: Password},
	} {
		_, err := s.service.Authorize(t.Context(), r)
		t.Run(name, func(t *testing.T) { wantFaults(t, err, personal.CodeInvalidCredentials, nil) })
	}
}

func testUnauthenticated(t *testing.T, s *suite) {
	u := s.register(t)
	other := s.register(t)
	flipped := []byte(u.Credentials.UserHash)
	flipped[20] ^= 1
	for name, c := range map[string]personal.Credentials{
		"nothing":          {},
		"another's id":     {UserID: other.Credentials.UserID, UserHash: u.Credentials.UserHash},
		"a changed hash":   {UserID: u.Credentials.UserID, UserHash: string(flipped)},
		"a shortened hash": {UserID: u.Credentials.UserID, UserHash: u.Credentials.UserHash[:42]},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			for operation, call := range map[string]func() error{
				"Refresh": func() error { _, err := s.service.Refresh(ctx, c); return err },
				"Profile": func() error { _, err := s.service.Profile(ctx, c); return err },
				"UpdateProfile": func() error {
					_, err := s.service.UpdateProfile(ctx, personal.UpdateProfileRequest{Credentials: c})
					return err
				},
				"ChangePassword": func() error {
					_, err := s.service.ChangePassword(ctx, personal.ChangePasswordRequest{Credentials: c})
					return err
				},
				"ChangeEmail":   func() error { return s.service.ChangeEmail(ctx, personal.ChangeEmailRequest{Credentials: c}) },
				"Logout":        func() error { return s.service.Logout(ctx, personal.LogoutRequest{Credentials: c}) },
				"Sessions":      func() error { _, err := s.service.Sessions(ctx, c); return err },
				"RevokeSession": func() error { return s.service.RevokeSession(ctx, personal.RevokeSessionRequest{Credentials: c}) },
			} {
				err := call()
				t.Run(operation, func(t *testing.T) { wantFaults(t, err, personal.CodeUnauthenticated, nil) })
			}
		})
	}
	if !s.alive(t, u.Credentials) {
		t.Fatal("a forged hash ended a session")
	}
}

func testRefresh(t *testing.T, s *suite) {
	u := s.register(t)
	first, err := s.service.Refresh(t.Context(), u.Credentials)
	if err != nil {
		t.Fatalf("refreshing: %v", err)
	}
	if first == u.Credentials || first.UserID != u.Credentials.UserID {
		t.Fatal("the refresh did not rotate")
	}
	again, err := s.service.Refresh(t.Context(), u.Credentials)
	if err != nil {
		t.Fatalf("refreshing with the hash before: %v", err)
	}
	if again != first {
		t.Fatal("a repeated refresh answered another hash")
	}
	second, err := s.service.Refresh(t.Context(), first)
	if err != nil {
		t.Fatalf("refreshing again: %v", err)
	}
	for _, old := range []personal.Credentials{u.Credentials, first} {
		if newest, err := s.service.Refresh(t.Context(), old); err != nil || newest != second {
			t.Fatalf("a hash from within the grace does not answer the newest: %v", err)
		}
	}
}

func testRefreshRace(t *testing.T, s *suite) {
	u := s.register(t)
	type answer struct {
		c   personal.Credentials
		err error
	}
	answers := together(32, func(int) answer {
		c, err := s.service.Refresh(t.Context(), u.Credentials)
		return answer{c, err}
	})
	for _, a := range answers {
		if a.err != nil {
			t.Fatalf("a refresh failed: %v", a.err)
		}
		if a.c != answers[0].c {
			t.Fatal("two successors of one hash")
		}
	}
	if !s.alive(t, answers[0].c) || !s.alive(t, u.Credentials) {
		t.Fatal("the client was logged out")
	}
}

func testChangePassword(t *testing.T, s *suite) {
	u := s.register(t)
	other := s.signIn(t, u.login, Password)
	const fresh = "a wholly new password"
	_, err := s.service.ChangePassword(t.Context(), personal.ChangePasswordRequest{
		Credentials: u.Credentials, OldPassword: "not the old one", Password: "short", ConfirmPassword: "shorter",
	})
	wantFaults(t, err, personal.CodeValidationFailed, personal.FieldErrors{
		"old_password": personal.FieldErrorMismatch, "password": personal.FieldErrorTooShort, "confirm_password": personal.FieldErrorMismatch,
	})
	pair, err := s.service.ChangePassword(t.Context(), personal.ChangePasswordRequest{
		Credentials: u.Credentials, OldPassword: Password, Password: fresh, ConfirmPassword: fresh,
	})
	if err != nil {
		t.Fatalf("changing the password: %v", err)
	}
	if !s.alive(t, pair) {
		t.Fatal("the fresh pair is refused")
	}
	if s.alive(t, other) || s.alive(t, u.Credentials) {
		t.Fatal("an old hash outlived the password")
	}
	if !s.alive(t, pair) {
		t.Fatal("showing the old hash ended the session")
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
		t.Fatal("signing out of one session did not end that one alone")
	}
	if err := s.service.Logout(t.Context(), personal.LogoutRequest{Credentials: third, All: true}); err != nil {
		t.Fatalf("signing out everywhere: %v", err)
	}
	if s.alive(t, third) || s.alive(t, u.Credentials) {
		t.Fatal("a session outlived signing out everywhere")
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
		t.Fatalf("%d sessions, want 2", len(sessions))
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
		t.Fatalf("%d sessions are the current one", current)
	}
	if !first.Expires.After(first.Created) || first.LastSeen.Before(first.Created) {
		t.Fatalf("created %v, last seen %v, expires %v", first.Created, first.LastSeen, first.Expires)
	}
	stranger := s.register(t)
	for _, r := range []personal.RevokeSessionRequest{
		{Credentials: stranger.Credentials, ID: first.ID},
		{Credentials: second, ID: "999999999"},
		{Credentials: second, ID: "no id at all"},
	} {
		if err := s.service.RevokeSession(t.Context(), r); err != nil {
			t.Fatalf("revoking what is not his: %v", err)
		}
	}
	if !s.alive(t, u.Credentials) {
		t.Fatal("a stranger revoked a session")
	}
	if err := s.service.RevokeSession(t.Context(), personal.RevokeSessionRequest{Credentials: second, ID: first.ID}); err != nil {
		t.Fatalf("revoking a session: %v", err)
	}
	if s.alive(t, u.Credentials) || !s.alive(t, second) {
		t.Fatal("revoking a session did not end that one alone")
	}
	err = s.service.RevokeSession(t.Context(), personal.RevokeSessionRequest{Credentials: second})
	wantFaults(t, err, personal.CodeValidationFailed, personal.FieldErrors{"id": personal.FieldErrorRequired})
}
