package system

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// TestSettings_UnknownKeyRefusesSwapsNotStarts writes a key that no version knows, and one
// that another installed version knows, into the settings file.
func TestSettings_UnknownKeyRefusesSwapsNotStarts(t *testing.T) {
	t.Parallel()
	settings := filepath.Join(t.TempDir(), "settings.toml")
	write := func(more string) {
		t.Helper()
		if err := os.WriteFile(settings, []byte(cheap+unthrottled+more), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[session]\nidel = \"1h\"\n")
	s := start(t, options{database: testdb.SQLite(t), flags: []string{"--settings", settings, "--bake", "0s"}})
	version := s.plugin(t).Active.Version
	wantUnknown := func(when string, want ...manager.UnknownSetting) {
		t.Helper()
		if got := s.plugin(t).Active.UnknownSettings; !slices.Equal(got, want) {
			t.Errorf("%s: got unknown settings %+v, want %+v", when, got, want)
		}
	}
	typo := manager.UnknownSetting{UnknownSetting: rpc.UnknownSetting{Key: "session.idel", Meant: "session.idle"}}
	wantUnknown("start", typo)
	if len(s.log.linesWith("level=ERROR msg=\"plugin preflight\"")) != 1 {
		t.Error("got no error in the log, want one that names the key")
	}
	s.newUser(t)
	use := fmt.Sprintf(`{"version":%q}`, version)
	if code, body := s.ask(t, "use", use); code != http.StatusConflict || !strings.Contains(body, `"step":"preflight"`) ||
		!strings.Contains(body, "unknown key: session.idel (did you mean session.idle?)") {
		t.Errorf("swap: got %d %s, want a refusal that names the key", code, body)
	}
	write("[session]\nidle = \"1h\"\n")
	s.use(t, version)
	wantUnknown("mended file")

	manifest := filepath.Join(s.data, "plugins", "personal", s.installAnother(t), "manifest.json")
	data, err := os.ReadFile(manifest)
	if err == nil {
		data = []byte(strings.Replace(string(data), `"settings": [`, `"settings": ["two_moons",`, 1))
		err = os.WriteFile(manifest, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	newer := manager.UnknownSetting{UnknownSetting: rpc.UnknownSetting{Key: "two_moons"},
		KnownBy: filepath.Base(filepath.Dir(manifest))}
	write("[two_moons]\nenabled = true\n")
	s.use(t, version)
	wantUnknown("swap", newer)
	before := s.plugin(t).Active.PID
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process serves", func() bool {
		active := s.plugin(t).Active
		return active.State == "serving" && active.PID != before
	})
	wantUnknown("restart", newer)
}

// ask requests a change of the plugin through the admin API.
func (s *system) ask(t *testing.T, change, body string) (code int, response string) {
	t.Helper()
	got, response := s.admin(t, http.MethodPost, "plugin/"+change, body, "Content-Type", jsonType)
	return got.StatusCode, response
}
