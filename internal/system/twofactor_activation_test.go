package system

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// activated is in the log when a rule that older versions would not enforce has come into
// force.
const activated = "older plugin versions refuse this database from now on"

// wantOffered checks whether a user can begin to switch a second factor on.
func (s *system) wantOffered(t testing.TB, u user, want bool) {
	t.Helper()
	code := map[bool]string{false: "not_found"}[want]
	s.postAs(t, u.pair, "two_factor/", params{"password": u.password}).want(t, code)
}

// TestTwoFactor_IsOfferedOnceSettled asks for second factors in a bake, which a new start
// of the host interrupts.
func TestTwoFactor_IsOfferedOnceSettled(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "settings.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(settings, []byte(cheap+unthrottled+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := options{database: testdb.SQLite(t), data: filepath.Join(t.TempDir(), "data"),
		flags: []string{"--settings", settings, "--bake", "1h"}}
	write(unverified)
	s := start(t, o)
	older := s.plugin(t).Active.Version
	u := s.newUser(t)
	s.wantOffered(t, u, false)

	write(unverified + twoFactor)
	newer := s.installAnother(t)
	s.use(t, newer)
	s.wantOffered(t, u, false)
	s.stop(t)
	if len(s.log.linesWith(activated)) > 0 {
		t.Error("older versions are refused during the bake, want that it can be rolled back")
	}
	s = start(t, o)
	s.awaitTwoFactor(t)
	s.awaitServing(t, older, 0)
	if len(s.log.linesWith(activated)) != 1 {
		t.Error("second factors are offered and older versions are not refused")
	}
	s.use(t, newer)
	s.wantOffered(t, u, true) // in its bake, because older versions are refused already
}
