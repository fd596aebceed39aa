// Package personalhost runs the personal-account module in a CMS: [Open] connects the
// plugin catalogue, the plugin manager, the HTTP handler and the administration, and
// [Module.Close] stops them. A CMS that needs another arrangement connects the
// packages that this one uses itself; docs/embedding.md shows how.
//
// The package works on Unix.
package personalhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/mail"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalhost/mailer"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/pluginadmin"
	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
	"github.com/cms-personal/personal/shared/pluginrpc"
	"github.com/cms-personal/personal/shared/secretkeys"
	"github.com/cms-personal/personal/shared/tracing"
)

// Config configures a module. Only Data is required.
type Config struct {
	// Data is the folder of the module, created with mode 0700 if it does not exist. What
	// is in it decides which program runs, so Open refuses one that other users can write
	// to, or that belongs to another user than that of this process or root. One process at
	// a time can use it. It holds:
	//
	//	plugins/personal/     the plugin catalogue
	//	run/                  private to the plugin manager
	//	plugin-events.ndjson  plugin events, and .1 with older ones
	//	personal.db           the database, unless DatabaseURL names another
	//	secret.key            encrypts secrets of accounts, unless SecretKeys is set
	//	user-fields.json      the user fields, unless Host is set
	//	mail/*.eml            captured mails, unless Host is set
	Data string

	// Plugin is the file of the plugin's binary or bundle. Open installs and activates it
	// if the catalogue is empty; else Open does not read it.
	Plugin string

	// Accept restricts which plugins are installed and started, see
	// [plugincatalogue.WithKeys] and [plugincatalogue.WithMinVersion].
	Accept []plugincatalogue.Option

	// DatabaseURL is sqlite://PATH or postgres://…; a secret. Empty for SQLite in Data.
	DatabaseURL string

	// Settings returns the plugin's settings file (TOML); nil for no settings. It is
	// called at every start of a plugin process. Set Manager.SettingsFor instead if they depend
	// on the version that starts.
	Settings func() ([]byte, error)

	// SecretKeys returns the keys that encrypt what the database must not reveal, such as the
	// secrets of second factors: the first encrypts, all decrypt. Each has 32 bytes. It is
	// called at every start of a plugin process. If it is nil, the keys are those of the file
	// secret.key in Data, see [secretkeys.ReadFile], which Open creates with one random key if
	// it is missing. A function that returns no keys switches off what needs them.
	// docs/two-factor.md says how to keep and rotate keys.
	SecretKeys func() ([][]byte, error)

	// Host is what the plugin needs from the CMS. If it is nil, user fields come from a
	// file in Data, which has none at first, events go to Log, and mails are captured:
	// written into Data instead of sent, which is for development only.
	Host personal.Host

	// Admission judges who registers and signs in, over the API and by Module.Service; nil
	// admits everyone. Name the parameters that it alone gets in API.Transient.
	Admission *personal.Admission

	// API configures the HTTP API. No user field may have a name of its Transient: Open
	// refuses that, and so does later the store of a Host. If its Log is nil, Log applies. Its TracerProvider also
	// applies to the manager, unless Manager has one.
	API personalhttp.Options

	// Manager holds the limits of the plugin manager, its environment and a further
	// receiver of its events. Open sets Catalogue, Host, DatabaseURL, Settings, SecretKeys,
	// RunDir and Log, so they must be zero.
	Manager pluginmanager.Config

	// Log is the log of all parts; nil for slog.Default().
	Log *slog.Logger
}

// Open starts the plugin and returns the module once the plugin serves. The caller
// closes it. ctx limits Open only.
//
// Open fails at once if the config is invalid, if another process uses the data folder,
// and if another attempt would not help: the error then wraps a
// [*pluginrpc.PermanentError], for a bad setting or a database that does not exist for example, a
// [*plugincatalogue.RefusedError], or a [*durable.UntrustedError] if other users of the
// machine can change, or have made, what decides which program runs: Data, the folders
// plugins and run in it, a version's folder, its files, the catalogue's state, or
// secret.key. Other failures, such as a database server that is down, may
// pass: Open then waits until ctx ends, and returns the context's error and the last
// failure. After an error no process is left, and Open can be called again.
func Open(ctx context.Context, c Config) (*Module, error) {
	m, err := open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("personal-account module: %w", err)
	}
	return m, nil
}

