package system

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

const app = "https://app.example"

// TestShimOptions is about what a host sets: base path, CORS, language, and
// login.with_email.
func TestShimOptions(t *testing.T) {
	t.Parallel()
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, basePath: "/cms/site", settings: cheap + unthrottled + "[login]\nwith_email = false\n",
			flags: []string{"--cors-origin", app, "--cors-origin", "http://localhost:3000", "--locale", "ru"}})
		t.Run("routes live under the base path", func(t *testing.T) {
			u := s.newUser(t)
			s.post(t, "auth", params{"login": u.login, "password": u.password}).want(t, "")
			s.do(t, call{path: "/cms/site/api/v1/personal//auth/"}).want(t, "not_found")
			for _, outside := range []string{"/api/v1/personal/auth/", "/cms/api/v1/personal/auth/"} {
				if response, _ := s.web(t, http.MethodPost, outside, ""); response.StatusCode != http.StatusNotFound {
					t.Errorf("POST %s answers %d", outside, response.StatusCode)
				}
			}
		})
		t.Run("messages are in the host's language by default", func(t *testing.T) {
			if a := s.do(t, call{path: "auth/"}); !isCyrillic(a.Result.Message) {
				t.Errorf("it says %q", a.Result.Message)
			}
			if a := s.do(t, call{path: "auth/", header: http.Header{"Accept-Language": {"en"}}}); isCyrillic(a.Result.Message) {
				t.Errorf("in English it says %q", a.Result.Message)
			}
		})
		t.Run("e-mails are no logins", func(t *testing.T) {
			u := s.newUser(t)
			s.post(t, "auth/", params{"login": u.email, "password": u.password}).want(t, "invalid_credentials")
		})
		t.Run("CORS", func(t *testing.T) { testCORS(t, s) })
		t.Run("CORS preflight", func(t *testing.T) { testPreflight(t, s) })
	})
}

func list(h http.Header, name string) []string {
	var items []string
	for _, value := range h.Values(name) {
		for item := range strings.SplitSeq(value, ",") {
			items = append(items, strings.ToLower(strings.TrimSpace(item)))
		}
	}
	return items
}

func testCORS(t *testing.T, s *system) {
	for _, origin := range []string{app, "http://localhost:3000"} {
		for _, path := range []string{"fields/", "profile/", "nope/"} { // success, 401 and 404
			a := s.do(t, call{method: http.MethodGet, path: path, header: http.Header{"Origin": {origin}}})
			exposed := list(a.Header, "Access-Control-Expose-Headers")
			if a.Header.Get("Access-Control-Allow-Origin") != origin || a.Header.Get("Access-Control-Allow-Credentials") != "" ||
				!slices.Contains(list(a.Header, "Vary"), "origin") ||
				!slices.Contains(exposed, "x-request-id") || !slices.Contains(exposed, "retry-after") {
				t.Errorf("GET %s from %s answers with %v", path, origin, a.Header)
			}
		}
	}
	for _, origin := range []string{"https://evil.example", "null", "*", "http://app.example", app + ".evil.example", "https://APP.example.", app + ":444", ""} {
		header := http.Header{}
		if origin != "" {
			header.Set("Origin", origin)
		}
		a := s.do(t, call{method: http.MethodGet, path: "fields/", header: header})
		if a.Header.Get("Access-Control-Allow-Origin") != "" || !slices.Contains(list(a.Header, "Vary"), "origin") {
			t.Errorf("GET from %q answers with %v", origin, a.Header)
		}
	}
}

func testPreflight(t *testing.T, s *system) {
	preflight := func(path, origin, method string) (*http.Response, string) {
		return s.web(t, http.MethodOptions, strings.TrimPrefix(s.api, s.url)+path, "", "Origin", origin,
			"Access-Control-Request-Method", method, "Access-Control-Request-Headers", "content-type,user-hash,user-id")
	}
	for _, o := range operations {
		for _, method := range o.methods {
			response, body := preflight(o.path+"/", app, method)
			allowed := list(response.Header, "Access-Control-Allow-Headers")
			if response.StatusCode/100 != 2 || response.Header.Get("Access-Control-Allow-Origin") != app ||
				!slices.Contains(list(response.Header, "Access-Control-Allow-Methods"), strings.ToLower(method)) ||
				!slices.Contains(allowed, "user-id") || !slices.Contains(allowed, "user-hash") || !slices.Contains(allowed, "content-type") {
				t.Errorf("preflight of %s %s answers %d %s with %v", method, o.path, response.StatusCode, body, response.Header)
			}
		}
	}
	for _, origin := range []string{"https://evil.example", "null"} {
		if response, _ := preflight("auth/", origin, "POST"); response.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("preflight from %s is allowed", origin)
		}
	}
	// An OPTIONS that is no preflight is a method like any other.
	s.do(t, call{method: http.MethodOptions, path: "auth/"}).want(t, "method_not_allowed")
	s.do(t, call{method: http.MethodOptions, path: "nope/"}).want(t, "not_found")
}

// TestAlwaysOK is about hosts whose old clients expect HTTP 200 on everything:
// exchange checks the status of each answer.
func TestAlwaysOK(t *testing.T) {
	t.Parallel()
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap, flags: []string{"--always-200"}, alwaysOK: true})
		u := s.newUser(t)
		s.do(t, call{path: "nope/"}).want(t, "not_found")
		s.do(t, call{method: http.MethodPut, path: "auth/"}).want(t, "method_not_allowed")
		s.do(t, call{path: "auth/", body: strings.NewReader("x")}).want(t, "unsupported_media_type")
		s.do(t, call{path: "auth/", body: strings.NewReader("{"), header: http.Header{"Content-Type": {jsonType}}}).want(t, "malformed_request")
		s.do(t, call{path: "auth/", body: strings.NewReader(strings.Repeat("x", 70_000)), header: http.Header{"Content-Type": {jsonType}}}).want(t, "too_large")
		s.post(t, "auth/", params{}).want(t, "validation_failed")
		s.post(t, "register/", applicant(params{"login": u.login})).want(t, "already_exists")
		s.do(t, call{path: "profile/"}).want(t, "unauthenticated")
		s.post(t, "email_confirm/", params{"token": "x"}).want(t, "invalid_token")
		s.guess(t, call{path: "auth/", params: params{"login": u.login, "password": "wrong wrong"}}, "invalid_credentials")
		if a := s.do(t, call{method: http.MethodHead, path: "auth/"}); a.Status != http.StatusOK {
			t.Errorf("HEAD answers %d", a.Status)
		}
	})
}
