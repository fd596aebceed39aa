package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// pluginCommand works on the catalogue on disk: whoever may write there may. Use,
// rollback and status ask the running host.
type pluginCommand struct {
	Data    string `default:"./data" env:"PERSONAL_DATA" placeholder:"DIR" help:"The data folder, made if there is none (${default})."`
	Plugins string `env:"PERSONAL_PLUGINS" placeholder:"DIR" help:"The folder of the plugin catalogue, by default DATA/plugins."`

	PluginKey []string `sep:"none" env:"PERSONAL_PLUGIN_KEY" placeholder:"FILE" help:"Minisign public keys, one on a line: only plugins signed by one of them are installed. May be repeated."`

	Install pluginInstall `cmd:"" help:"Install a plugin binary or bundle, which is run to ask for its version, and print that."`
	List    pluginList    `cmd:"" help:"List the installed versions, the highest first, with their sha256, which is in use, what is wrong with them and, given keys, who signed them."`
	Remove  pluginRemove  `cmd:"" help:"Remove an installed version that is not in use."`
	Prune   pluginPrune   `cmd:"" help:"Remove old versions that are not in use, and print them."`

	Use      pluginUse      `cmd:"" help:"Have the running host swap to an installed version, and show the steps. Of the version in use: a restart with fresh settings."`
	Rollback pluginRollback `cmd:"" help:"Have the running host go back to the version before."`
	Status   pluginStatus   `cmd:"" help:"Show what the running host says of its plugin."`
}

func (p *pluginCommand) open(out output) (*plugincatalogue.Catalogue, error) {
	trusted, err := trust(p.PluginKey)
	if err != nil {
		return nil, &settingError{key: "plugin-key", err: err}
	}
	if p.Plugins != "" {
		return openCatalogue(p.Plugins, trusted)
	}
	dir, err := absolute(p.Data)
	if err != nil {
		return nil, &settingError{key: "data", err: err}
	}
	if err := makeDataFolder(dir, out.log()); err != nil {
		return nil, err
	}
	return openCatalogue(filepath.Join(dir, "plugins"), trusted)
}

type pluginInstall struct {
	File     string `arg:"" help:"The plugin binary, or a bundle of it; a signed bundle if there are keys."`
	Activate bool   `help:"Also choose it as the version that a host starts with. Refused while a host runs on the data folder."`
}

// Run prints the version that was installed.
func (p *pluginInstall) Run(ctx context.Context, parent *commands, out output) error {
	c, err := parent.Plugin.open(out)
	if err != nil {
		return err
	}
	version, err := installPlugin(ctx, c, p.File)
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

// errOtherCMS says that a manager works with the data folder that is none of this
// program's.
var errOtherCMS = errors.New("a CMS runs its plugin in this data folder: stop it first, or swap by its own admin's API")

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
	if owner, err := lockOwner(folder.path("run/lock")); err != nil || owner != "" {
		return errors.Join(err, errOtherCMS, folder.close())
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
func (*pluginList) Run(ctx context.Context, parent *commands, out output) error {
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
		signed, err := verified(ctx, c, e)
		if err != nil {
			return err
		}
		marks := slices.DeleteFunc([]string{use(state, e.Manifest.Version), signed}, func(mark string) bool { return mark == "" })
		fmt.Fprintln(table, strings.Join(append([]string{e.Manifest.Version, e.Manifest.SHA256}, marks...), "\t"))
	}
	return table.Flush()
}

// use tells what a version is there for, if anything.
func use(s plugincatalogue.State, version string) string {
	switch version {
	case s.Active:
		return "active"
	case s.LastGood:
		return "last good"
	case s.Baking:
		return "on trial"
	}
	return ""
}

// verified tells why a version could not be started, or else whose signature it
// bears, if keys are given.
func verified(ctx context.Context, c *plugincatalogue.Catalogue, e plugincatalogue.Entry) (string, error) {
	err := c.Verify(ctx, e)
	var refused *plugincatalogue.RefusedError
	if errors.As(err, &refused) {
		return refused.Kind.Error(), nil
	}
	if err != nil {
		return "", err
	}
	key, err := c.Signer(e)
	if err != nil || key == "" {
		return "", err
	}
	return "signed by " + key, nil
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

type pluginPrune struct {
	Keep int `default:"3" help:"How many of the highest versions to keep (${default}); the active one and the one to fall back to stay too."`
}

// Run prints the versions that were removed, one on a line.
func (p *pluginPrune) Run(parent *commands, out output) error {
	c, err := parent.Plugin.open(out)
	if err != nil {
		return err
	}
	removed, err := c.Prune(p.Keep)
	for _, version := range removed {
		fmt.Fprintln(out.stdout, version)
	}
	return err
}