func open(ctx context.Context, c Config) (*Module, error) {
	m, events, err := build(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := m.manager.Start(); err != nil {
		return nil, errors.Join(err, events.Close())
	}
	m.close = sync.OnceValue(func() error {
		limited, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		return errors.Join(m.manager.Stop(limited), events.Close())
	})
	if err := m.manager.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, m.close())
	}
	if c.Host == nil {
		m.log.Warn("mails are captured in the data folder, not sent: its readers can take over accounts; set Config.Host to send mails")
	}
	return m, nil
}

// build makes the parts of a module. Nothing runs yet; only the log of plugin events,
// which the caller closes, is open.
func build(ctx context.Context, c Config) (*Module, *pluginadmin.EventLog, error) {
	if err := c.complete(); err != nil {
		return nil, nil, err
	}
	plugins := filepath.Join(c.Data, "plugins")
	for _, dir := range []string{c.Data, plugins} {
		if err := durable.MakeFolder(dir, c.Log); err != nil {
			return nil, nil, fmt.Errorf("opening the data folder: %w", err)
		}
	}
	if c.Host == nil {
		host, err := readyHost(c)
		if err != nil {
			return nil, nil, err
		}
		c.Host = host
	}
	if err := c.reserveTransient(ctx); err != nil {
		return nil, nil, err
	}
	if c.SecretKeys == nil {
		keys, err := secretkeys.Open(filepath.Join(c.Data, "secret.key"), c.Log)
		if err != nil {
			return nil, nil, err
		}
		c.SecretKeys = keys
	}
	catalogue, err := plugincatalogue.Open(filepath.Join(plugins, plugincatalogue.Name),
		append([]plugincatalogue.Option{plugincatalogue.WithLog(c.Log)}, c.Accept...)...)
	if err != nil {
		return nil, nil, err
	}
	events, err := pluginadmin.OpenEventLog(filepath.Join(c.Data, "plugin-events.ndjson"), c.Log)
	if err != nil {
		return nil, nil, err
	}
	m, err := c.connect(catalogue, events)
	if err == nil {
		err = c.choosePlugin(ctx, catalogue)
	}
	if err != nil {
		return nil, nil, errors.Join(err, events.Close())
	}
	return m, events, nil
}

// complete checks the config and replaces zero values by defaults.
func (c *Config) complete() (err error) {
	if c.Data == "" {
		return errors.New("Config.Data is missing: name a folder for the module's files")
	}
	if c.Data, err = filepath.Abs(c.Data); err != nil {
		return fmt.Errorf("Config.Data: %w", err)
	}
	if c.DatabaseURL, err = DatabaseURL(c.DatabaseURL, c.Data); err != nil {
		return fmt.Errorf("Config.DatabaseURL: %w", err)
	}
	m := &c.Manager
	if m.Catalogue != nil || m.Host != nil || m.DatabaseURL != "" || m.Settings != nil || m.SecretKeys != nil || m.RunDir != "" || m.Log != nil {
		return errors.New("Config.Manager must not set Catalogue, Host, DatabaseURL, Settings, SecretKeys, RunDir or Log: Open sets them, from the fields of Config")
	}
	if c.Settings != nil && m.SettingsFor != nil {
		return errors.New("Config.Settings and Config.Manager.SettingsFor are both set: the second would replace the first; set only one")
	}
	if h, ok := c.Host.(interface{ check() error }); ok { // a *Host, or a type that embeds one
		if err := h.check(); err != nil {
			return fmt.Errorf("Config.Host: %w", err)
		}
	}
	if c.Admission != nil && c.Admission.Judge == nil {
		return errors.New("Config.Admission has no Judge: set it, or leave out Admission to admit everyone")
	}
	c.Log = tracing.WithTraceID(cmp.Or(c.Log, slog.Default()))
	c.API.Log = cmp.Or(c.API.Log, c.Log)
	if m.TracerProvider == nil {
		m.TracerProvider = c.API.TracerProvider
	}
	return nil
}

