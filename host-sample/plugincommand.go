package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// pluginCommand works on the catalogue on disk: whoever may write there may.
type pluginCommand struct {
	Data    string `default:"./data" env:"PERSONAL_DATA" placeholder:"DIR" help:"The data folder, made if there is none (${default})."`
	Plugins string `env:"PERSONAL_PLUGINS" placeholder:"DIR" help:"The folder of the plugin catalogue, by default DATA/plugins."`

	Install pluginInstall `cmd:"" help:"Install a plugin binary, which is run to ask for its version, and print that."`
	List    pluginList    `cmd:"" help:"List the installed versions, the highest first, with their sha256."`
	Remove  pluginRemove  `cmd:"" help:"Remove an installed version that is not in use."`
}

func (p *pluginCommand) open(out output) (*plugincatalogue.Catalogue, error) {
	if p.Plugins != "" {
		return openCatalogue(p.Plugins)
	}
	dir, err := absolute(p.Data)
	if err != nil {
		return nil, &settingError{key: "data", err: err}
	}
	if err := makeDataFolder(dir, out.log()); err != nil {
		return nil, err
	}
	return openCatalogue(filepath.Join(dir, "plugins"))
}

type pluginInstall struct {
	Binary   string `arg:"" help:"The plugin binary."`
	Activate bool   `help:"Also choose it as the version that a host starts with. Refused while a host runs on the data folder."`
}

// Run prints the version that was installed.
func (p *pluginInstall) Run(ctx context.Context, parent *commands, out output) error {
	c, err := parent.Plugin.open(out)
	if err != nil {
		return err
	}
	version, err := installPlugin(ctx, c, p.Binary)
	if err != nil {
		return err
	}
	if p.Activate {
		if err := parent.Plugin.activate(c, version, out); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out.stdout, version)
	return err
}

// activate chooses a version on disk. It holds the data folder meanwhile, so
// that no running host is surprised.
func (p *pluginCommand) activate(c *plugincatalogue.Catalogue, version string, out output) (err error) {
	if p.Plugins != "" {
		return &settingError{key: "plugins", err: errors.New("--activate works on the data folder's own catalogue only: " +
			"of another one nobody knows which hosts run on it")}
	}
	folder, err := openDataFolder(p.Data, out.log())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.close()) }()
	state, err := c.LoadState()
	if err != nil {
		return err
	}
	state.Active = version
	return c.SaveState(state)
}

type pluginList struct{}

// Run prints one version on a line.
func (*pluginList) Run(parent *commands, out output) error {
	c, err := parent.Plugin.open(out)
	if err != nil {
		return err
	}
	entries, err := c.List()
	if err != nil {
		return err
	}
	state, err := c.LoadState()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out.stdout, 0, 0, 2, ' ', 0)
	for _, e := range entries {
		mark := ""
		if e.Manifest.Version == state.Active {
			mark = "\tactive"
		}
		fmt.Fprintf(table, "%s\t%s%s\n", e.Manifest.Version, e.Manifest.SHA256, mark)
	}
	return table.Flush()
}

type pluginRemove struct {
	Version string `arg:"" help:"The version to remove."`
}

// Run removes a version.
func (p *pluginRemove) Run(parent *commands, out output) error {
	c, err := parent.Plugin.open(out)
	if err != nil {
		return err
	}
	return c.Remove(p.Version)
}
