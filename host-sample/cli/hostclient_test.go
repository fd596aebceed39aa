package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/durable"
)

func TestAdminLink_PrintsLink(t *testing.T) {
	dir := announceFake(t, newSwapper())
	code, stdout, stderr := runToEnd(t, "admin-link", "--data", dir)
	if code != 0 || stdout != noLink()+"\n" {
		t.Errorf("got exit code %d, standard output %q, standard error %q, want the link", code, stdout, stderr)
	}
}

func TestFindHost_WithoutHostFails(t *testing.T) {
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the token was sent to another program: %v", r.Header)
	}))
	defer stranger.Close()
	killed := announceFake(t, newSwapper()) // its files are copied to a folder whose lock is free
	left := t.TempDir()
	for _, name := range []string{"host.lock", "admin-token"} {
		data, err := os.ReadFile(filepath.Join(killed, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(left, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, _ := json.Marshal(address{URL: stranger.URL, PID: os.Getpid()})
	if err := os.WriteFile(filepath.Join(left, "host.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"a killed host": left, "an empty folder": t.TempDir(),
		"no folder": filepath.Join(t.TempDir(), "none")} {
		for _, args := range [][]string{{"use", "1.0.0"}, {"rollback"}, {"status"}} {
			code, stdout, stderr := runToEnd(t, append(append([]string{"plugin"}, args...), "--data", dir)...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, "no host runs on the data folder "+dir) {
				t.Errorf("%s, %v: got exit code %d, %q, %q, want 1 and that no host runs", name, args, code, stdout, stderr)
			}
		}
	}
	data, _ = json.Marshal(address{URL: stranger.URL, PID: os.Getpid() + 1}) // of an earlier host that was killed
	if err := os.WriteFile(filepath.Join(killed, "host.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := runToEnd(t, "plugin", "status", "--data", killed); code != 1 || !strings.Contains(stderr, "does not listen yet") {
		t.Errorf("a starting host: got exit code %d, %q, want 1", code, stderr)
	}
}

// Any user of the group that may write to the folder would choose the address that gets the
// token.
func TestFindHost_AddressThatOthersMayWriteIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "host.json"), []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "host.json"), 0o666); err != nil { // whatever the umask
		t.Fatal(err)
	}
	if _, err := findHost(dir); !errors.As(err, new(*durable.UntrustedError)) {
		t.Errorf("got %v, want an untrusted file", err)
	}
}
