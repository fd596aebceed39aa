package system

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"
)

func testAuth(t *testing.T, s *system) {
	u := s.newUser(t)
	t.Run("data is user_id, user_hash and user_profile", func(t *testing.T) {
		a := s.post(t, "auth/", params{"login": u.login, "password": u.password}).wantData(t, "user_id", "user_hash", "user_profile")
		id, err := strconv.ParseInt(string(a.Data["user_id"]), 10, 64)
		if err != nil || id != u.ID || id < 1 || id >= 1<<53 {
			t.Errorf("user_id is %s", a.Data["user_id"])
		}
		p := a.pair(t)
		if raw, err := base64.RawURLEncoding.Strict().DecodeString(p.Hash); err != nil || len(raw) != 32 || p.Hash == u.Hash {
			t.Errorf("user_hash is not 32 new bytes in base64url: %d bytes, %v", len(raw), err)
		}
		if profile := a.profile(t); profile["login"] != u.login || profile["email"] != u.email || profile["name"] != nil {
			t.Errorf("user_profile is %v", profile)
		}
	})
	t.Run("the login is matched in its mapped form, the e-mail in any case", func(t *testing.T) {
		for _, login := range []string{strings.ToUpper(u.login), u.email, strings.ToUpper(u.email), fullWidth(u.login)} {
			s.post(t, "auth/", params{"login": login, "password": u.password}).want(t, "")
		}
	})
	t.Run("one answer for an unknown login and a wrong password", func(t *testing.T) {
		wrong := s.post(t, "auth/", params{"login": u.login, "password": "wrong password"}).want(t, "invalid_credentials")
		for _, p := range []params{
			{"login": unique(), "password": u.password},
			{"login": unique() + "@mail.example", "password": u.password},
			{"login": u.email, "password": "wrong password"},
			{"login": u.login, "password": strings.ToUpper(u.password)},
			{"login": u.login, "password": u.password + " "},
			{"login": "?", "password": u.password},
			{"login": strings.Repeat("x", 3000), "password": u.password},
			{"login": u.login, "password": strings.Repeat("x", 30_000)},
		} {
			if a := s.post(t, "auth/", p); string(a.Raw) != string(wrong.Raw) {
				t.Errorf("sign-in of %.40v answers %s, want %s", p["login"], a.Raw, wrong.Raw)
			}
		}
	})
	t.Run("forms do as well as JSON", func(t *testing.T) {
		s.do(t, call{path: "auth/", form: map[string][]string{"login": {u.login}, "password": {u.password}}}).want(t, "")
	})
	t.Run("a refresh answers user_id and a new user_hash, by GET and POST", func(t *testing.T) {
		p := s.signIn(t, u)
		first := s.getAs(t, p, "auth_refresh/").wantData(t, "user_id", "user_hash").pair(t)
		second := s.postAs(t, first, "auth_refresh/", nil).wantData(t, "user_id", "user_hash").pair(t)
		if first == p || second == first || second.ID != u.ID {
			t.Error("the hash is not new")
		}
		s.wantAlive(t, "the newest hash", second)
	})
}

// fullWidth writes Latin letters in their full-width forms.
func fullWidth(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'ａ'
		}
		return r
	}, s)
}
