// Package personalhost runs the personal-account module in a CMS: [New] connects the
// plugin catalogue, the plugin manager, the HTTP handler and the administration, [Open] also
// starts them, and [Module.Close] stops them. A CMS that needs another arrangement connects the
// packages that this one uses itself; docs/cms-reference.md shows how.
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
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalhost/mailer"
	"github.com/cms-personal/personal/shared/personalhost/secretkeys"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/plugins/adminapi"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
	"github.com/cms-personal/personal/shared/tracing"
)

// Config configures a module. Only Data is required.
type Config struct {
	// Data is the folder of the module, created with mode 0700 if it does not exist. What
	// is in it decides which program runs, so New refuses one that other users can write
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

	// Plugin is the file of the plugin's binary or bundle. New installs and activates it
	// if the catalogue is empty; else it is not read.
	Plugin string

	// Accept restricts which plugins are installed and started, see
	// [catalogue.WithKeys] and [catalogue.WithMinVersion].
	Accept []catalogue.Option

	// Catalogue has the plugin versions; nil for those of plugins/personal in Data. It brings
	// its own restrictions: New refuses it together with Accept.
	Catalogue *catalogue.Catalogue

	// DatabaseURL is sqlite://PATH or postgres://…; a secret. Empty for SQLite in Data.
	DatabaseURL string

	// URL is the public URL of the site's account pages, such as https://example.com/account:
	// http or https, without user, query and fragment. Links in mails that no setting names
	// lead to pages below it: URL/recover, URL/email and URL/undo-delete. Without it and those
	// settings, mails contain a code but no link. If it is https, cookies are for HTTPS only, and
	// pages lead visitors who do not use it there, see [personalhttp.Options].URL. A [mailer.SMTP] names
	// its host to the relay.
	URL string

	// Settings returns the plugin's settings file (TOML); nil for no settings. It is called at
	// every start of a plugin process.
	Settings func() ([]byte, error)

	// SecretKeys returns the keys that encrypt what the database must not reveal, such as the
	// secrets of second factors: the first encrypts, all decrypt. Each has 32 bytes. It is
	// called at every start of a plugin process. If it is nil, the keys are those of the file
	// secret.key in Data, see [secretkeys.ReadFile], which New creates with one random key if
	// it is missing. A function that returns no keys switches off what needs them.
	// docs/two-factor.md says how to keep and rotate keys.
	SecretKeys func() ([][]byte, error)

	// Host is what the plugin needs from the CMS. If it is nil, user fields come from a
	// file in Data, which has none at first, events go to Log, and mails are captured:
	// written into Data instead of sent, which is for development only.
	Host personal.Host

	// Connected is called once with the module, before the plugin can call Host; nil for nothing.
	// A Host whose callbacks need the module keeps it, and calls its Client, whose calls work
	// from the first event on.
	Connected func(*Module)

	// Admission judges who registers and signs in, over the API and by Module.Service and
	// Module.Administration; nil admits everyone. Name the parameters that it alone gets in API.Transient.
	Admission *personal.Admission

	// API configures the HTTP API. No user field may have a name of its Transient: New
	// refuses that, and so does later the store of a Host. If its Log is nil, Log applies.
	// Its TracerProvider is also that of the manager.
	API personalhttp.Options

	// Manager holds the limits of the plugin manager, its environment and a further
	// receiver of its events.
	Manager manager.Options

	// Drain is how long requests under way may take when a server stops, see
	// [Module.ServeOn]; 30 seconds if it is zero.
	Drain time.Duration

	// Log is the log of all parts; nil for slog.Default().
	Log *slog.Logger
}

