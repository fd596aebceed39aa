package system

import (
	"crypto/rand"
	"maps"
	"strings"
	"testing"
)

// user is somebody registered.
type user struct {
	login, email, password string
	pair
}

// unique returns a login that nobody has.
func unique() string { return "u" + strings.ToLower(rand.Text()[:12]) }

// applicant returns what somebody new sends to register, with changes.
func applicant(changes params) params {
	login := unique()
	p := params{"login": login, "email": login + "@mail.example", "password": "correct horse 7", "confirm_password": "correct horse 7"}
	maps.Copy(p, changes)
	return p
}

// newUser registers somebody.
func (s *system) newUser(t testing.TB) user {
	t.Helper()
	p := applicant(nil)
	a := s.post(t, "register/", p)
	return user{login: p["login"].(string), email: p["email"].(string), password: p["password"].(string), pair: a.pair(t)}
}

// signIn opens another session.
func (s *system) signIn(t testing.TB, u user) pair {
	t.Helper()
	return s.post(t, "auth/", params{"login": u.login, "password": u.password}).pair(t)
}

// wantAlive expects that the pair identifies its user.
func (s *system) wantAlive(t testing.TB, what string, p pair) {
	t.Helper()
	if a := s.getAs(t, p, "profile/"); a.Success != 1 {
		t.Fatalf("%s is not accepted: %s", what, a.Raw)
	}
}

// wantDead expects that the pair identifies nobody.
func (s *system) wantDead(t testing.TB, what string, p pair) {
	t.Helper()
	if a := s.getAs(t, p, "profile/"); a.Result.Code != "unauthenticated" {
		t.Fatalf("%s is still accepted: %s", what, a.Raw)
	}
}
