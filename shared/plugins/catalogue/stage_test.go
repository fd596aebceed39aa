package catalogue

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestStage_MakesPrivateVerifiedCopy(t *testing.T) {
	c := open(t)
	e := install(t, c, "1.0.0")
	private := filepath.Join(t.TempDir(), "run")
	path := mustStage(t, c, e, private)
	if sum, err := sumOf(t.Context(), path); err != nil || sum != e.Manifest.SHA256 {
		t.Errorf("got sum %s (%v), want %s", sum, err, e.Manifest.SHA256)
	}
	for p, want := range map[string]os.FileMode{path: 0o500, filepath.Dir(path): 0o700, private: 0o700} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got mode %v (%v), want %v", p, info.Mode().Perm(), err, want)
		}
	}
}

func mustStage(t testing.TB, c *Catalogue, e Entry, private string) string {
	t.Helper()
	path, err := c.Stage(t.Context(), e, private)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStage_RefusesTamperedBinary(t *testing.T) {
	for name, tamper := range map[string]func(t *testing.T, path string){
		"another byte": func(t *testing.T, path string) { overwrite(t, path) },
		"nothing":      func(t *testing.T, path string) { remove(t, path) },
		"a link": func(t *testing.T, path string) {
			remove(t, path)
			if err := os.Symlink("/bin/sh", path); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			e := install(t, c, "1.0.0")
			tamper(t, e.Binary())
			private := t.TempDir()
			if err := os.Chmod(private, 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := c.Stage(t.Context(), e, private)
			wantRefused(t, err, ErrTampered)
			left, err := os.ReadDir(private)
			if err != nil || len(left) != 0 {
				t.Errorf("got files %v (%v), want none", left, err)
			}
		})
	}
}

func TestStage_RefusesChangedManifest(t *testing.T) {
	c := open(t)
	e := install(t, c, "1.0.0")
	path := filepath.Join(e.Dir, manifestFile)
	rewrite(t, path, bytes.Replace(read(t, path), []byte(`"max": 1`), []byte(`"max": 2`), 1))
	_, err := c.Stage(t.Context(), e, filepath.Join(t.TempDir(), "run"))
	wantRefused(t, err, ErrTampered)
}

func overwrite(t *testing.T, path string) {
	t.Helper()
	remove(t, path)
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho pwned\n"), 0o500); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestStage_ReusesOnlyAnIntactCopy(t *testing.T) {
	c := open(t)
	e := install(t, c, "1.0.0")
	private := filepath.Join(t.TempDir(), "run")
	path := mustStage(t, c, e, private)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(mustStage(t, c, e, private))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("got a new copy (%v), want the earlier one", err)
	}

	overwrite(t, path)
	if sum, err := sumOf(t.Context(), mustStage(t, c, e, private)); err != nil || sum != e.Manifest.SHA256 {
		t.Errorf("got a copy with the sum %s (%v), want %s", sum, err, e.Manifest.SHA256)
	}

	if err := os.Chmod(path, 0o600); err != nil { // as some backups restore it
		t.Fatal(err)
	}
	if info, err := os.Stat(mustStage(t, c, e, private)); err != nil || info.Mode() != copyMode {
		t.Errorf("got a copy with mode %v (%v), want %v", info.Mode(), err, os.FileMode(copyMode))
	}

	overwrite(t, e.Binary())
	if sum, err := sumOf(t.Context(), mustStage(t, c, e, private)); err != nil || sum != e.Manifest.SHA256 {
		t.Errorf("the original has changed: got a copy with the sum %s (%v), want the earlier one, %s", sum, err, e.Manifest.SHA256)
	}
}

func TestStage_RefusesFolderOpenToOthers(t *testing.T) {
	c := open(t)
	e := install(t, c, "1.0.0")
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	if path, err := c.Stage(t.Context(), e, shared); err == nil {
		t.Errorf("got a copy at %s, want an error", path)
	}
}

func TestVerify_ChecksWhatIsOnDisk(t *testing.T) {
	c := openWith(t)
	e := install(t, c, "1.0.0")
	if err := c.Verify(t.Context(), e); err != nil {
		t.Errorf("an intact version: got %v, want no error", err)
	}
	if err := os.Chmod(e.Binary(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(e.Binary(), []byte("another"), 0o700); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, c.Verify(t.Context(), e), ErrTampered)
	if err := os.Remove(e.Binary()); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, c.Verify(t.Context(), e), ErrTampered)
}
