package system

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
)

// wantRefusal starts a host that must not come up, and expects exit code 1 and a
// reason that names the culprit.
func wantRefusal(t *testing.T, o options, named string) *system {
	t.Helper()
	s := launch(t, o)
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Fatalf("the host still runs after %v, want a refusal that names %q", patience, named)
	}
	if s.exit != 1 || !strings.Contains(s.log.String(), named) {
		t.Errorf("the host ended with code %d, want 1 and a reason that names %q; it said:\n%s", s.exit, named, s.log)
	}
	return s
}

func TestBadSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, settings string
		flags          []string
		named          string
	}{
		{"an unknown section", "[sesion]\nidle = \"1h\"\n", nil, "sesion"},
		{"an unknown key", "[session]\nidel = \"1h\"\n", nil, "session.idel"},
		{"a value that is no duration", "[session]\nidle = \"soon\"\n", nil, "session.idle"},
		{"a duration under 1s", "[session]\ngrace = \"10ms\"\n", nil, "session.grace"},
		{"a value of another type", "[password]\nmin_length = \"long\"\n", nil, "password.min_length"},
		{"a password of 4 characters", "[password]\nmin_length = 4\n", nil, "password.min_length"},
		{"a link that shows the token to servers", "[recovery]\nurl = \"https://site.example/?t={token}\"\n", nil, "recovery.url"},
		{"an address", "", []string{"--addr", "nowhere"}, "addr"},
		{"a proxy", "", []string{"--trusted-proxy", "everybody"}, "trusted-proxy"},
		{"any origin", "", []string{"--cors-origin", "*"}, "cors-origin"},
		{"the null origin", "", []string{"--cors-origin", "null"}, "cors-origin"},
		{"a base path", "", []string{"--base-path", "no-slash/"}, "base-path"},
		{"a language", "", []string{"--locale", "tlh-nonsense-x"}, "locale"},
		{"a log level", "", []string{"--log-level", "chatty"}, "log-level"},
		{"a settings file that is not there", "", []string{"--settings", "/nonexistent.toml"}, "--settings"},
		{"mail kept off loopback", "", []string{"--addr", "0.0.0.0:0"}, "smtp"},
		{"another database", "", []string{"--database", "mysql://127.0.0.1/x"}, "database"},
	} {
		t.Run(test.name, func(t *testing.T) {
			wantRefusal(t, options{database: testkit.SQLite(t), settings: test.settings, flags: test.flags}, test.named)
		})
	}
}

func TestPasswordsAreNoFlags(t *testing.T) {
	t.Parallel()
	const secret = "Sesam8oeffneDich"
	for _, flags := range [][]string{
		{"--database", "postgres://personal:" + secret + "@127.0.0.1:5432/x"},
		{"--database", "postgres://personal@127.0.0.1:5432/x?password=" + secret},
		{"--smtp", "smtp://personal:" + secret + "@127.0.0.1:25"},
	} {
		s := wantRefusal(t, options{database: testkit.SQLite(t), flags: flags}, strings.TrimPrefix(flags[0], "--"))
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the refusal of %s repeats the password", flags[0])
		}
	}
}

func TestOneHostPerDataFolder(t *testing.T) {
	t.Parallel()
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap})
		wantRefusal(t, options{database: database, settings: cheap, data: s.data}, "--data")
		u := s.newUser(t)
		s.stop(t)
		if connection, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://")); err == nil {
			_ = connection.Close()
			t.Error("after the stop somebody still listens")
		}
		again := start(t, options{database: database, settings: cheap, data: s.data})
		again.wantAlive(t, "a session from before the restart", u.pair)
	})
}
