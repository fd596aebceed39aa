package personalhttp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

const origin = "https://app.example.com:8443"

func TestCORS_OffWithoutOrigins(t *testing.T) {
	s := newSite(t, everything(), personalhttp.Options{})
	for _, method := range []string{"GET", "OPTIONS"} {
		a := s.do(method, prefix+"fields", "", "", "Origin", origin, "Access-Control-Request-Method", "GET")
		wantNoCORS(t, a)
		if slices.Contains(a.Header.Values("Vary"), "Origin") {
			t.Error("got Vary: Origin, want none")
		}
		if method == "OPTIONS" {
			a.want(t, 405, personal.CodeMethodNotAllowed)
		}
	}
}

func wantNoCORS(t *testing.T, a reply) {
	t.Helper()
	for name := range a.Header {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("got header %s, want none of CORS", name)
		}
	}
}

func TestCORS_ListedOriginIsAllowed(t *testing.T) {
	s := newSite(t, everything(), personalhttp.Options{CORSOrigins: []string{"https://other.example.com", origin}})
	for path, status := range map[string]int{"fields": 200, "nothing": 404, "auth": 405} {
		a := s.do("GET", prefix+path, "", "", "Origin", origin)
		if a.Status != status || a.Header.Get("Access-Control-Allow-Origin") != origin ||
			a.Header.Get("Access-Control-Expose-Headers") != "X-Request-Id, Retry-After" {
			t.Errorf("%s: got %d %v, want %d and the CORS headers", path, a.Status, a.Header, status)
		}
		if a.Header.Get("Access-Control-Allow-Credentials") != "" || !slices.Contains(a.Header.Values("Vary"), "Origin") {
			t.Errorf("%s: got %v, want Vary: Origin and no credentials", path, a.Header)
		}
	}
}

func TestCORS_OtherOriginsGetNoHeaders(t *testing.T) {
	s := newSite(t, everything(), personalhttp.Options{CORSOrigins: []string{origin}})
	for _, headers := range [][]string{
		nil, {"Origin", "null"}, {"Origin", "*"}, {"Origin", origin + "0"}, {"Origin", strings.ToUpper(origin)}, {"Origin", origin, "Origin", origin},
	} {
		a := s.do("GET", prefix+"fields", "", "", headers...)
		a.want(t, 200, "")
		wantNoCORS(t, a)
		if !slices.Contains(a.Header.Values("Vary"), "Origin") {
			t.Error("got no Vary: Origin, want it")
		}
		preflight := s.do("OPTIONS", prefix+"fields", "", "", append(headers, "Access-Control-Request-Method", "GET")...)
		preflight.want(t, 405, personal.CodeMethodNotAllowed)
		wantNoCORS(t, preflight)
	}
}

func TestPreflight_ListsAllowedMethodsAndHeaders(t *testing.T) {
	s := newSite(t, everything(), personalhttp.Options{CORSOrigins: []string{origin}, AlwaysOK: true})
	for path, allow := range personalhttp.Routes() {
		a := s.do("OPTIONS", prefix+path+"/", "", "", "Origin", origin, "Access-Control-Request-Method", "POST")
		if a.Status != 204 || a.Body != "" {
			t.Errorf("%s: got %d %q, want 204 without a body", path, a.Status, a.Body)
		}
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin":  origin,
			"Access-Control-Allow-Methods": allow,
			"Access-Control-Allow-Headers": "Content-Type, User-Id, User-Hash, X-Request-Id, Accept-Language, traceparent, tracestate, baggage, sentry-trace, X-Requested-With",
			"Access-Control-Max-Age":       "600",
			"Vary":                         "Origin",
		} {
			if got := a.Header.Get(name); got != want {
				t.Errorf("%s: got %s %q, want %q", path, name, got, want)
			}
		}
	}
	s.do("OPTIONS", prefix+"nothing", "", "", "Origin", origin, "Access-Control-Request-Method", "POST").want(t, 200, personal.CodeNotFound)
	s.do("OPTIONS", prefix+"fields", "", "", "Origin", origin).want(t, 200, personal.CodeMethodNotAllowed)
}
