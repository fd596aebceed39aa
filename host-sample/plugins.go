package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// errNoPlugin tells a beginner what to do.
var errNoPlugin = errors.New("no plugin is installed: give one with --plugin BINARY, or run host-sample plugin install BINARY first")

// openCatalogue opens the catalogue below a plugins folder.
func openCatalogue(pluginsDir string) (*plugincatalogue.Catalogue, error) {
	return plugincatalogue.Open(filepath.Join(pluginsDir, plugincatalogue.Name))
}

// choosePlugin installs the given binary, if any, and makes sure that a version
// is active: where none is yet, the one just installed, or else the highest.
func choosePlugin(ctx context.Context, c *plugincatalogue.Catalogue, binary string, log *slog.Logger) error {
	installed, err := installPlugin(ctx, c, binary)
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

// installPlugin returns the version installed, empty if no binary is given.
func installPlugin(ctx context.Context, c *plugincatalogue.Catalogue, binary string) (string, error) {
	if binary == "" {
		return "", nil
	}
	e, err := c.Install(ctx, binary)
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

// pluginReporter reports on the plugin for administrators.
type pluginReporter struct {
	catalogue *plugincatalogue.Catalogue
	status    func() pluginmanager.Status
}

// pluginReport is the answer of GET /admin/api/plugin.
type pluginReport struct {
	Active   activePlugin    `json:"active"`
	Previous *pluginVersion  `json:"previous"` // null: versions are not swapped yet
	Versions []pluginVersion `json:"versions"` // the highest first
	Swap     *struct{}       `json:"swap"`     // null: none is under way
}

type activePlugin struct {
	Version    string              `json:"version"`
	Generation int                 `json:"generation"`
	PID        int                 `json:"pid"`
	State      pluginmanager.State `json:"state"`
	Restarts   int                 `json:"restarts"`
	LastError  string              `json:"last_error,omitempty"`
}

type pluginVersion struct {
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

func (p pluginReporter) report() (pluginReport, error) {
	entries, err := p.catalogue.List()
	if err != nil {
		return pluginReport{}, err
	}
	state, err := p.catalogue.LoadState()
	if err != nil {
		return pluginReport{}, err
	}
	report := pluginReport{Active: active(p.status(), state.Active), Versions: []pluginVersion{}}
	for _, e := range entries {
		report.Versions = append(report.Versions, pluginVersion{Version: e.Manifest.Version, SHA256: e.Manifest.SHA256})
	}
	return report, nil
}

// active describes the live process, or, while there is none, the version that
// is to run.
func active(s pluginmanager.Status, chosen string) activePlugin {
	a := activePlugin{
		Version: s.Version, Generation: s.Generation, PID: s.PID, State: s.State,
		Restarts: s.Restarts, LastError: s.LastError,
	}
	if a.Version == "" {
		a.Version = chosen
	}
	return a
}
