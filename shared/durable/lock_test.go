package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/durable"
)

func TestLock_WaitsOnlyForABriefHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	first, second := open(), open()
	if err := durable.Lock(first); err != nil {
		t.Fatal(err)
	}
	if err := durable.Lock(second); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("got %v, want that the file is locked", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = first.Close() })
	if err := durable.Lock(second); err != nil {
		t.Errorf("got %v, want the lock once the other file is closed", err)
	}
}
