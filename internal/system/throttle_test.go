package system

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// from makes a call come from an address, told by a trusted proxy.
func from(address string) http.Header { return http.Header{"X-Forwarded-For": {address}} }

// TestThrottling guesses passwords under the default limits. Each subtest comes
// from an address of its own.
func TestThrottling(t *testing.T) {
	t.Parallel()
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap, flags: []string{"--trusted-proxy", "127.0.0.0/8"}})
		t.Run("guesses at an account", func(t *testing.T) { testGuesses(t, s) })
		t.Run("the same for an unknown login", func(t *testing.T) {
			known, unknown := s.newUser(t), unique()
			a := s.guess(t, call{path: "auth/", header: from("192.0.2.2"), params: params{"login": known.login, "password": "wrong wrong"}}, "invalid_credentials")
			b := s.guess(t, call{path: "auth/", header: from("192.0.2.3"), params: params{"login": unknown, "password": "wrong wrong"}}, "invalid_credentials")
			if a != b {
				t.Errorf("a known login is throttled after %d guesses, an unknown one after %d", a, b)
			}
		})
		t.Run("guesses at old_password and at the password for a new address", func(t *testing.T) {
			wrong := params{"old_password": "wrong wrong", "password": recovered, "confirm_password": recovered}
			u := s.newUser(t)
			s.guess(t, call{path: "password/", as: u.pair, header: from("192.0.2.4"), params: wrong}, "validation_failed")
			both := params{"old_password": u.password, "password": "short", "confirm_password": "other"} // 429 before 422
			s.do(t, call{path: "password/", as: u.pair, header: from("192.0.2.4"), params: both}).want(t, "too_many_attempts")
			s.do(t, call{path: "auth/", header: from("192.0.2.4"), params: params{"login": u.login, "password": u.password}}).want(t, "too_many_attempts")
			u = s.newUser(t)
			s.guess(t, call{path: "email/", as: u.pair, header: from("192.0.2.5"),
				params: params{"password": "wrong wrong", "email": unique() + "@mail.example"}}, "validation_failed")
			s.wantAlive(t, "the session, while guessing is throttled,", u.pair)
		})
		t.Run("IPv6 by /64", func(t *testing.T) {
			u := s.newUser(t)
			attempt := params{"login": u.login, "password": "wrong wrong"}
			s.guess(t, call{path: "auth/", header: from("2001:db8:1:2::1"), params: attempt}, "invalid_credentials")
			s.do(t, call{path: "auth/", header: from("2001:db8:1:2:ffff::9"), params: attempt}).want(t, "too_many_attempts")
			s.do(t, call{path: "auth/", header: from("2001:db8:1:3::1"), params: attempt}).want(t, "invalid_credentials")
		})
		t.Run("mail is limited to one a minute all the same", func(t *testing.T) {
			u, last := s.newUser(t), s.newUser(t)
			for range 3 {
				s.post(t, "recover/", params{"login": u.login}).want(t, "")
			}
			s.post(t, "recover/", params{"login": last.login}).want(t, "")
			s.mailTo(t, last.email)
			if n := len(s.mailsTo(t, u.email)); n != 1 {
				t.Errorf("%d mails went out", n)
			}
		})
	})
}

// guess repeats a wrong call until it is throttled, and returns how often it was
// answered with the given CODE before.
func (s *system) guess(t testing.TB, c call, code string) int {
	t.Helper()
	for i := range 200 {
		a := s.do(t, c)
		if a.Result.Code == "too_many_attempts" {
			if i == 0 {
				t.Fatal("the first guess is throttled")
			}
			return i
		}
		a.want(t, code)
	}
	t.Fatal("200 guesses are not throttled")
	return 0
}

// TestForgedAddressesChangeNothing: nobody is listed as a proxy, so what a client
// says about addresses is not believed.
func TestForgedAddressesChangeNothing(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testkit.SQLite(t), settings: cheap})
	u := s.newUser(t)
	judged := 0
	for i := range 300 {
		header := http.Header{"X-Forwarded-For": {fmt.Sprintf("192.0.2.%d", i%250)}, "Forwarded": {fmt.Sprintf("for=192.0.2.%d", i%250)}}
		if s.do(t, call{path: "auth/", header: header, params: params{"login": u.login, "password": "wrong wrong"}}).Result.Code == "invalid_credentials" {
			judged++
		}
	}
	if judged > 16 {
		t.Errorf("of 300 guesses %d were judged", judged)
	}
	s.do(t, call{path: "auth/", header: from("192.0.2.251"), params: params{"login": u.login, "password": u.password}}).want(t, "too_many_attempts")
}

// TestForgedAddresses_TenTimesTheLimitPerAddress: a private sender with a forwarding
// header may be a proxy that is not trusted yet.
func TestForgedAddresses_TenTimesTheLimitPerAddress(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testkit.SQLite(t), settings: cheap + "[throttle.guess_address]\nburst = 2\nevery = \"1h\"\n"})
	judged := 0
	for i := range 300 {
		guess := call{path: "auth/", header: from(fmt.Sprintf("192.0.2.%d", i%250)), params: params{"login": unique(), "password": "wrong wrong"}}
		if s.do(t, guess).Result.Code == "invalid_credentials" {
			judged++
		}
	}
	if judged != 20 {
		t.Errorf("of 300 guesses at 300 logins %d were judged, want 20, ten times the limit", judged)
	}
}

func testGuesses(t *testing.T, s *system) {
	u, other := s.newUser(t), s.newUser(t)
	at := func(login, password, address string) *answer {
		return s.do(t, call{path: "auth/", header: from(address), params: params{"login": login, "password": password}})
	}
	judged := 0
	for i := range 300 {
		a := at([]string{u.login, strings.ToUpper(u.login), u.email}[i%3], "wrong wrong", "192.0.2.1")
		switch a.Result.Code {
		case "invalid_credentials":
			judged++
		case "too_many_attempts":
			if a.Header.Get("Retry-After") == "" {
				t.Fatal("429 without Retry-After")
			}
		default:
			t.Fatalf("a guess is answered %d %s", a.Status, a.Raw)
		}
	}
	if judged > 30 {
		t.Errorf("of 300 guesses %d were judged", judged)
	}
	at(u.login, u.password, "192.0.2.1").want(t, "too_many_attempts")
	at(strings.ToUpper(u.login), u.password, "192.0.2.1").want(t, "too_many_attempts")
	at(u.email, u.password, "192.0.2.1").want(t, "too_many_attempts")
	at(other.login, other.password, "192.0.2.1").want(t, "")
	at(u.login, u.password, "192.0.2.99").want(t, "")
	s.wantAlive(t, "a session, while guessing is throttled,", u.pair)
	s.do(t, call{path: "auth/", header: http.Header{"X-Forwarded-For": {"192.0.2.1"}, "Content-Type": {jsonType}},
		body: strings.NewReader(fmt.Sprintf(`{"login":%q`, u.login))}).want(t, "malformed_request")
}
