package dbconn_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
)

func TestLockForHost_OneHostAtATime(t *testing.T) {
	url := "sqlite://" + filepath.Join(t.TempDir(), "personal.db")
	lock := func(host string) (func(), error) {
		t.Helper()
		ctx := t.Context()
		if host == "b" { // does not wait for the other host
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			cancel()
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
