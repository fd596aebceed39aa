package system

import (
	"net/http"
	"strings"
	"testing"
)

// testOrder gives requests two faults: the one that comes first in 404, 405,
// 415, 413, 400, 429, 401, 422, 409 is answered. The 429 is in TestThrottling.
func testOrder(t *testing.T, s *system) {
	u, other := s.newUser(t), s.newUser(t)
	text := http.Header{"Content-Type": {"text/plain"}}
	asJSON := http.Header{"Content-Type": {jsonType}}
	large := strings.Repeat("x", 70_000)
	tests := []struct {
		name string
		call call
		want string
	}{
		{"404 before 405 and 415", call{method: http.MethodPut, path: "nope/", header: text, body: strings.NewReader("x")}, "not_found"},
		{"405 before 415", call{method: http.MethodPut, path: "auth/", header: text, body: strings.NewReader("x")}, "method_not_allowed"},
		{"405 before 413", call{method: http.MethodPut, path: "auth/", header: asJSON, body: strings.NewReader(large)}, "method_not_allowed"},
		{"415 before 413", call{path: "auth/", header: text, body: strings.NewReader(large)}, "unsupported_media_type"},
		{"415 before 401", call{path: "profile/", header: text, body: strings.NewReader("x")}, "unsupported_media_type"},
		{"415 on GET too", call{method: http.MethodGet, path: "fields/", header: text, body: strings.NewReader("x")}, "unsupported_media_type"},
		{"400 on GET too", call{method: http.MethodGet, path: "profile/", header: asJSON, body: strings.NewReader("{")}, "malformed_request"},
		{"413 before 400", call{path: "auth/", header: asJSON, body: strings.NewReader(large)}, "too_large"},
		{"413 before 401", call{path: "profile/", header: asJSON, body: strings.NewReader(large)}, "too_large"},
		{"400 before 401", call{path: "profile/", header: asJSON, body: strings.NewReader("{")}, "malformed_request"},
		{"400 before 422", call{path: "auth/", header: asJSON, body: strings.NewReader(`{"x":1,"x":1}`)}, "malformed_request"},
		{"400 for a repeated scalar before 422", call{path: "auth/", form: map[string][]string{"login": {"a", "b"}}}, "malformed_request"},
		{"400 for a repeated user field before 422", call{path: "register/", form: map[string][]string{"age": {"1", "2"}}}, "malformed_request"},
		{"400 for a repeated user field before 401", call{path: "profile/", form: map[string][]string{"age": {"1", "2"}}}, "malformed_request"},
		{"401 before 422 on password", call{path: "password/"}, "unauthenticated"},
		{"401 before 422 on email", call{path: "email/", params: params{"email": 5}}, "unauthenticated"},
		{"401 before 422 on profile", call{path: "profile/", params: params{"nonsense": 1}}, "unauthenticated"},
		{"401 before 422 on logout", call{path: "logout/", params: params{"all": "x"}}, "unauthenticated"},
		{"401 before 422 on sessions_revoke", call{path: "sessions_revoke/"}, "unauthenticated"},
		{"422 before 409 on register", call{path: "register/", params: applicant(params{"login": u.login, "name": "a\x00b"})}, "validation_failed"},
		{"422 before 409 on email", call{path: "email/", as: u.pair, params: params{"email": other.email, "password": "wrong wrong"}}, "validation_failed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { s.do(t, test.call).want(t, test.want) })
	}
	t.Run("all faults of 422 at once", func(t *testing.T) {
		s.post(t, "register/", params{"login": "a", "password": "short", "email": "x", "name": strings.Repeat("n", 201), "age": "x", "nonsense": 1, "roles": "admin"}).
			wantFaults(t, "validation_failed", faults{"login": "too_short", "password": "too_short", "confirm_password": "required",
				"email": "invalid_format", "name": "too_long", "age": "invalid_type", "nonsense": "unknown_field", "roles": "read_only"})
	})
	t.Run("of 409 the login before the e-mail", func(t *testing.T) {
		s.post(t, "register/", applicant(params{"login": u.login, "email": other.email})).
			wantFaults(t, "already_exists", faults{"login": "taken"})
		s.post(t, "register/", applicant(params{"email": other.email})).wantFaults(t, "already_exists", faults{"email": "taken"})
	})
}
