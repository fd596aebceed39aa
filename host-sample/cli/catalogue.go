package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

var errNoPlugin = errors.New("no plugin is installed: name one with --plugin FILE, or run host-sample plugin install FILE first")

// openCatalogue opens the catalogue below a plugins folder.
func openCatalogue(pluginsDir string, log *slog.Logger, opts ...catalogue.Option) (*catalogue.Catalogue, error) {
	if err := durable.MakeFolder(pluginsDir, log); err != nil {
		return nil, fmt.Errorf("opening the plugin catalogue: %w", err)
	}
	return catalogue.Open(filepath.Join(pluginsDir, catalogue.Name), append(opts, catalogue.WithLog(log))...)
}

// trust makes a catalogue accept only plugins signed with the keys in these files,
// if any file is named. An empty name, from an empty variable for example, is an
// error: it must not turn the check of signatures off.
func trust(keyFiles []string) ([]catalogue.Option, error) {
	if len(keyFiles) == 0 {
		return nil, nil
	}
	keys, err := catalogue.ReadKeys(keyFiles...)
	return []catalogue.Option{catalogue.WithKeys(keys)}, err
}

// choosePlugin installs the given binary or bundle, unless the path is empty, and
// makes sure that a version is active: if none is yet, it activates the one just
// installed, or else the highest. If a version is active already, neither a full disk is an error nor another build of
// an installed version, such as that of an image beside that of a bundle.
func choosePlugin(ctx context.Context, c *catalogue.Catalogue, path string, log *slog.Logger) error {
	var version string
	if path != "" {
		var err error
		version, err = installPlugin(ctx, c, path)
		_, full := errors.AsType[*durable.FullError](err)
		if (full || errors.Is(err, catalogue.ErrConflict)) && hasActive(c) {
			log.Warn("the plugin that --plugin names was not installed", "error", err)
			return nil
		}
		if err != nil {
			return &flagError{"plugin", err}
		}
	}
	active, err := c.ActivateFirst(version)
	if errors.Is(err, catalogue.ErrNotFound) {
		return errNoPlugin
	}
	if version != "" && version != active && err == nil {
		log.Warn("the plugin that --plugin names was installed, but another version stays active", "installed", version, "active", active)
	}
	return err
}

// warnOfNewer warns if the plugin beside this program is newer than the active one.
func warnOfNewer(ctx context.Context, c *catalogue.Catalogue, beside string, log *slog.Logger) {
	state, err := c.LoadState()
	if err != nil {
		return // the manager says it
	}
	if newer := c.Newer(ctx, beside, state.Active); newer != "" {
		log.Warn("another plugin version is active, so the one beside this program is not run: install it, and swap to it", "active", state.Active,
			"offered", newer, "file", beside)
	}
}

// besideProgram returns the path of the plugin that make build puts beside this program, "" if that is unknown.
func besideProgram() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Join(filepath.Dir(self), catalogue.Name)
}

func hasActive(c *catalogue.Catalogue) bool {
	state, err := c.LoadState()
	return err == nil && state.Active != ""
}

// installPlugin returns the version that it installed.
func installPlugin(ctx context.Context, c *catalogue.Catalogue, path string) (string, error) {
	e, err := c.Install(ctx, path)
	if errors.Is(err, catalogue.ErrConflict) {
		err = fmt.Errorf("%w (an installed version never changes: give the new build its own version)", err)
	}
	return e.Manifest.Version, err
}
