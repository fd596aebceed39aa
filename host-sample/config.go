package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/mail"
	"path/filepath"
	"strings"
	"time"

	"github.com/cms-personal/personal/host-sample/mailer"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// config is what serve works with, checked.
type config struct {
	addr        string
	dataDir     string // absolute
	databaseURL string // a secret
	pluginsDir  string
	plugin      string                   // a binary or bundle to install; may be empty
	pluginTrust []plugincatalogue.Option // whose plugins are taken, and from which version on
	settings    string                   // a file; may be empty
	mailFrom    *mail.Address
	relay       *mailer.SMTP // nil: mails are kept in the data folder
	adminHosts  []string     // names that the admin pages may be called by, beside loopback ones
	shim        personalhttp.Options
	https       bool // every browser comes by HTTPS, though a proxy ends it
	drain       time.Duration
	bake        time.Duration
	logLevel    slog.Level
}

// settingError names the setting at fault. It never shows the value of a URL.
type settingError struct {
	key string
	err error
}

func (e *settingError) Error() string {
	twin := "PERSONAL_" + strings.ToUpper(strings.ReplaceAll(e.key, "-", "_"))
	return fmt.Sprintf("--%s (%s): %s", e.key, twin, strings.ReplaceAll(e.err.Error(), "\n", ": "))
}

func (e *settingError) Unwrap() error { return e.err }

// faults gathers what is wrong, so that an administrator learns all of it at
// once.
type faults []error

// add notes what is wrong with a setting, if anything is.
func (f *faults) add(key string, err error) {
	if err != nil {
		*f = append(*f, &settingError{key: key, err: err})
	}
}

// check turns flags into a config, or names every flag at fault. typed holds the
// flags that stand on the command line, where every user of the machine can
// read them.
func (f *serveCommand) check(typed map[string]bool) (config, error) {
	c := config{addr: f.Addr, plugin: f.Plugin, settings: f.Settings, drain: f.Drain, bake: f.Bake, https: f.SecureCookies}
	var wrong faults
	f.checkStorage(&c, typed, &wrong)
	f.checkPlugin(&c, &wrong)
	f.checkMail(&c, typed, &wrong)
	f.checkShim(&c, &wrong)
	c.adminHosts = f.AdminHost
	wrong.add("admin-host", hostNames(f.AdminHost))
	wrong.add("drain", positive(f.Drain))
	wrong.add("bake", notNegative(f.Bake))
	wrong.add("log-level", c.logLevel.UnmarshalText([]byte(f.LogLevel)))
	return c, errors.Join(wrong...)
}

func (f *serveCommand) checkStorage(c *config, typed map[string]bool, wrong *faults) {
	var err error
	c.dataDir, err = absolute(f.Data)
	wrong.add("data", err)
	wrong.add("database", refuseTypedPassword(f.Database, typed["database"]))
	c.databaseURL, err = databaseURL(f.Database, c.dataDir)
	wrong.add("database", err)
}

func (f *serveCommand) checkPlugin(c *config, wrong *faults) {
	c.pluginsDir = cmp.Or(f.Plugins, filepath.Join(c.dataDir, "plugins"))
	keys, err := trust(f.PluginKey)
	wrong.add("plugin-key", err)
	c.pluginTrust = append(c.pluginTrust, keys)
	if f.PluginFloor != "" {
		floor, err := plugincatalogue.WithMinVersion(f.PluginFloor)
		wrong.add("plugin-floor", err)
		c.pluginTrust = append(c.pluginTrust, floor)
	}
	wrong.add("settings", readable(f.Settings))
}

func (f *serveCommand) checkMail(c *config, typed map[string]bool, wrong *faults) {
	var err error
	c.mailFrom, err = mailer.ParseFrom(f.MailFrom)
	wrong.add("mail-from", err)
	wrong.add("smtp", refuseTypedPassword(f.SMTP, typed["smtp"]))
	if f.SMTP != "" {
		c.relay, err = mailer.NewSMTP(f.SMTP, c.mailFrom)
		wrong.add("smtp", err)
	}
	wrong.add("addr", checkAddr(f.Addr, f.SMTP != "" || f.AllowMailCapture))
}

func (f *serveCommand) checkShim(c *config, wrong *faults) {
	proxies, err := prefixes(f.TrustedProxy)
	wrong.add("trusted-proxy", err)
	wrong.add("forwarded-header", tryShim(personalhttp.Options{ForwardedHeader: f.ForwardedHeader}))
	wrong.add("base-path", tryShim(personalhttp.Options{BasePath: f.BasePath}))
	wrong.add("locale", tryShim(personalhttp.Options{DefaultLocale: f.Locale}))
	wrong.add("cors-origin", tryShim(personalhttp.Options{CORSOrigins: f.CORSOrigin}))
	c.shim = personalhttp.Options{
		BasePath: f.BasePath, DefaultLocale: f.Locale, TrustedProxies: proxies,
		ForwardedHeader: f.ForwardedHeader, CORSOrigins: f.CORSOrigin, AlwaysOK: f.Always200,
	}
}
