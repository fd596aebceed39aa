package main

import (
	"encoding/json"
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

func TestASecondHostOnTheSameDataIsRefusedWithTheOthersPid(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := openTestFolder(t, dir)
	_, err := openDataFolder(dir, quietLog())
	if err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) {
		t.Fatalf("the second host: %v, want a refusal that names the first one's process", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	openTestFolder(t, dir)
}

func TestACommandThatLooksForAHostKeepsNoneFromStarting(t *testing.T) {
	dir := t.TempDir()
	probe, err := os.Create(filepath.Join(dir, "host.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(probe.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(2*lockPause, func() { _ = probe.Close() })
	openTestFolder(t, dir)
}

func TestTheDataFolderIsClosedToOthers(t *testing.T) {
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
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), want)
		}
	}
}

func TestADataFolderThatOthersCouldOpenIsClosedToThem(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want fs.FileMode
	}{
		"an empty one":                           {"", 0o700},
		"one that has served":                    {"host.lock", 0o700},
		"one with a schema":                      {"user-fields.json", 0o700},
		"not one that is there for other things": {"letters.txt", 0o755},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if tt.file != "" {
				if err := os.WriteFile(filepath.Join(dir, tt.file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // what the first start leaves there is no reason for the second
				if err := openTestFolder(t, dir).close(); err != nil {
					t.Fatal(err)
				}
			}
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != tt.want {
				t.Errorf("mode %v, %v, want %v", info.Mode().Perm(), err, tt.want)
			}
		})
	}
}

func TestTheAdminTokenStaysTheSame(t *testing.T) {
	d := openTestFolder(t, t.TempDir())
	first, err := d.adminToken()
	if err != nil || len(first) < minAdminToken {
		t.Fatalf("token %q, %v", first, err)
	}
	if again, err := d.adminToken(); err != nil || again != first {
		t.Errorf("the second start has another token, or %v", err)
	}
	other, err := openTestFolder(t, t.TempDir()).adminToken()
	if err != nil || other == first {
		t.Errorf("another host has the same token, or %v", err)
	}
}

func TestAnAdminTokenThatOthersCouldReadIsClosedToThem(t *testing.T) {
	d := openTestFolder(t, t.TempDir())
	path := d.path("admin-token")
	token := strings.Repeat("A", minAdminToken)
	if err := errors.Join(os.WriteFile(path, []byte(token), 0o600), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	if got, err := d.adminToken(); err != nil || got != token {
		t.Fatalf("token %q, %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("it has mode %v, %v", info.Mode().Perm(), err)
	}
}

func TestAnEmptyAdminTokenIsRefused(t *testing.T) {
	d := openTestFolder(t, t.TempDir())
	if err := os.WriteFile(d.path("admin-token"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := d.adminToken(); err == nil {
		t.Errorf("an empty file gave the token %q", token)
	}
}

func TestARunningHostCanBeFoundUntilItStops(t *testing.T) {
	d := openTestFolder(t, t.TempDir())
	if err := d.announce("http://127.0.0.1:4711"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(d.path("host.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got address
	if err := json.Unmarshal(data, &got); err != nil || got != (address{URL: "http://127.0.0.1:4711", PID: os.Getpid()}) {
		t.Errorf("host.json holds %s, %v", data, err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(d.path("host.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("host.json after the stop: %v, want not-exist", err)
	}
}
