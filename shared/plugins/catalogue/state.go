package catalogue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cms-personal/personal/shared/durable"
)

const stateFile = "state.json"

// State says which versions matter. It outlives the host: one that was killed during
// a swap starts a version that is known to work.
type State struct {
	Active   string `json:"active"`              // the version to run; empty if none was chosen
	LastGood string `json:"last_good,omitempty"` // the version to fall back to; empty if there is none
	Baking   string `json:"trial,omitempty"`     // the version that bakes in a host; empty if there is none
}

// LoadState returns the saved state, or the zero State if there is none.
func (c *Catalogue) LoadState() (State, error) {
	data, err := readSmall(filepath.Join(c.dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	var s State
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return State{}, fmt.Errorf("reading the plugin catalogue's state: %w", err)
	}
	return s, nil
}

// SaveState replaces the state on disk: after a crash it is the old or the new one.
func (c *Catalogue) SaveState(s State) error {
	for _, version := range []string{s.Active, s.LastGood, s.Baking} {
		if version != "" && !ValidVersion(version) {
			return refuseVersion(version)
		}
	}
	data, err := json.Marshal(s)
	if err == nil {
		err = durable.WriteFile(filepath.Join(c.dir, stateFile), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("saving the plugin catalogue's state: %w", err)
	}
	return nil
}

// ActivateFirst returns the active version. If no version is active yet, it activates
// version, or the highest installed version if version is empty. The error is a
// [*RefusedError] of kind [ErrNotFound] if none is installed.
func (c *Catalogue) ActivateFirst(version string) (active string, err error) {
	state, err := c.LoadState()
	if err != nil || state.Active != "" {
		return state.Active, err
	}
	if version == "" {
		entries, err := c.List()
		if err != nil {
			return "", err
		}
		if len(entries) == 0 {
			return "", refuse(ErrNotFound, "", "the catalogue is empty")
		}
		version = entries[0].Manifest.Version
	}
	state.Active = version
	return version, c.SaveState(state)
}
