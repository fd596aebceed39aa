package system

import (
	"net/http"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// addressOf signs somebody in with headers and returns the address that the
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

// TestClientAddress is about section 5: who is believed about the address.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, header string
		values       []string
		trusted      string // what it means from a trusted proxy
	}{
		{"none", "X-Unrelated", []string{"x"}, "127.0.0.1"},
		{"one address", "X-Forwarded-For", []string{"203.0.113.9"}, "203.0.113.9"},
		{"the rightmost untrusted hop", "X-Forwarded-For", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		{"behind a trusted hop", "X-Forwarded-For", []string{"192.0.2.1, 203.0.113.9, 10.1.2.3"}, "203.0.113.9"},
		{"header lines are one list", "X-Forwarded-For", []string{"203.0.113.9", "198.51.100.7, 10.0.0.1"}, "198.51.100.7"},
		{"IPv6", "X-Forwarded-For", []string{"2001:db8::5"}, "2001:db8::5"},
		{"Forwarded", "Forwarded", []string{"for=203.0.113.9;proto=https"}, "203.0.113.9"},
		{"Forwarded, several hops", "Forwarded", []string{"for=192.0.2.1, for=203.0.113.9;by=10.0.0.1, for=10.9.9.9"}, "203.0.113.9"},
		{"Forwarded, IPv6 with a port", "Forwarded", []string{`For="[2001:db8::7]:4711"`}, "2001:db8::7"},
	}
	testkit.Databases(t, func(t *testing.T, database string) {
		for _, trust := range []bool{true, false} {
			flags := []string{}
			name := "an unlisted sender is never believed"
			if trust {
				flags = []string{"--trusted-proxy", "127.0.0.1/32", "--trusted-proxy", "10.0.0.0/8"}
				name = "a listed proxy is believed"
			}
			t.Run(name, func(t *testing.T) {
				s := start(t, options{database: database, settings: cheap + unthrottled, flags: flags})
				u := s.newUser(t)
				for _, test := range tests {
					want := "127.0.0.1"
					if trust {
						want = test.trusted
					}
					if got := s.addressOf(t, u, http.Header{test.header: test.values}); got != want {
						t.Errorf("%s: %s %q is taken for %s, want %s", test.name, test.header, test.values, got, want)
					}
				}
			})
		}
	})
}
