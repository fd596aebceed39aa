package dbconn_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
)

func TestLockForHost_OneHostAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "personal.db")
	alias := filepath.Join(t.TempDir(), "alias.db")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Symlink(path, alias)); err != nil {
		t.Fatal(err)
	}
	lock := func(host string) (func(), error) {
		t.Helper()
		ctx, url := t.Context(), "sqlite://"+path
		if host == "b" { // does not wait for the other host
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			cancel()
			url = "sqlite://" + alias
		}
		l, err := dbconn.LockForHost(ctx, url, host)
		if err != nil {
			return nil, err
		}
		return func() { _ = l.Close() }, nil
	}
	first, err := lock("a")
	if err != nil {
		t.Fatal(err)
	}
	second, err := lock("a") // the other version of a swap
	if err != nil {
		t.Fatalf("another process of the host: got %v, want the lock", err)
	}
	for _, release := range []func(){first, second} {
		var inUse *dbconn.InUseError
		if _, err := lock("b"); !errors.As(err, &inUse) || inUse.Host != "a" || !strings.Contains(err.Error(), "personal.db") {
			t.Errorf("another host: got %v, want an error that names the file and the host a", err)
		}
		release()
	}
	if _, err := lock("b"); err != nil {
		t.Errorf("after the first host: got %v, want the lock", err)
	}
	if l, err := dbconn.LockForHost(t.Context(), "postgres://u@h/d", "a"); l != nil || err != nil {
		t.Errorf("PostgreSQL: got %v, %v, want no lock", l, err)
	}
}

// The lock is written: it must not be a name of another file.
func TestLockForHost_FollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "personal.db"), filepath.Join(dir, "other")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.WriteFile(other, []byte("kept"), 0o600), os.Symlink(other, path+".lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := dbconn.LockForHost(t.Context(), "sqlite://"+path, "a"); err == nil {
		t.Error("got the lock, want an error")
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "kept" {
		t.Errorf("the other file has %q (%v), want it unchanged", text, err)
	}
}
