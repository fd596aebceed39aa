package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/cms-personal/personal/shared/durable"
)

func TestWriteFile_ReplacesFileAndLeavesNothingElse(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f.json")
	for _, want := range []string{"a longer first text", "second"} {
		if err := durable.WriteFile(path, []byte(want)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Fatalf("got %q (%v), want %q", got, err, want)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, want 0600", info.Mode())
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("got %d files in the folder, want 1", len(files))
	}
}

func TestWriteFile_FailureLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	occupied := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(occupied, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(occupied, nil); err == nil {
		t.Fatal("a folder at the path: got no error, want one")
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("got %d files in the folder, want 1", len(files))
	}
	err := durable.WriteFile(filepath.Join(dir, "absent", "f"), nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: got %v, want that it does not exist", err)
	}
}

func TestCreateFile_NeverOverwrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := durable.CreateFile(path, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := durable.CreateFile(path, []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want that the file exists", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "first" {
		t.Errorf("got %q (%v), want the first text", got, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("got %d files in the folder (%v), want 1", len(files), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("got file %v (%v), want one of mode 0600", info, err)
	}
}
