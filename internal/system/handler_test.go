package system

import (
	"net/http"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// app is an origin that hosts allow by --cors-origin.
const app = "https://app.example"

// TestHandlerOptions checks that flags and settings reach the HTTP handler and the
// plugin. What each option does is tested in personalhttp and internal/accounts.
func TestHandlerOptions(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testdb.SQLite(t), basePath: "/cms/site", settings: cheap + unthrottled + "[login]\nwith_email = false\n",
		flags: []string{"--cors-origin", app, "--cors-origin", "http://localhost:3000", "--locale", "ru",
			"--trusted-proxy", "127.0.0.1/32", "--trusted-proxy", "10.0.0.0/8", "--forwarded-header", "forwarded"}})
	t.Run("base path", func(t *testing.T) {
		u := s.newUser(t)
		s.post(t, "auth", params{"login": u.login, "password": u.password}).want(t, "")
		s.do(t, call{path: "/cms/site/api/v1/personal//auth/"}).want(t, "not_found")
		for _, outside := range []string{"/api/v1/personal/auth/", "/cms/api/v1/personal/auth/"} {
			if got, _ := s.web(t, http.MethodPost, outside, ""); got.StatusCode != http.StatusNotFound {
				t.Errorf("POST %s: got %d, want 404", outside, got.StatusCode)
			}
		}
	})
	t.Run("default locale", func(t *testing.T) {
		if r := s.do(t, call{path: "auth/"}); !isCyrillic(r.Result.Message) {
			t.Errorf("got message %q, want it in Russian", r.Result.Message)
		}
		if r := s.do(t, call{path: "auth/", header: http.Header{"Accept-Language": {"en"}}}); isCyrillic(r.Result.Message) {
			t.Errorf("got message %q, want it in English", r.Result.Message)
		}
	})
	t.Run("login by e-mail off", func(t *testing.T) {
		u := s.newUser(t)
		s.post(t, "auth/", params{"login": u.email, "password": u.password}).want(t, "invalid_credentials")
	})
	t.Run("client address of Forwarded", func(t *testing.T) {
		testClientAddress(t, s, [4]string{"127.0.0.1", "127.0.0.1", "2001:db8::7", "198.51.100.7"})
	})
	t.Run("CORS origins", func(t *testing.T) {
		for origin, want := range map[string]string{app: app, "http://localhost:3000": "http://localhost:3000",
			"https://evil.example": "", app + ".evil.example": "", app + ":444": "", "null": ""} {
			for _, path := range []string{"fields/", "profile/", "nope/"} { // success, 401 and 404
				r := s.do(t, call{method: http.MethodGet, path: path, header: http.Header{"Origin": {origin}}})
				if got := r.Header.Get("Access-Control-Allow-Origin"); got != want {
					t.Errorf("GET %s from %s: got Access-Control-Allow-Origin %q, want %q", path, origin, got, want)
				}
			}
		}
	})
}

// A host without optional flags trusts no proxy, prints no link and offers no profiles.
func TestHost_DefaultFlags(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testdb.SQLite(t), settings: cheap + unthrottled})
	t.Run("client address", func(t *testing.T) {
		testClientAddress(t, s, [4]string{"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"})
	})
	t.Run("cookies do not follow the scheme", func(t *testing.T) { testProxyScheme(t, s, false) })
	t.Run("loopback name of the admin pages", func(t *testing.T) { testLoopbackName(t, s) })
	t.Run("no link to the admin pages is printed without a terminal", func(t *testing.T) { testNoAdminLink(t, s) })
	t.Run("no profiles are offered", func(t *testing.T) { testNoProfiles(t, s) })
}

// testClientAddress checks the address of the session that a sign-in opens (HTTP contract,
// section 5): without a header, with each, and with both.
func testClientAddress(t *testing.T, s *system, want [4]string) {
	u := s.newUser(t)
	for i, header := range []http.Header{
		nil,
		{"X-Forwarded-For": {"192.0.2.1, 203.0.113.9, 10.1.2.3"}},
		{"Forwarded": {`for=192.0.2.1, For="[2001:db8::7]:4711";by=10.0.0.1, for=10.9.9.9`}},
		{"X-Forwarded-For": {"203.0.113.9"}, "Forwarded": {"for=198.51.100.7"}},
	} {
		p := s.do(t, call{path: "auth/", header: header, params: params{"login": u.login, "password": u.password}}).pair(t)
		if got := s.currentSession(t, p).Address; got != want[i] {
			t.Errorf("%v: got address %s, want %s", header, got, want[i])
		}
	}
}
