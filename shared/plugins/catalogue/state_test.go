package catalogue

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

func TestActivateFirst_KeepsTheActiveVersion(t *testing.T) {
	c := open(t)
	if _, err := c.ActivateFirst(""); err == nil {
		t.Error("an empty catalogue: got no error")
	} else {
		wantRefused(t, err, ErrNotFound)
	}
	install(t, c, "1.0.0")
	install(t, c, "2.0.0")
	install(t, c, "1.5.0")
	want := State{Active: "2.0.0", LastGood: "1.0.0"}
	if active, err := c.ActivateFirst(""); err != nil || active != want.Active {
		t.Errorf("got %s, %v, want the highest version", active, err)
	}
	if err := c.SaveState(want); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"", "1.5.0"} {
		if active, err := c.ActivateFirst(version); err != nil || active != want.Active {
			t.Errorf("ActivateFirst(%q) with an active version: got %s, %v, want that one", version, active, err)
		}
	}
	if got, err := c.LoadState(); err != nil || got != want {
		t.Errorf("got state %v, %v, want %v", got, err, want)
	}
}

func TestActivateFirst_PrefersTheGivenVersion(t *testing.T) {
	c := open(t)
	install(t, c, "1.0.0")
	install(t, c, "2.0.0")
	active, err := c.ActivateFirst("1.0.0")
	if state, loadErr := c.LoadState(); err != nil || loadErr != nil || active != "1.0.0" || state.Active != active {
		t.Errorf("got %s, %v, state %v, want version 1.0.0 to be active", active, err, state)
	}
}
