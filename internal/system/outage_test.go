package system

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// outages returns a new database, and a function that begins or ends an outage of it.
func outages(t *testing.T) (database string, set func(out bool)) {
	t.Helper()
	direct := testkit.Postgres(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal("the database URL cannot be read")
	}
	proxy, database := testkit.NewFaultProxy(t, direct)
	return database, func(out bool) {
		if !out {
			proxy.Switch(u.Host)
			return
		}
		proxy.Switch("")
		proxy.Cut()
	}
}

// TestDatabaseOutage_IsNotAWrongPassword checks that calls during an outage get 503,
// and not the response to a wrong password or an ended session.
func TestDatabaseOutage_IsNotAWrongPassword(t *testing.T) {
	t.Parallel()
	database, outage := outages(t)
	s := start(t, options{database: database, settings: cheap})
	u := s.newUser(t)
	outage(true)
	calls := map[string]call{
		"a valid session":    {method: http.MethodGet, path: "profile/", as: u.pair},
		"a refresh":          {method: http.MethodGet, path: "auth_refresh/", as: u.pair},
		"an unknown session": {method: http.MethodGet, path: "profile/", as: pair{u.ID, flip(u.Hash, 0)}},
		"a correct password": {path: "auth/", params: params{"login": u.login, "password": u.password}},
		"a wrong password":   {path: "auth/", params: params{"login": u.login, "password": "wrong wrong"}},
		"an unknown login":   {path: "auth/", params: params{"login": unique(), "password": "wrong wrong"}},
		"a registration":     {path: "register/", params: applicant(nil)},
		"a recovery":         {path: "recover/", params: params{"login": u.login}},
		"a mailed token":     {path: "email_confirm/", params: params{"token": u.Hash}},
		"a page of the host": {method: http.MethodGet, path: "/demo/greeting", as: u.pair},
	}
	for name, c := range calls {
		if r := s.do(t, c); r.Result.Code != "unavailable" {
			t.Errorf("%s: got %d %s, want CODE unavailable", name, r.Status, r.Raw)
		}
	}
	if got := s.status("/healthz"); got != http.StatusOK {
		t.Errorf("/healthz: got %d, want 200", got)
	}
	s.do(t, call{path: "nope/"}).want(t, "not_found")

	outage(false)
	eventually(t, "calls are served again", func() bool { return s.do(t, calls["a valid session"]).Success == 1 })
	s.signIn(t, u)
}

// TestDatabaseOutage_AtStart checks that the host starts during an outage, reports it,
// and serves after it.
func TestDatabaseOutage_AtStart(t *testing.T) {
	t.Parallel()
	database, outage := outages(t)
	outage(true)
	s := launch(t, options{database: database, settings: cheap})
	s.awaitURL(t, options{})
	s.do(t, call{path: "auth/", params: params{"login": "anna", "password": "whatever it is"}}).want(t, "unavailable")
	if got := s.status("/readyz"); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz: got %d, want 503", got)
	}
	outage(false)
	eventually(t, "/readyz responds with 200", func() bool { return s.status("/readyz") == http.StatusOK })
	s.newUser(t)
}
