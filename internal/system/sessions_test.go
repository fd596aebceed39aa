package system

import (
	"net/http"
	"testing"
	"time"
)

// session is a row of sessions/.
type session struct {
	ID       string    `json:"id"`
	Created  time.Time `json:"created"`
	LastSeen time.Time `json:"last_seen"`
	Expires  time.Time `json:"expires"`
	Address  string    `json:"address"`
	Agent    string    `json:"agent"`
	Current  bool      `json:"current"`
}

func (s *system) sessions(t testing.TB, as pair) []session {
	t.Helper()
	var list []session
	s.getAs(t, as, "sessions/").wantData(t, "sessions").read(t, "sessions", &list)
	return list
}

// current returns the id of the session that asks.
func (s *system) current(t testing.TB, as pair) string {
	t.Helper()
	id := ""
	for _, session := range s.sessions(t, as) {
		if session.Current {
			if id != "" {
				t.Fatal("two sessions are current")
			}
			id = session.ID
		}
	}
	if id == "" {
		t.Fatal("no session is current")
	}
	return id
}

func testSessions(t *testing.T, s *system) {
	t.Run("sessions/ lists them", func(t *testing.T) { testSessionList(t, s) })
	t.Run("logout ends this session and no other", func(t *testing.T) {
		u := s.newUser(t)
		other := s.signIn(t, u)
		next := s.getAs(t, u.pair, "auth_refresh/").pair(t)
		s.postAs(t, next, "logout/", params{}).wantData(t)
		s.wantDead(t, "a hash after logout", next)
		s.wantDead(t, "an earlier hash after logout", u.pair)
		s.postAs(t, next, "logout/", params{}).want(t, "unauthenticated")
		s.wantAlive(t, "another session", other)
	})
	t.Run("logout of all ends every session", func(t *testing.T) {
		for _, all := range []any{true, "true", "1", "on"} {
			u, bystander := s.newUser(t), s.newUser(t)
			other := s.signIn(t, u)
			s.postAs(t, u.pair, "logout/", params{"all": all}).wantData(t)
			s.wantDead(t, "the session that asked", u.pair)
			s.wantDead(t, "another session", other)
			s.wantAlive(t, "another account's session", bystander.pair)
		}
	})
	t.Run("logout with all=false ends this session alone", func(t *testing.T) {
		u := s.newUser(t)
		other := s.signIn(t, u)
		s.postAs(t, u.pair, "logout/", params{"all": "maybe"}).wantFaults(t, "validation_failed", faults{"all": "invalid_type"})
		s.do(t, call{path: "logout/", as: u.pair, form: map[string][]string{"all": {"off"}}}).want(t, "")
		s.wantDead(t, "the session that asked", u.pair)
		s.wantAlive(t, "another session", other)
	})
	t.Run("sessions_revoke ends one session", func(t *testing.T) { testRevoke(t, s) })
	t.Run("the 101st session costs the longest unused", func(t *testing.T) {
		u := s.newUser(t)
		second := s.signIn(t, u)
		var last pair
		for range 98 {
			last = s.signIn(t, u)
		}
		if n := len(s.sessions(t, last)); n != 100 {
			t.Fatalf("there are %d sessions, want 100", n)
		}
		last = s.signIn(t, u)
		s.wantDead(t, "the first of 101 sessions", u.pair)
		s.wantAlive(t, "the second of 101 sessions", second)
		if n := len(s.sessions(t, last)); n != 100 {
			t.Errorf("there are %d sessions, want 100", n)
		}
	})
	t.Run("nothing of this was an alarm", func(t *testing.T) {
		u := s.newUser(t)
		s.getAs(t, u.pair, "auth_refresh/").want(t, "")
		s.postAs(t, u.pair, "logout/", params{"all": true}).want(t, "")
		s.wantDead(t, "a hash after logout", u.pair)
		s.signIn(t, u) // the event of this one comes behind any alarm
		eventually(t, "the sign-in's event", func() bool { return s.events(t, "signed_in", u.ID) > 0 })
		if s.events(t, "session_theft", u.ID) != 0 {
			t.Error("a hash shown after logout raised an alarm")
		}
	})
}

func testSessionList(t *testing.T, s *system) {
	before := time.Now().Add(-time.Minute)
	u := s.newUser(t)
	signIn := call{path: "auth/", params: params{"login": u.login, "password": u.password}, header: http.Header{"User-Agent": {"Browser/1.0"}}}
	second := s.do(t, signIn).pair(t)
	a := s.getAs(t, second, "sessions/")
	var members []map[string]any
	a.read(t, "sessions", &members)
	for _, m := range members {
		for _, name := range []string{"created", "last_seen", "expires"} {
			if text, _ := m[name].(string); len(text) == 0 || text[len(text)-1] != 'Z' {
				t.Errorf("%s is %v, want RFC 3339 in UTC", name, m[name])
			}
		}
		if len(m) != 7 {
			t.Errorf("a session has %v", m)
		}
	}
	list := s.sessions(t, second)
	for _, again := range s.sessions(t, second) {
		for _, once := range list {
			if once.ID == again.ID && once.LastSeen != again.LastSeen {
				t.Errorf("last_seen was written twice within a minute: %v, %v", once.LastSeen, again.LastSeen)
			}
		}
	}
	if len(list) != 2 {
		t.Fatalf("there are %d sessions", len(list))
	}
	for _, session := range list {
		if session.Current != (session.Agent == "Browser/1.0") {
			t.Errorf("%+v is not rightly current", session)
		}
		if session.ID == "" || session.Address != "127.0.0.1" || session.Created.Before(before) ||
			session.LastSeen.Before(session.Created) || !session.Expires.After(session.LastSeen.Add(23*time.Hour)) {
			t.Errorf("the session is %+v", session)
		}
	}
}

func testRevoke(t *testing.T, s *system) {
	u, stranger := s.newUser(t), s.newUser(t)
	other := s.signIn(t, u)
	id, strangers := s.current(t, other), s.current(t, stranger.pair)
	s.postAs(t, u.pair, "sessions_revoke/", params{}).wantFaults(t, "validation_failed", faults{"id": "required"})
	done := s.postAs(t, u.pair, "sessions_revoke/", params{"id": id}).wantData(t)
	s.wantDead(t, "a revoked session", other)
	for _, unknown := range []string{id, strangers, "999999999", "0", "-1", "nonsense"} {
		if a := s.postAs(t, u.pair, "sessions_revoke/", params{"id": unknown}); string(a.Raw) != string(done.Raw) {
			t.Errorf("revoking %q answers %s, want %s", unknown, a.Raw, done.Raw)
		}
	}
	s.wantAlive(t, "a stranger's session", stranger.pair)
	s.postAs(t, u.pair, "sessions_revoke/", params{"id": s.current(t, u.pair)}).want(t, "")
	s.wantDead(t, "the session that revoked itself", u.pair)
}
