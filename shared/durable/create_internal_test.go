package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

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
