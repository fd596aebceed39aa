package system

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestDatabaseOutage_IsNotAWrongPassword checks that calls during an outage get 503,
// and not the response to a wrong password or an ended session.
func TestDatabaseOutage_IsNotAWrongPassword(t *testing.T) {
	t.Parallel()
	direct := testkit.Postgres(t)
	server, err := url.Parse(direct)
	if err != nil {
		t.Fatal("the database URL cannot be read")
	}
	proxy, database := testkit.NewFaultProxy(t, direct)
	s := start(t, options{database: database, settings: cheap})
	u := s.newUser(t)
	proxy.Switch("") // new connections are refused
	proxy.Cut()
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

	proxy.Switch(server.Host)
	eventually(t, "calls are served again", func() bool { return s.do(t, calls["a valid session"]).Success == 1 })
	s.signIn(t, u)
}
