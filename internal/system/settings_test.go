package system

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// TestSettings_OlderVersionServesWithThoseOfANewerOne returns to a version with settings
// that it does not know, in each way in which a host does, and has a newer version
// enforce what older ones would not.
func TestSettings_OlderVersionServesWithThoseOfANewerOne(t *testing.T) {
	t.Parallel()
	const unknown = "two_moons"
	settings := filepath.Join(t.TempDir(), "settings.toml")
	write := func(more string) {
		t.Helper()
		if err := os.WriteFile(settings, []byte(cheap+unthrottled+more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	o := options{database: testdb.SQLite(t), data: filepath.Join(t.TempDir(), "data"),
		flags: []string{"--settings", settings, "--bake", "1s"}}
	s := start(t, o)
	older := s.plugin(t).Active.Version
	newer := s.installAnother(t)
	s.swapAndSettle(t, newer)

	write("[" + unknown + "]\nenabled = true\n")
	if code, body := s.ask(t, "rollback", "{}"); code != http.StatusOK {
		t.Fatalf("rollback to %s: got %d %s", older, code, body)
	}
	s.awaitServing(t, older, 0)
	before := s.plugin(t).Active.PID
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.awaitServing(t, older, before)
	s.newUser(t)
	if code, body := s.ask(t, "use", fmt.Sprintf(`{"version":%q}`, older)); code != http.StatusConflict || !strings.Contains(body, unknown) {
		t.Errorf("swap to %s: got %d %s, want a refusal that names the unknown section", older, code, body)
	}
	s.stop(t)
	o.data = s.data
	s = start(t, o)
	s.awaitServing(t, older, 0)
	if len(s.log.linesWith(unknown)) == 0 {
		t.Error("got no line in the log that names the unknown section, want a warning")
	}

	write("[registration]\nemail_verification = \"required\"\nenabled = true\n" + twoFactor)
	s.swapAndSettle(t, newer)
	eventually(t, "the plugin enforces both rules", func() bool { return len(s.log.linesWith(activated)) > 0 })
	if code, body := s.ask(t, "rollback", "{}"); code != http.StatusOK { // an older build of the same schema enforces them, too
		t.Errorf("rollback to %s: got %d %s", older, code, body)
	}
}

// ask requests a change of the plugin through the admin API.
func (s *system) ask(t *testing.T, change, body string) (code int, response string) {
	t.Helper()
	got, response := s.admin(t, http.MethodPost, "plugin/"+change, body, "Content-Type", jsonType)
	return got.StatusCode, response
}

// swapAndSettle swaps to a version and waits for the end of its bake.
func (s *system) swapAndSettle(t *testing.T, version string) {
	t.Helper()
	s.use(t, version)
	s.awaitServing(t, version, 0)
}

// awaitServing waits until a version serves in another process than before, and does not
// bake.
func (s *system) awaitServing(t *testing.T, version string, before int) {
	t.Helper()
	eventually(t, version+" serves", func() bool {
		active := s.plugin(t).Active
		return active.Version == version && active.State == "serving" && active.PID != before
	})
}
