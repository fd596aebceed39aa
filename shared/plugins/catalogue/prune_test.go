package catalogue

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestPrune_KeepsHighestVersionsAndThoseInUse(t *testing.T) {
	all := []string{"1.0.0", "2.0.0", "3.0.0", "4.0.0", "5.0.0-rc.1", "10.0.0"}
	for name, tt := range map[string]struct {
		keep    int
		state   State
		removed []string
		left    []string
	}{
		"nothing in use":          {3, State{}, []string{"3.0.0", "2.0.0", "1.0.0"}, []string{"10.0.0", "5.0.0-rc.1", "4.0.0"}},
		"old ones in use":         {1, State{Active: "2.0.0", LastGood: "1.0.0"}, []string{"5.0.0-rc.1", "4.0.0", "3.0.0"}, []string{"10.0.0", "2.0.0", "1.0.0"}},
		"more than installed":     {99, State{}, nil, []string{"10.0.0", "5.0.0-rc.1", "4.0.0", "3.0.0", "2.0.0", "1.0.0"}},
		"only the one in use":     {0, State{Active: "3.0.0"}, []string{"10.0.0", "5.0.0-rc.1", "4.0.0", "2.0.0", "1.0.0"}, []string{"3.0.0"}},
		"the highest ones in use": {2, State{Active: "10.0.0", LastGood: "5.0.0-rc.1"}, []string{"4.0.0", "3.0.0", "2.0.0", "1.0.0"}, []string{"10.0.0", "5.0.0-rc.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			for _, v := range all {
				install(t, c, v)
			}
			if err := c.SaveState(tt.state); err != nil {
				t.Fatal(err)
			}
			removed, err := c.Prune(tt.keep)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.removed, removed); diff != "" {
				t.Error("removed versions: ", diff)
			}
			if diff := cmp.Diff(tt.left, versions(t, c)); diff != "" {
				t.Error("remaining versions: ", diff)
			}
		})
	}
}

func TestPrune_RefusesNegativeNumber(t *testing.T) {
	c := open(t)
	install(t, c, "1.0.0")
	if removed, err := c.Prune(-1); err == nil || len(removed) != 0 {
		t.Errorf("got %v removed (%v), want an error", removed, err)
	}
}

// longAgo is the time of leftovers of a killed process.
func longAgo() time.Time { return time.Now().Add(-2 * staleAfter) }

func TestSweep_RemovesLeftoversOfKilledProcesses(t *testing.T) {
	work := []string{".install-1", ".remove-1", ".stage-1"}
	for name, act := range map[string]func(t *testing.T, c *Catalogue){
		"when the catalogue is opened": func(t *testing.T, c *Catalogue) {
			if _, err := Open(c.dir); err != nil {
				t.Fatal(err)
			}
		},
		"when a version is installed": func(t *testing.T, c *Catalogue) {
			install(t, c, "2.0.0")
			if err := c.Remove("2.0.0"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			outside := t.TempDir()
			for _, dir := range append(work, ".install-young", ".other", "1.0.0") {
				mkdirOld(t, filepath.Join(c.dir, dir))
			}
			if err := os.Chtimes(filepath.Join(c.dir, ".install-young"), time.Now(), time.Now()); err != nil {
				t.Fatal(err)
			}
			for name, modified := range map[string]time.Time{".write-old": longAgo(), ".write-young": time.Now(), ".install-file": longAgo()} {
				writeAt(t, filepath.Join(c.dir, name), modified)
			}
			if err := os.Symlink(outside, filepath.Join(c.dir, ".install-link")); err != nil {
				t.Fatal(err)
			}
			old := []unix.Timeval{unix.NsecToTimeval(longAgo().UnixNano()), unix.NsecToTimeval(longAgo().UnixNano())}
			if err := unix.Lutimes(filepath.Join(c.dir, ".install-link"), old); err != nil {
				t.Fatal(err)
			}
			act(t, c)
			_ = os.RemoveAll(filepath.Join(c.dir, seenDir)) // in the second case
			if diff := cmp.Diff([]string{".install-file", ".install-link", ".install-young", ".other", ".write-young", "1.0.0"},
				names(t, c.dir)); diff != "" {
				t.Error(diff)
			}
			if _, err := os.Stat(outside); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStage_RemovesLeftoversOfKilledProcesses(t *testing.T) {
	c := open(t)
	e := install(t, c, "1.0.0")
	private := filepath.Join(t.TempDir(), "run")
	mkdirOld(t, filepath.Join(private, ".stage-1"))
	mustStage(t, c, e, private)
	if diff := cmp.Diff([]string{e.Manifest.SHA256}, names(t, private)); diff != "" {
		t.Error(diff)
	}
}

// mkdirOld makes a folder with a file in it, and an old time.
func mkdirOld(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, Name), []byte("half"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(dir, longAgo(), longAgo()); err != nil {
		t.Fatal(err)
	}
}

// writeAt makes a file with a time of modification.
func writeAt(t *testing.T, path string, modified time.Time) {
	t.Helper()
	if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, modified, modified); err != nil {
		t.Fatal(err)
	}
}