// Open starts the plugin and returns the module once the plugin serves. The caller
// closes it. ctx limits Open only.
//
// Open fails at once as [New] does, if another process uses the data folder, and if another attempt to start the plugin would not
// help: the error then wraps a [*rpc.PermanentError], for a bad setting or a database
// that does not exist for example, or a [*catalogue.RefusedError]. Other failures,
// such as a database server that is down, may pass: Open then waits until ctx ends, and
// returns the context's error and the last failure. After an error no process is left, and
// Open can be called again.
func Open(ctx context.Context, c Config) (*Module, error) {
	m, err := New(ctx, c)
	if err != nil {
		return nil, err
	}
	if err = m.manager.Start(); err == nil {
		err = m.manager.WaitReady(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("personal-account module: %w", errors.Join(err, m.Close()))
	}
	return m, nil
}

// New returns a module whose plugin does not run yet, for a CMS that serves while the
// plugin starts: it calls Start of [Module.Manager], which locks the data folder, and may
// wait with WaitReady. Until the
// plugin serves, requests get 503. The caller closes the module. ctx limits New only.
//
// New fails if the config is invalid, if no plugin is installed and Config.Plugin cannot be,
// and with a [*durable.UntrustedError] if other users of the machine can change, or have
// made, what decides which program runs: Data, the folders plugins and run in it, a
// version's folder, its files, the catalogue's state, or secret.key.
func New(ctx context.Context, c Config) (*Module, error) {
	captured := c.Host == nil
	m, err := build(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("personal-account module: %w", err)
	}
	if captured {
		m.log.Warn("mails are captured in the data folder, not sent: its readers can take over accounts; set Config.Host to send mails")
	}
	return m, nil
}

// build makes the parts of a module. Only the log of plugin events is open.
func build(ctx context.Context, c Config) (*Module, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	if err := durable.MakeFolder(c.Data, c.Log); err != nil {
		return nil, fmt.Errorf("opening the data folder: %w", err)
	}
	if c.Host == nil {
		host, err := readyHost(c)
		if err != nil {
			return nil, err
		}
		c.Host = host
	}
	if err := c.reserveTransient(ctx); err != nil {
		return nil, err
	}
	if c.SecretKeys == nil {
		keys, err := secretkeys.Open(filepath.Join(c.Data, "secret.key"), c.Log)
		if err != nil {
			return nil, err
		}
		c.SecretKeys = keys
	}
	if c.Catalogue == nil {
		catalogue, err := c.openCatalogue()
		if err != nil {
			return nil, err
		}
		c.Catalogue = catalogue
	}
	events, err := adminapi.OpenEventLog(filepath.Join(c.Data, "plugin-events.ndjson"), c.Log)
	if err != nil {
		return nil, err
	}
	m, err := c.connect(events)
	if err == nil {
		err = c.choosePlugin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, events.Close())
	}
	if c.Connected != nil {
		c.Connected(m)
	}
	return m, nil
}

// openCatalogue opens the catalogue in the data folder.
func (c *Config) openCatalogue() (*catalogue.Catalogue, error) {
	plugins := filepath.Join(c.Data, "plugins")
	if err := durable.MakeFolder(plugins, c.Log); err != nil {
		return nil, fmt.Errorf("opening the plugin catalogue: %w", err)
	}
	return catalogue.Open(filepath.Join(plugins, catalogue.Name),
		append([]catalogue.Option{catalogue.WithLog(c.Log)}, c.Accept...)...)
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
	if err := CheckURL(c.URL); err != nil {
		return fmt.Errorf("Config.URL: %w", err)
	}
	if c.Catalogue != nil && len(c.Accept) > 0 {
		return errors.New("Config.Accept restricts only the catalogue in Data: give its options to catalogue.Open, whose result is Config.Catalogue")
	}
	if own, ok := ownHost(c.Host); ok {
		if own == nil || own.Fields == nil || own.Mail == nil || own.Log == nil {
			return errors.New("Config.Host: a personalhost.Host needs Fields, Mail and Log")
		}
		if relay, ok := own.Mail.(*mailer.SMTP); ok {
			relay.UseSite(c.URL)
		}
	}
	if c.Admission != nil && c.Admission.Judge == nil {
		return errors.New("Config.Admission has no Judge: set it, or leave out Admission to admit everyone")
	}
	c.Log = tracing.WithTraceID(cmp.Or(c.Log, slog.Default()))
	c.API.Log = cmp.Or(c.API.Log, c.Log)
	c.API.URL = cmp.Or(c.API.URL, c.URL)
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
	if own, ok := ownHost(c.Host); ok {
		return own.Fields.Reserve(c.API.Transient...)
	}
	return nil
}

