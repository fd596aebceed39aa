package catalogue

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/durable"
)

// stranger is a user who is neither root nor the one of the tests.
const stranger = 54321

// deciding returns every folder and file that decides what a catalogue with one version runs.
func deciding(c *Catalogue, e Entry) []string {
	return []string{
		c.dir, filepath.Join(c.dir, stateFile), e.Dir, e.Binary(), filepath.Join(e.Dir, manifestFile), filepath.Join(e.Dir, signatureFile),
	}
}

func TestOpen_RefusesWhatOthersCanChange(t *testing.T) {
	spoil := map[string]func(path string) error{
		"writable by everyone": func(path string) error { return os.Chmod(path, 0o707) },
	}
	if os.Geteuid() == 0 {
		spoil["of another user"] = func(path string) error { return os.Chown(path, stranger, -1) }
	}
	for name, do := range spoil {
		t.Run(name, func(t *testing.T) {
			for i := range deciding(&Catalogue{}, Entry{}) {
				c := open(t)
				e := install(t, c, "1.0.0")
				if err := errors.Join(c.SaveState(State{Active: "1.0.0"}), os.WriteFile(filepath.Join(e.Dir, signatureFile), nil, 0o600)); err != nil {
					t.Fatal(err)
				}
				path := deciding(c, e)[i]
				if err := do(path); err != nil {
					t.Fatal(err)
				}
				_, err := Open(c.dir)
				var untrusted *durable.UntrustedError
				if !errors.As(err, &untrusted) || untrusted.Path != path {
					t.Errorf("%s: got %v, want that it names the path", path, err)
				}
			}
		})
	}
}

func TestOpen_GroupMayWriteFoldersOnly(t *testing.T) {
	c := open(t)
	e := install(t, c, "1.0.0")
	if err := errors.Join(os.Chmod(c.dir, 0o770), os.Chmod(e.Dir, 0o770)); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	if _, err := Open(c.dir, WithLog(slog.New(slog.NewTextHandler(&log, nil)))); err != nil {
		t.Errorf("got %v, want a warning", err)
	}
	for _, dir := range []string{c.dir, e.Dir} {
		if !strings.Contains(log.String(), `command="chmod g-w `+dir+`"`) {
			t.Errorf("got the log %q, want a warning about %s", log.String(), dir)
		}
	}
	if err := os.Chmod(e.Binary(), 0o570); err != nil {
		t.Fatal(err)
	}
	var untrusted *durable.UntrustedError
	if _, err := Open(c.dir); !errors.As(err, &untrusted) || untrusted.Path != e.Binary() {
		t.Errorf("a binary that the group can write to: got %v, want that it is refused", err)
	}
}

func TestStage_RefusesWhatOthersCanChange(t *testing.T) {
	for name, spoil := range map[string]struct {
		part string
		mode fs.FileMode
	}{
		"binary":   {Name, 0o520},
		"manifest": {manifestFile, 0o602},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			e := install(t, c, "1.0.0")
			if err := os.Chmod(filepath.Join(e.Dir, spoil.part), spoil.mode); err != nil { // after Open
				t.Fatal(err)
			}
			_, err := c.Stage(t.Context(), e, filepath.Join(t.TempDir(), "run"))
			wantRefused(t, err, ErrUntrusted)
			wantRefused(t, c.Verify(t.Context(), e), ErrUntrusted)
		})
	}
	t.Run("folder", func(t *testing.T) {
		c := open(t)
		e := install(t, c, "1.0.0")
		if err := os.Chmod(e.Dir, 0o707); err != nil {
			t.Fatal(err)
		}
		_, err := c.Find("1.0.0")
		wantRefused(t, err, ErrUntrusted)
	})
}

func TestReadKeys_RefusesFileThatOthersCanChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.pub")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o620)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKeys(path); !isUntrusted(err) || !strings.Contains(err.Error(), "run chmod go-w "+path) {
		t.Errorf("got %v, want that others can change it", err)
	}
}
