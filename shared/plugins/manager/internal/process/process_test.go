package process

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOpenRunDir_RemovesTheRehearsalOfAKilledHost(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "scratch", "new.db")
	for _, err := range []error{os.Chmod(dir, 0o700), os.Mkdir(filepath.Dir(left), 0o700), os.WriteFile(left, []byte("secret"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := OpenRunDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := os.Stat(r.Scratch); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that nothing is left", err)
	}
}
