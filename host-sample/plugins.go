package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/cms-personal/personal/shared/pluginadmin"
	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// errNoPlugin tells a beginner what to do.
var errNoPlugin = errors.New("no plugin is installed: give one with --plugin FILE, or run host-sample plugin install FILE first")

// openCatalogue opens the catalogue below a plugins folder.
func openCatalogue(pluginsDir string, opts ...plugincatalogue.Option) (*plugincatalogue.Catalogue, error) {
	return plugincatalogue.Open(filepath.Join(pluginsDir, plugincatalogue.Name), opts...)
}

// trust makes a catalogue take plugins signed by the keys in these files only,
// if any file is named. An empty name, left by an empty variable say, is an
// error: it must not turn the check of signatures off.
func trust(keyFiles []string) (plugincatalogue.Option, error) {
	keys, err := plugincatalogue.ReadKeys(keyFiles...)
	return plugincatalogue.WithKeys(keys), err
}

// choosePlugin installs the given binary or bundle, if any, and makes sure that a version
// is active: where none is yet, the one just installed, or else the highest.
func choosePlugin(ctx context.Context, c *plugincatalogue.Catalogue, path string, log *slog.Logger) error {
	installed, err := installPlugin(ctx, c, path)
	if err != nil {
		return &settingError{key: "plugin", err: err}
	}
	state, err := c.LoadState()
	if err != nil {
		return err
	}
	if state.Active == "" {
		if installed == "" {
			if installed, err = highest(c); err != nil {
				return err
			}
		}
		state.Active = installed
		log.Info("plugin activated", "version", installed)
		return c.SaveState(state)
	}
	if installed != "" && installed != state.Active {
		log.Warn("the plugin given is installed, another version stays active", "installed", installed, "active", state.Active)
	}
	return nil
}

// installPlugin returns the version installed, empty if no path is given.
func installPlugin(ctx context.Context, c *plugincatalogue.Catalogue, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	e, err := c.Install(ctx, path)
	if errors.Is(err, plugincatalogue.ErrConflict) {
		err = fmt.Errorf("%w (a version never changes: stamp the new build with a version of its own)", err)
	}
	return e.Manifest.Version, err
}

func highest(c *plugincatalogue.Catalogue) (string, error) {
	entries, err := c.List()
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return "", errNoPlugin
	}
	return entries[0].Manifest.Version, nil
}

// uploads returns what takes uploaded plugins: nil, which takes none, unless the
// catalogue has keys to check them with.
func uploads(c *plugincatalogue.Catalogue, log *slog.Logger) *pluginadmin.Uploads {
	if !c.NeedsSignatures() {
		return nil
	}
	return pluginadmin.NewUploads(c, 0, log)
}
