package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

// pluginCommand manages plugin versions. Install, list, remove and prune work on
// the catalogue on disk, and need write access to it. Use, rehearse, rollback and status call
// the running host.
type pluginCommand struct {
	Data    string `default:"./data" env:"PERSONAL_DATA" placeholder:"DIR" help:"The data folder, created if missing (${default})."`
	Plugins string `env:"PERSONAL_PLUGINS" placeholder:"DIR" help:"The folder of the plugin catalogue, by default DATA/plugins."`

	PluginKey []string `sep:"none" env:"PERSONAL_PLUGIN_KEY" placeholder:"FILE" help:"Minisign public keys, one per line: only plugins signed with one of them are installed. May be repeated."`

	Install pluginInstall `cmd:"" help:"Install a plugin binary or bundle and print its version. The binary is run once to get its version."`
	List    pluginList    `cmd:"" help:"List the installed versions, highest first, with sha256 and state: active, last good or baking. Also shows why a version cannot be started and, if keys are given, which key signed it."`
	Remove  pluginRemove  `cmd:"" help:"Remove an installed version that is not in use."`
	Prune   pluginPrune   `cmd:"" help:"Remove old versions that are not in use, and print them."`

	Use      pluginUse      `cmd:"" help:"Make the running host swap to an installed version, and show the steps. Swapping to the active version restarts the plugin with its current settings."`
	Rehearse pluginRehearse `cmd:"" help:"Make the running host rehearse an installed version without swapping to it, and show the result. The database is not touched."`
	Rollback pluginRollback `cmd:"" help:"Make the running host roll back: during the bake to the previous version, later to the last good version. Shows the steps."`
	Status   pluginStatus   `cmd:"" help:"Show the state of the plugin in the running host."`
}

func (p *pluginCommand) open(out output) (*catalogue.Catalogue, error) {
	trusted, err := trust(p.PluginKey)
	if err != nil {
		return nil, &flagError{"plugin-key", err}
	}
	if p.Plugins != "" {
		return openCatalogue(p.Plugins, out.log(), trusted...)
	}
	dir, err := absolute(p.Data)
	if err != nil {
		return nil, &flagError{"data", err}
	}
	if err := durable.MakeFolder(dir, out.log()); err != nil {
		return nil, &flagError{"data", err}
	}
	return openCatalogue(filepath.Join(dir, "plugins"), out.log(), trusted...)
}

type pluginInstall struct {
	File     string `arg:"" help:"The plugin binary, or a bundle of it; with keys, a signed bundle."`
	Activate bool   `help:"Also activate the version for the next start of the host. Refused while a host runs on the data folder."`
}

// Run prints the version that it installed.
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

// errOtherCMS says that another program's plugin manager uses the data folder.
var errOtherCMS = errors.New("a CMS runs its plugin in this data folder: stop it first, or swap through its own admin API")

// activate makes a version on disk the active one. It locks the data folder
// until then, so that no host starts or runs on it.
func (p *pluginCommand) activate(c *catalogue.Catalogue, version string, out output) (err error) {
	if p.Plugins != "" {
		return &flagError{"plugins", errors.New("--activate works only with the catalogue in the data folder: " +
			"hosts that run on another catalogue cannot be detected")}
	}
	folder, err := openDataFolder(p.Data, out.log())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.close()) }()
	if owner, err := lockOwner(folder.path("run/lock")); err != nil || owner != "" {
		return errors.Join(err, errOtherCMS)
	}
	state, err := c.LoadState()
	if err != nil {
		return err
	}
	return c.SaveState(catalogue.State{Active: version, LastGood: state.LastGood}) // as after a swap: no host runs a bake
}

type pluginList struct{}

// Run prints one version per line.
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
		columns := []string{e.Manifest.Version, e.Manifest.SHA256}
		switch e.Manifest.Version {
		case state.Active:
			columns = append(columns, "active")
		case state.LastGood:
			columns = append(columns, "last good")
		case state.Baking:
			columns = append(columns, "baking")
		}
		signature, err := verify(ctx, c, e)
		if err != nil {
			return err
		}
		if signature != "" {
			columns = append(columns, signature)
		}
		fmt.Fprintln(table, strings.Join(columns, "\t"))
	}
	return table.Flush()
}

// verify returns why a version could not be started or, if the catalogue has keys,
// who signed it.
func verify(ctx context.Context, c *catalogue.Catalogue, e catalogue.Entry) (string, error) {
	err := c.Verify(ctx, e)
	if refused, ok := errors.AsType[*catalogue.RefusedError](err); ok {
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
	Keep int `default:"3" help:"How many of the highest versions to keep (${default}); the active version, the last good version and a version that bakes are always kept."`
}

// Run prints the versions that it removed, one per line.
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