// reserveTransient refuses user fields with the names of transient parameters: those of the
// current schema, and, if the host has the ready store, those of later ones.
func (c *Config) reserveTransient(ctx context.Context) error {
	if len(c.API.Transient) == 0 {
		return nil
	}
	schema, err := c.Host.UserFields(ctx)
	if err != nil {
		return fmt.Errorf("comparing Config.API.Transient with the user fields: %w", err)
	}
	for _, f := range schema.Fields {
		if slices.Contains(c.API.Transient, f.Name) {
			return fmt.Errorf("Config.API.Transient: a user field has the name %q as well: rename one of the two", f.Name)
		}
	}
	if h, ok := c.Host.(interface{ reserve([]string) error }); ok { // a *Host, or a type that embeds one
		return h.reserve(c.API.Transient)
	}
	return nil
}

// DatabaseURL returns the URL of a module's database: rawURL, or that of a SQLite file
// in the data folder if rawURL is empty. It makes the path of a SQLite file absolute, so
// that it does not depend on the working folder of the plugin.
func DatabaseURL(rawURL, data string) (string, error) {
	if rawURL == "" {
		return "sqlite://" + filepath.Join(data, "personal.db"), nil
	}
	scheme, path, _ := strings.Cut(rawURL, "://")
	switch scheme {
	case "postgres", "postgresql":
		return rawURL, nil
	case "sqlite":
		if path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, ":") {
			return rawURL, nil
		}
		abs, err := filepath.Abs(path)
		return "sqlite://" + abs, err
	}
	return "", errors.New("it must begin with sqlite:// or postgres://")
}

// readyHost returns the host for a CMS that has none of its own.
func readyHost(c Config) (*Host, error) {
	fields, err := fieldstore.Open(filepath.Join(c.Data, "user-fields.json"), []byte("[]\n"))
	if err != nil {
		return nil, err
	}
	mails, err := mailer.NewCapture(filepath.Join(c.Data, "mail"), &mail.Address{Address: "personal@localhost"})
	if err != nil {
		return nil, err
	}
	return &Host{Fields: fields, Mail: mails, Log: c.Log}, nil
}

// connect makes the parts through which requests pass.
func (c *Config) connect(catalogue *plugincatalogue.Catalogue, events *pluginadmin.EventLog) (*Module, error) {
	c.Manager.Catalogue, c.Manager.Host, c.Manager.DatabaseURL = catalogue, c.Host, c.DatabaseURL
	c.Manager.Settings, c.Manager.SecretKeys = c.Settings, c.SecretKeys
	c.Manager.Log, c.Manager.RunDir = c.Log, filepath.Join(c.Data, "run")
	further := c.Manager.OnEvent
	c.Manager.OnEvent = func(e pluginmanager.Event) {
		events.Append(e)
		if further != nil {
			further(e)
		}
	}
	manager, err := pluginmanager.New(c.Manager)
	if err != nil {
		return nil, err
	}
	client := pluginrpc.NewClient(manager, c.Host)
	service := c.Admission.Wrap(client)
	api, err := personalhttp.New(service, c.API)
	if err != nil {
		return nil, fmt.Errorf("Config.API: %w", err)
	}
	admin := pluginadmin.New(manager, catalogue, pluginadmin.Options{
		Uploads: pluginadmin.NewUploads(catalogue, 0, c.Log), EventLog: events, Log: c.Log,
	})
	return &Module{api: api, client: client, service: service, manager: manager, catalogue: catalogue, admin: admin, log: c.Log}, nil
}

// choosePlugin makes sure that a plugin version is active.
func (c *Config) choosePlugin(ctx context.Context, catalogue *plugincatalogue.Catalogue) error {
	active, err := catalogue.ActivateFirst("")
	if err == nil && c.Plugin != "" {
		c.Log.Info("a plugin version is active: Config.Plugin is not read", "version", active)
	}
	if !errors.Is(err, plugincatalogue.ErrNotFound) {
		return err
	}
	if c.Plugin == "" {
		return errors.New("no plugin is installed: set Config.Plugin to the plugin's binary or bundle")
	}
	installed, err := catalogue.Install(ctx, c.Plugin)
	if err != nil {
		return fmt.Errorf("Config.Plugin: %w", err)
	}
	_, err = catalogue.ActivateFirst(installed.Manifest.Version)
	return err
}
