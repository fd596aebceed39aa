package catalogue

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/mounttest"
	"github.com/cms-personal/personal/shared/durable"
)

func TestInstall_RefusesAFolderThatAllowsNoExecution(t *testing.T) {
	if !mounttest.Isolated(t) {
		return
	}
	mount := mounttest.Tmpfs(t, syscall.MS_NOEXEC, "size=10m")
	c, err := Open(filepath.Join(mount, "data", "plugins"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Install(t.Context(), binary(t, manifestOf("1.0.0"), ""))
	wantRefused(t, err, ErrNoExec)
	if want := "permission denied: the file system is mounted with noexec"; !strings.Contains(err.Error(), mount) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want a text with %s and %q", err, mount, want)
	}
	wantEmpty(t, c)
}

// fill takes all space of a file system but free bytes, and returns a function that
// gives it back.
func fill(t *testing.T, mount string, free int) func() {
	t.Helper()
	path := filepath.Join(mount, "other files")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	var size int64
	for err == nil {
		_, err = f.Write(block)
		size += int64(len(block))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: got %v, want ENOSPC", err)
	}
	if err := f.Truncate(size - int64(len(block)) - int64(free)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

func wantFull(t *testing.T, err error, dir string) {
	t.Helper()
	var full *durable.FullError
	if !errors.As(err, &full) || full.Dir != dir || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("got %v, want that the disk with %s is full", err, dir)
	}
}

func TestFullDisk_ChangesNothing(t *testing.T) {
	if !mounttest.Isolated(t) {
		return
	}
	mount := mounttest.Tmpfs(t, 0, "size=1m")
	dir, private := filepath.Join(mount, "plugins"), filepath.Join(mount, "staged")
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := install(t, c, "1.0.0")
	if err := c.SaveState(State{Active: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	if err := MakePrivate(private); err != nil {
		t.Fatal(err)
	}
	large := binary(t, manifestOf("2.0.0"), string(bytes.Repeat([]byte("x"), 100<<10)))

	for _, free := range []int{0, 20 << 10} { // no space at all, and too little
		empty := fill(t, mount, free)
		before := names(t, dir)
		_, err = c.Install(t.Context(), large)
		wantFull(t, err, dir)
		if free == 0 {
			_, err = c.Stage(t.Context(), e, private)
			wantFull(t, err, private)
			wantFull(t, c.SaveState(State{Active: "1.0.0", LastGood: "1.0.0"}), dir)
		}
		if got := names(t, dir); !slices.Equal(got, before) {
			t.Errorf("with %d bytes free: got %q in the catalogue, want %q", free, got, before)
		}
		if got := names(t, private); len(got) > 0 {
			t.Errorf("with %d bytes free: got %q in the folder for copies, want nothing", free, got)
		}
		if s, err := c.LoadState(); err != nil || s != (State{Active: "1.0.0"}) {
			t.Errorf("with %d bytes free: got state %+v (%v), want that of before", free, s, err)
		}
		empty()
	}

	if _, err := c.Install(t.Context(), large); err != nil {
		t.Errorf("with space again: got %v, want no error", err)
	}
	fill(t, mount, 0)
	if err := c.Remove("2.0.0"); err != nil {
		t.Errorf("removing a version to free space: got %v, want no error", err)
	}
	if _, err := c.Stage(t.Context(), e, private); err != nil {
		t.Errorf("with the space of the removed version: got %v, want no error", err)
	}
}
