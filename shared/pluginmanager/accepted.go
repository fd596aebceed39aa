package pluginmanager

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// accepted keeps the settings that each version accepted last, for a version that
// refuses later ones. They survive the host, in a file for each version that only its
// owner can read.
type accepted struct {
	dir string

	mu       sync.Mutex
	settings map[string][]byte // by version; what was read or kept since the manager started
}

// last returns the settings that a version accepted last, and false if none are known.
func (a *accepted) last(version string) ([]byte, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastLocked(version)
}

func (a *accepted) lastLocked(version string) ([]byte, bool, error) {
	if settings, ok := a.settings[version]; ok {
		return settings, true, nil
	}
	settings, err := os.ReadFile(filepath.Join(a.dir, version))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	a.settings[version] = settings
	return settings, true, nil
}

// keep remembers what a version has accepted. It writes only what has changed. After an
// error a later manager does not know it.
func (a *accepted) keep(version string, settings []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before, ok, err := a.lastLocked(version); ok && err == nil && bytes.Equal(before, settings) {
		return nil
	}
	a.settings[version] = settings
	return durable.WriteFile(filepath.Join(a.dir, version), settings)
}

// sweep removes the settings of versions that are not installed any more, and drafts
// of killed managers, whose names are no versions.
func (a *accepted) sweep(catalogue *plugincatalogue.Catalogue) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	files, err := os.ReadDir(a.dir)
	for _, f := range files {
		if _, missing := catalogue.Find(f.Name()); errors.Is(missing, plugincatalogue.ErrNotFound) {
			delete(a.settings, f.Name())
			err = errors.Join(err, os.Remove(filepath.Join(a.dir, f.Name())))
		}
	}
	return err
}
