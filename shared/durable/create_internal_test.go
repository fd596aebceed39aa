package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestPlace_SaysWhatToMount(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for number, want := range map[syscall.Errno]string{
		syscall.EBUSY:  "mounted alone and cannot be replaced: mount the folder " + dir,
		syscall.EROFS:  "mount the folder " + dir + " so that it can be written to",
		syscall.EACCES: "needs the right to write to the folder " + dir,
	} {
		err := place(filepath.Join(dir, "file"), nil, func(from, to string) error {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: number}
		})
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, number) {
			t.Errorf("%v: got error %v, want that it contains %q", number, err, want)
		}
	}
}

func TestNameNew_WithoutHardLinksNeverOverwrites(t *testing.T) {
	t.Parallel()
	noLinks := func(string, string) error { return errors.ErrUnsupported }
	dir := t.TempDir()
	from, to := filepath.Join(dir, "draft"), filepath.Join(dir, "new")
	for _, want := range []error{nil, fs.ErrExist} {
		if err := os.WriteFile(from, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := nameNew(from, to, noLinks); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if data, err := os.ReadFile(to); err != nil || string(data) != "text" {
			t.Errorf("got %q, error %v", data, err)
		}
	}
}
