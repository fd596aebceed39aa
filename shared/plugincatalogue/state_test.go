package plugincatalogue

import (
	"os"
	"path/filepath"
	"testing"
)

func TestState_LoadReturnsWhatWasSavedLast(t *testing.T) {
	c := open(t)
	if s, err := c.LoadState(); err != nil || s != (State{}) {
		t.Errorf("before the first save: got %v (%v), want the zero State", s, err)
	}
	for _, want := range []State{{Active: "1.0.0"}, {Active: "2.0.0", LastGood: "1.0.0"}} {
		if err := c.SaveState(want); err != nil {
			t.Fatal(err)
		}
		if got, err := c.LoadState(); err != nil || got != want {
			t.Errorf("got %v (%v), want %v", got, err, want)
		}
	}
	left, err := os.ReadDir(c.dir)
	if err != nil || len(left) != 1 {
		t.Errorf("got files %v in the catalogue (%v), want only the state", left, err)
	}
}

func TestSaveState_RefusesInvalidVersion(t *testing.T) {
	wantRefused(t, open(t).SaveState(State{Active: "../1.0.0"}), ErrNotFound)
}

func TestLoadState_DamagedFileIsAnError(t *testing.T) {
	c := open(t)
	if err := os.WriteFile(filepath.Join(c.dir, stateFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := c.LoadState(); err == nil {
		t.Errorf("got %v, want an error", s)
	}
}
