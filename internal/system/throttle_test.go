package system

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// from is the header by which a trusted proxy passes on a client's address.
func from(address string) http.Header { return http.Header{"X-Forwarded-For": {address}} }

// TestThrottling uses up the limits, on a site that sends no mails but those that a user
// has asked for. All limits but that of requests for a mail are the default ones. Each
// subtest has its own client address. The limits of each operation are tested in
// internal/accounts.
func TestThrottling(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		const few = "[mail]\nnotices = false\n[throttle.recover]\nburst = 3\nevery = \"1h\"\n"
		s := start(t, options{database: database, settings: cheap + unverified + twoFactor + few,
			flags: []string{"--trusted-proxy", "127.0.0.0/8"}})
		t.Run("guesses at one account", func(t *testing.T) { testGuesses(t, s) })
		t.Run("known and unknown login alike", func(t *testing.T) {
			known, unknown := s.newUser(t), unique()
			a := s.guess(t, call{path: "auth/", header: from("192.0.2.2"), params: params{"login": known.login, "password": "wrong wrong"}},
				"invalid_credentials")
			b := s.guess(t, call{path: "auth/", header: from("192.0.2.3"), params: params{"login": unknown, "password": "wrong wrong"}},
				"invalid_credentials")
			if a != b {
				t.Errorf("got 429 after %d guesses at a known login and %d at an unknown one, want the same number", a, b)
			}
		})
		t.Run("posts of other sites", func(t *testing.T) { testForeignPosts(t, s) })
		t.Run("parallel attempts at a known address", func(t *testing.T) { testParallelAttempts(t, s) })
		t.Run("429 before 422", func(t *testing.T) {
			u := s.newUser(t)
			wrong := params{"old_password": "wrong wrong", "password": recovered, "confirm_password": recovered}
			s.guess(t, call{path: "password/", as: u.pair, header: from("192.0.2.4"), params: wrong}, "validation_failed")
			invalid := params{"old_password": u.password, "password": "short", "confirm_password": "other"}
			s.do(t, call{path: "password/", as: u.pair, header: from("192.0.2.4"), params: invalid}).want(t, "too_many_attempts")
			for _, path := range []string{"export/", "delete/"} {
				s.do(t, call{path: path, as: u.pair, header: from("192.0.2.4"), params: params{}}).want(t, "too_many_attempts")
			}
		})
		t.Run("recoveries and verification mails share a limit", func(t *testing.T) {
			resend := call{path: "email_resend/", header: from("192.0.2.23"), params: params{"login": unique()}}
			if n := s.guess(t, resend, ""); n != 3 {
				t.Errorf("got %d requests for a verification mail, want 3", n)
			}
			resend.params = params{} // 429 before 422
			s.do(t, resend).want(t, "too_many_attempts")
			s.do(t, call{path: "recover/", header: resend.header, params: params{"login": unique()}}).want(t, "too_many_attempts")
		})
		t.Run("guesses at the code of a second factor", func(t *testing.T) { testGuessedCodes(t, s) })
		t.Run("three exports a day", func(t *testing.T) { testExportLimit(t, s) })
		t.Run("e-mail verification off", func(t *testing.T) { testVerificationOff(t, s) })
		t.Run("notices off", func(t *testing.T) { testNoticesOff(t, s) })
	})
}

// guess repeats a call until it is throttled, and returns the number of responses with
// the given CODE before that.
func (s *system) guess(t testing.TB, c call, code string) int {
	t.Helper()
	for i := range 200 {
		r := s.do(t, c)
		if r.Result.Code == "too_many_attempts" {
			if i == 0 {
				t.Fatal("the first attempt is throttled")
			}
			return i
		}
		r.want(t, code)
	}
	t.Fatal("200 attempts are not throttled")
	return 0
}

// testParallelAttempts signs in several times at once, at an address that is known for some
// accounts. Otherwise 429 would tell for which.
func testParallelAttempts(t *testing.T, s *system) {
	const accounts = 8
	for i := range accounts {
		u, address := s.newUser(t), from(fmt.Sprintf("192.0.2.%d", 50+i))
		attempt := call{path: "auth/", header: address, params: params{"login": u.login, "password": u.password}}
		if known := i%2 == 0; known {
			s.do(t, attempt).want(t, "")
		}
		if got := inParallel(t, accounts, []*system{s}, func(int) call { return attempt }); len(got[""]) != accounts {
			t.Errorf("account %d: got %d of %d correct passwords accepted, want all", i, len(got[""]), accounts)
		}
		wrong := attempt
		wrong.params = params{"login": u.login, "password": "wrong wrong"}
		if got := inParallel(t, 10, []*system{s}, func(int) call { return wrong }); len(got["invalid_credentials"]) != 10 {
			t.Errorf("account %d: got %d of 10 guesses judged, want all", i, len(got["invalid_credentials"]))
		}
	}
}

