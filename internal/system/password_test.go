package system

import "testing"

func testPassword(t *testing.T, s *system) {
	const next = "another horse 9"
	change := func(u user) params {
		return params{"old_password": u.password, "password": next, "confirm_password": next}
	}
	t.Run("what is wrong is named", func(t *testing.T) {
		u := s.newUser(t)
		with := func(name string, value any) params {
			p := change(u)
			p[name] = value
			return p
		}
		s.postAs(t, u.pair, "password/", params{}).wantFaults(t, "validation_failed",
			faults{"old_password": "required", "password": "required", "confirm_password": "required"})
		s.postAs(t, u.pair, "password/", with("old_password", "wrong wrong")).wantFaults(t, "validation_failed", faults{"old_password": "mismatch"})
		s.postAs(t, u.pair, "password/", with("confirm_password", "x")).wantFaults(t, "validation_failed", faults{"confirm_password": "mismatch"})
		for password, code := range map[string]string{"short": "too_short", "password1": "too_common", u.email: "too_common"} {
			p := change(u)
			p["password"], p["confirm_password"] = password, password
			s.postAs(t, u.pair, "password/", p).wantFaults(t, "validation_failed", faults{"password": code})
		}
		s.wantAlive(t, "the session, after refusals,", u.pair)
		s.signIn(t, u)
	})
	t.Run("success answers a fresh pair and ends all else", func(t *testing.T) {
		u := s.newUser(t)
		other := s.signIn(t, u)
		otherNext := s.getAs(t, other, "auth_refresh/").pair(t)
		fresh := s.postAs(t, u.pair, "password/", change(u)).wantData(t, "user_id", "user_hash").pair(t)
		if fresh.ID != u.ID || fresh.Hash == u.Hash {
			t.Error("the pair is not fresh")
		}
		s.wantAlive(t, "the fresh pair", fresh)
		s.wantDead(t, "the hash that changed the password", u.pair)
		s.wantDead(t, "another session", otherNext)
		s.wantDead(t, "another session's earlier hash", other)
		s.getAs(t, other, "auth_refresh/").want(t, "unauthenticated")
		s.wantAlive(t, "the fresh pair, after old hashes were shown,", fresh)
		s.post(t, "auth/", params{"login": u.login, "password": u.password}).want(t, "invalid_credentials")
		s.post(t, "auth/", params{"login": u.login, "password": next}).want(t, "")
		eventually(t, "the change's event", func() bool { return s.events(t, "password_changed", u.ID) > 0 })
		if s.events(t, "session_theft", u.ID) != 0 {
			t.Error("a hash shown after a password change raised an alarm")
		}
	})
	t.Run("success voids mailed tokens", func(t *testing.T) {
		u := s.newUser(t)
		s.post(t, "recover/", params{"login": u.login}).want(t, "")
		token := s.mailTo(t, u.email).token(t)
		s.postAs(t, u.pair, "password/", change(u)).want(t, "")
		s.post(t, "recover_confirm/", params{"token": token, "password": "third horse 10", "confirm_password": "third horse 10"}).want(t, "invalid_token")
	})
}
