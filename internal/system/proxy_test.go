package system

import (
	"net/http"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// addressOf signs a user in with headers and returns the address that the
// session was opened from.
func (s *system) addressOf(t testing.TB, u user, header http.Header) string {
	t.Helper()
	p := s.do(t, call{path: "auth/", header: header, params: params{"login": u.login, "password": u.password}}).pair(t)
	for _, session := range s.sessions(t, p) {
		if session.Current {
			return session.Address
		}
	}
	t.Fatal("no session is current")
	return ""
}

// TestClientAddress_HeaderOfTrustedProxies: contract, section 5.
func TestClientAddress_HeaderOfTrustedProxies(t *testing.T) {
	t.Parallel()
	trusted := []string{"--trusted-proxy", "127.0.0.1/32", "--trusted-proxy", "10.0.0.0/8"}
	requests := []struct {
		name   string
		header http.Header
	}{
		{"no header", nil},
		{"X-Forwarded-For", http.Header{"X-Forwarded-For": {"192.0.2.1, 203.0.113.9, 10.1.2.3"}}},
		{"Forwarded", http.Header{"Forwarded": {`for=192.0.2.1, For="[2001:db8::7]:4711";by=10.0.0.1, for=10.9.9.9`}}},
		{"both", http.Header{"X-Forwarded-For": {"203.0.113.9"}, "Forwarded": {"for=198.51.100.7"}}},
	}
	for name, test := range map[string]struct {
		flags []string
		want  [4]string // for each of the requests
	}{
		"no trusted proxy": {nil, [4]string{"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"}},
		"X-Forwarded-For":  {trusted, [4]string{"127.0.0.1", "203.0.113.9", "127.0.0.1", "203.0.113.9"}},
		"Forwarded":        {append(trusted, "--forwarded-header", "forwarded"), [4]string{"127.0.0.1", "127.0.0.1", "2001:db8::7", "198.51.100.7"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, options{database: testkit.SQLite(t), settings: cheap + unthrottled, flags: test.flags})
			u := s.newUser(t)
			for i, r := range requests {
				if got := s.addressOf(t, u, r.header); got != test.want[i] {
					t.Errorf("%s: got address %s, want %s", r.name, got, test.want[i])
				}
			}
		})
	}
}
