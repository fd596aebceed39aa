package system

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// operation is a row of the contract's section 3.
type operation struct {
	path      string
	methods   []string
	needsUser bool
}

var (
	get     = []string{http.MethodGet}
	post    = []string{http.MethodPost}
	getPost = []string{http.MethodGet, http.MethodPost}
)

var operations = []operation{
	{path: "auth", methods: post},
	{path: "auth_refresh", methods: getPost, needsUser: true},
	{path: "register", methods: post},
	{path: "recover", methods: post},
	{path: "recover_confirm", methods: post},
	{path: "profile", methods: getPost, needsUser: true},
	{path: "password", methods: post, needsUser: true},
	{path: "email", methods: post, needsUser: true},
	{path: "email_confirm", methods: post},
	{path: "logout", methods: post, needsUser: true},
	{path: "sessions", methods: get, needsUser: true},
	{path: "sessions_revoke", methods: post, needsUser: true},
	{path: "fields", methods: get},
	{path: "openapi.json", methods: get},
}

func testRouting(t *testing.T, s *system) {
	t.Run("each path answers with and without its final slash", func(t *testing.T) { testSlash(t, s) })
	t.Run("each other method is 405 with Allow", func(t *testing.T) { testMethods(t, s) })
	t.Run("each other path is 404 and no redirect", func(t *testing.T) { testUnknownPaths(t, s) })
	t.Run("operations that need headers answer 401 without them", func(t *testing.T) {
		for _, o := range operations {
			for _, method := range o.methods {
				a := s.do(t, call{method: method, path: o.path + "/"})
				if got := a.Result.Code == "unauthenticated"; got != o.needsUser {
					t.Errorf("%s %s/ without headers answers %s", method, o.path, a.Raw)
				}
			}
		}
	})
}

func testSlash(t *testing.T, s *system) {
	for _, o := range operations {
		for _, method := range o.methods {
			with := s.do(t, call{method: method, path: o.path + "/"})
			without := s.do(t, call{method: method, path: o.path})
			if with.Status == http.StatusNotFound || string(with.Raw) != string(without.Raw) {
				t.Errorf("%s %s: with a slash %s, without %s", method, o.path, with.Raw, without.Raw)
			}
		}
	}
	u := s.newUser(t)
	s.post(t, "auth", params{"login": u.login, "password": u.password}).wantData(t, "user_id", "user_hash", "user_profile")
}

func testMethods(t *testing.T, s *system) {
	all := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodTrace, "PROPFIND"}
	for _, o := range operations {
		for _, method := range all {
			if slices.Contains(o.methods, method) {
				continue
			}
			for _, slash := range []string{"", "/"} {
				a := s.do(t, call{method: method, path: o.path + slash})
				allow := strings.Split(strings.ReplaceAll(a.Header.Get("Allow"), " ", ""), ",")
				slices.Sort(allow)
				if a.Status != http.StatusMethodNotAllowed || !slices.Equal(allow, o.methods) {
					t.Errorf("%s %s%s answers %d with Allow %q, want 405 and %q", method, o.path, slash, a.Status, allow, o.methods)
				}
			}
		}
	}
	u := s.newUser(t)
	s.do(t, call{method: http.MethodHead, path: "auth_refresh/", as: u.pair})
	next := s.getAs(t, u.pair, "auth_refresh/").pair(t)
	if newest := s.getAs(t, u.pair, "auth_refresh/").pair(t); newest != next || next == u.pair {
		t.Error("a HEAD rotated the hash")
	}
}

func testUnknownPaths(t *testing.T, s *system) {
	paths := []string{
		"", "/", "nope", "nope/", "auth/x", "auth/login/", "AUTH/", "Auth",
		"/auth/", "auth//", "//auth", "./auth/", "../personal/auth/", "x/../auth/", "auth/../auth/", "auth/.", "%2e%2e/auth/",
		"auth.json", "auth;x=1/", "auth%20/", "user_profile/", "admin/",
	}
	prefix := strings.TrimSuffix(strings.TrimPrefix(s.api, s.url), "/")
	for _, path := range paths {
		for _, method := range []string{http.MethodPost, http.MethodGet} {
			s.do(t, call{method: method, path: prefix + "/" + path, params: params{"login": "a"}}).want(t, "not_found")
		}
	}
	s.do(t, call{path: prefix}).want(t, "not_found")
	if a := s.do(t, call{method: http.MethodHead, path: "nope/"}); a.Status != http.StatusNotFound {
		t.Errorf("HEAD of an unknown path answers %d", a.Status)
	}
}
