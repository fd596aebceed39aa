package catalogue

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// record sets when a binary was first seen.
func record(t *testing.T, c *Catalogue, e Entry, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, seenDir, e.Manifest.SHA256), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantSeen(t *testing.T, c *Catalogue, e Entry, want time.Time) {
	t.Helper()
	if got, err := c.FirstSeen(e); err != nil || got.Sub(want).Abs() > time.Minute {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}

func TestFirstSeen_IsKeptWhenTheBinaryIsInstalledAgain(t *testing.T) {
	c := open(t)
	e := install(t, c, "1.0.0")
	long := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	record(t, c, e, "2026-01-02T03:04:05Z\n")
	wantSeen(t, c, install(t, c, "1.0.0"), long)
	if err := c.Remove("1.0.0"); err != nil {
		t.Fatal(err)
	}
	wantSeen(t, c, install(t, c, "1.0.0"), long)
	wantSeen(t, c, install(t, c, "1.1.0"), time.Now()) // another binary
}

func TestFirstSeen_CopiedFolderIsNew(t *testing.T) {
	from, to := open(t), open(t)
	e := install(t, from, "1.0.0")
	record(t, from, e, "2026-01-02T03:04:05Z\n")
	old := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := os.CopyFS(filepath.Join(to.dir, "1.0.0"), os.DirFS(e.Dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(to.dir, "1.0.0"), old, old); err != nil {
		t.Fatal(err)
	}
	copied := Entry{Manifest: e.Manifest, Dir: filepath.Join(to.dir, "1.0.0")}
	wantSeen(t, to, copied, time.Now())
	wantSeen(t, to, copied, time.Now())
}

func TestFirstSeen_DamagedRecordIsNew(t *testing.T) {
	c := open(t)
	e := install(t, c, "1.0.0")
	record(t, c, e, "")
	wantSeen(t, c, e, time.Now())
	e.Manifest.SHA256 = "../../state"
	if at, err := c.FirstSeen(e); err == nil {
		t.Errorf("got %v, want an error for a manifest without a sum", at)
	}
}
