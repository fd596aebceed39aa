package cli

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/shared/durable"
)

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openTestFolder(t *testing.T, dir string) *dataFolder {
	t.Helper()
	d, err := openDataFolder(dir, quietLog())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.close() })
	return d
}

func TestOpenDataFolder_SecondHostIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := openTestFolder(t, dir)
	_, err := openDataFolder(dir, quietLog())
	if err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Fatalf("second host: got %v, want an error that names the first one's process", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	openTestFolder(t, dir)
}

func TestOpenDataFolder_WaitsForOtherCommand(t *testing.T) {
	dir := t.TempDir()
	probe, err := os.Create(filepath.Join(dir, "host.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(probe.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = probe.Close() })
	openTestFolder(t, dir)
}

func TestOpenDataFolder_NewFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	d := openTestFolder(t, dir)
	if _, err := d.adminToken(); err != nil {
		t.Fatal(err)
	}
	if err := d.announce("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{".": 0o700, "host.lock": 0o600, "admin-token": 0o600, "host.json": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s: got mode %v, want %v", name, info.Mode().Perm(), want)
		}
	}
}

func TestOpenDataFolder_ChangesNoMode(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := openTestFolder(t, dir).close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("got mode %v, %v, want that it stays 0755", info.Mode().Perm(), err)
	}
}

func TestAdminToken_IsStable(t *testing.T) {
	d := openTestFolder(t, t.TempDir())
	first, err := d.adminToken()
	if err != nil || len(first) < minAdminToken {
		t.Fatalf("got token %q, %v, want at least %d characters", first, err, minAdminToken)
	}
	if again, err := d.adminToken(); err != nil || again != first {
		t.Errorf("second call: got %q, %v, want %q", again, err, first)
	}
	other, err := openTestFolder(t, t.TempDir()).adminToken()
	if err != nil || other == first {
		t.Errorf("another folder: got %q, %v, want another token", other, err)
	}
}

func TestAdminToken_AccessOfOthersIsRefused(t *testing.T) {
	d := openTestFolder(t, t.TempDir())
	path := d.path("admin-token")
	token := strings.Repeat("A", minAdminToken)
	if err := errors.Join(os.WriteFile(path, []byte(token), 0o600), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	if got, err := d.adminToken(); got != "" || !errors.As(err, new(*durable.UntrustedError)) ||
		!strings.Contains(err.Error(), "run chmod 600 "+path) {
		t.Errorf("got token %q, %v, want that others can access it", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("got mode %v, %v, want that it stays 0644", info.Mode().Perm(), err)
	}
}

func TestAdminToken_EmptyFileIsRefused(t *testing.T) {
	d := openTestFolder(t, t.TempDir())
	if err := os.WriteFile(d.path("admin-token"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := d.adminToken(); err == nil {
		t.Errorf("got token %q, want an error", token)
	}
}