func testGuesses(t *testing.T, s *system) {
	u, other := s.newUser(t), s.newUser(t)
	signIn := func(login, password, address string) *response {
		return s.do(t, call{path: "auth/", header: from(address), params: params{"login": login, "password": password}})
	}
	names := []string{u.login, strings.ToUpper(u.login), u.email}
	judged := 0
	for i := range 100 {
		r := signIn(names[i%3], "wrong wrong", "192.0.2.1")
		switch r.Result.Code {
		case "invalid_credentials":
			judged++
		case "too_many_attempts":
		default:
			t.Fatalf("got %d %s for a guess", r.Status, r.Raw)
		}
	}
	if judged > 30 {
		t.Errorf("%d of 100 guesses were judged, want 30 at most", judged)
	}
	for _, name := range names {
		signIn(name, u.password, "192.0.2.1").want(t, "too_many_attempts")
	}
	signIn(other.login, other.password, "192.0.2.1").want(t, "")
	signIn(u.login, u.password, "192.0.2.99").want(t, "")
	s.wantAlive(t, "a session while guesses are throttled", u.pair)
	s.do(t, call{path: "auth/", header: http.Header{"X-Forwarded-For": {"192.0.2.1"}, "Content-Type": {jsonType}},
		body: strings.NewReader("{")}).want(t, "malformed_request") // 400 before 429
}

// testForeignPosts has a page of another site post from the browser of a user at their
// known address.
func testForeignPosts(t *testing.T, s *system) {
	const home = "192.0.2.5"
	u := s.newUser(t)
	right := call{path: "auth/", header: from(home), params: params{"login": u.login, "password": u.password}}
	s.do(t, right).want(t, "")
	foreign := func(name, value string) http.Header {
		header := from(home)
		header.Set(name, value)
		return header
	}
	stranger := applicant(nil)
	for i := range 120 { // more than any limit allows at once
		header := foreign("Sec-Fetch-Site", "cross-site")
		if i%2 == 1 {
			header = foreign("Origin", "https://evil.example")
		}
		s.do(t, call{path: "auth/", header: header, params: params{"login": u.login, "password": "wrong wrong"}}).want(t, "cross_origin")
		s.do(t, call{path: "register/", header: header, params: stranger}).want(t, "cross_origin")
		s.do(t, call{path: "recover/", header: header, params: params{"login": u.login}}).want(t, "cross_origin")
	}
	s.do(t, right).want(t, "")
	s.do(t, call{path: "auth/", header: from(home), params: params{"login": stranger["login"], "password": stranger["password"]}}).want(t,
		"invalid_credentials")
	s.do(t, call{path: "register/", header: from(home), params: stranger}).want(t, "")
	s.do(t, call{path: "recover/", header: from(home), params: params{"login": u.login}}).want(t, "")
}

// TestForgedAddresses sends forwarding headers while no proxy is trusted.
func TestForgedAddresses(t *testing.T) {
	t.Parallel()
	// guesses makes 100 guesses with ever new addresses in the headers, and returns
	// the number of those that were judged.
	guesses := func(t *testing.T, s *system, login func() string) (judged int) {
		for i := range 100 {
			header := http.Header{"X-Forwarded-For": {fmt.Sprintf("192.0.2.%d", i)}, "Forwarded": {fmt.Sprintf("for=192.0.2.%d", i)}}
			guess := call{path: "auth/", header: header, params: params{"login": login(), "password": "wrong wrong"}}
			if s.do(t, guess).Result.Code == "invalid_credentials" {
				judged++
			}
		}
		return judged
	}
	t.Run("guesses at one account are limited", func(t *testing.T) {
		s := start(t, options{database: testdb.SQLite(t), settings: cheap})
		u := s.newUser(t)
		if judged := guesses(t, s, func() string { return u.login }); judged > 16 {
			t.Errorf("%d of 100 guesses were judged, want 16 at most", judged)
		}
		s.do(t, call{path: "auth/", header: from("192.0.2.251"), params: params{"login": u.login, "password": u.password}}).want(t,
			"too_many_attempts")
	})
	t.Run("limit per address is ten times as wide", func(t *testing.T) { // the sender may be a proxy that is not trusted yet
		s := start(t, options{database: testdb.SQLite(t), settings: cheap + "[throttle.guess_address]\nburst = 2\nevery = \"1h\"\n"})
		if judged := guesses(t, s, unique); judged != 20 {
			t.Errorf("%d of 100 guesses at 100 logins were judged, want 20", judged)
		}
	})
}