// CheckURL returns an error if a text can be neither Config.URL nor the beginning of it.
func CheckURL(rawURL string) error {
	u, err := url.Parse(rawURL)
	if rawURL == "" || err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Hostname() != "" && u.User == nil &&
		!strings.ContainsAny(rawURL, "?#{}") {
		return nil
	}
	return errors.New("it must be an http(s) URL without user, query and fragment, like https://example.com/account")
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
func (c *Config) connect(events *adminapi.EventLog) (*Module, error) {
	further := c.Manager.OnEvent
	c.Manager.OnEvent = func(e manager.Event) {
		events.Append(e)
		if further != nil {
			further(e)
		}
	}
	var api *personalhttp.Handler // which the manager's processes need later
	manager, err := manager.New(manager.Config{
		Catalogue: c.Catalogue, Host: c.Host, DatabaseURL: c.DatabaseURL, RunDir: filepath.Join(c.Data, "run"), Log: c.Log,
		Settings: c.Settings, SecretKeys: c.SecretKeys, AccountURL: c.URL, TracerProvider: c.API.TracerProvider, Options: c.Manager,
		Locales: func() []string { return api.Locales() },
	})
	if err != nil {
		return nil, err
	}
	m := &Module{
		client: rpc.NewClient(manager, c.Host), manager: manager, catalogue: c.Catalogue, events: events,
		drain: cmp.Or(c.Drain, drainTime), limits: defaultLimits(), log: c.Log, host: c.Host, keys: c.SecretKeys,
	}
	m.service, m.users = c.Admission.Wrap(m.client), c.Admission.WrapAdministration(m.client)
	if c.API.UserFields == nil {
		c.API.UserFields = c.Host.UserFields
	}
	if api, err = personalhttp.New(m.service, c.API); err != nil {
		return nil, fmt.Errorf("Config.API: %w", err)
	}
	m.api = api
	if c.Catalogue.NeedsSignatures() { // an upload is code that runs
		m.uploads = adminapi.NewUploads(c.Catalogue, 0, c.Log)
	}
	m.admin = adminapi.New(manager, c.Catalogue, adminapi.Options{Uploads: m.uploads, EventLog: events, Log: c.Log})
	m.stopping, m.stop = context.WithCancel(context.Background())
	m.close = sync.OnceValue(func() error {
		m.stop()
		limited, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		return errors.Join(m.manager.Stop(limited), events.Close())
	})
	return m, nil
}

// choosePlugin makes sure that a plugin version is active.
func (c *Config) choosePlugin(ctx context.Context) error {
	active, err := c.Catalogue.ActivateFirst("")
	if err == nil && c.Plugin != "" {
		if newer := c.Catalogue.Newer(ctx, c.Plugin, active); newer != "" {
			c.Log.Warn("another plugin version is active, so Config.Plugin is not run: install it, and swap to it", "active", active,
				"offered", newer, "file", c.Plugin)
		} else {
			c.Log.Info("a plugin version is active: Config.Plugin is not installed", "version", active)
		}
	}
	if !errors.Is(err, catalogue.ErrNotFound) {
		return err
	}
	if c.Plugin == "" {
		return errors.New("no plugin is installed: set Config.Plugin to the plugin's binary or bundle")
	}
	installed, err := c.Catalogue.Install(ctx, c.Plugin)
	if err != nil {
		return fmt.Errorf("Config.Plugin: %w", err)
	}
	_, err = c.Catalogue.ActivateFirst(installed.Manifest.Version)
	return err
}
