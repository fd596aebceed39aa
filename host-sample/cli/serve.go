package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhost/mailer"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personaloidc"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/tracing"
)

// serveCommand holds the flags of serve as they were given.
type serveCommand struct {
	Addr     string `default:"127.0.0.1:8080" env:"PERSONAL_ADDR" placeholder:"HOST:PORT" help:"Address to listen on; port 0 picks a free one (${default})."`
	URL      string `name:"url" env:"PERSONAL_URL" placeholder:"URL" help:"The site's own public URL, such as https://www.example.com: links in mails lead to its pages below /account. If it is https, cookies are for HTTPS only, and pages redirect plain HTTP to it. Default: the address that it listens on if mails are captured, else none."`
	Data     string `default:"./data" env:"PERSONAL_DATA" placeholder:"DIR" help:"The data folder, created if missing (${default})."`
	Database string `env:"PERSONAL_DATABASE" placeholder:"URL" help:"sqlite://PATH or postgres://…, by default sqlite://DATA/personal.db. Set a URL with a password in the environment only."`

	Plugins      string        `env:"PERSONAL_PLUGINS" placeholder:"DIR" help:"The folder of the plugin catalogue, by default DATA/plugins."`
	Plugin       string        `env:"PERSONAL_PLUGIN" placeholder:"FILE" help:"Install this plugin binary or bundle, and activate it if no version is active yet."`
	PluginKey    []string      `sep:"none" env:"PERSONAL_PLUGIN_KEY" placeholder:"FILE" help:"Minisign public keys, one per line: only plugins signed with one of them are installed and started. May be repeated."`
	PluginFloor  *string       `env:"PERSONAL_PLUGIN_FLOOR" placeholder:"VERSION" help:"The lowest plugin version that may be started, or installed from a bundle: lower ones are refused even if signed."`
	PluginMinAge time.Duration `default:"0s" name:"plugin-min-age" env:"PERSONAL_PLUGIN_MIN_AGE" placeholder:"DURATION" help:"For how long the host must have had a version before plugin use and plugin rehearse accept it without --now. Restarts, rollbacks and returns to versions that have served are exempt (${default}, no minimum)."`
	Rehearse     string        `default:"refuse" env:"PERSONAL_REHEARSE" placeholder:"POLICY" help:"What a swap does with the rehearsal of a new version against the one that serves: refuse, warn or off (${default}). With refuse, a failed check or a difference that the version does not declare refuses the swap. With warn, only a failed check does."`
	PluginMemory memorySize    `env:"PERSONAL_PLUGIN_MEMORY" placeholder:"SIZE" help:"The soft memory limit of each plugin process, such as 512MiB; during a swap there are two processes. For a hard limit, limit the service or the container. Default: none."`
	Settings     string        `env:"PERSONAL_SETTINGS" placeholder:"FILE" help:"The settings file (TOML) of the plugin."`
	NoSecretKey  bool          `env:"PERSONAL_NO_SECRET_KEY" help:"Give the plugin no secret key: what needs one, such as second factors, does not exist. Otherwise DATA/secret.key is created at the first start."`

	SMTP             string `name:"smtp" env:"PERSONAL_SMTP" placeholder:"URL" help:"Mail relay: smtp://HOST:PORT (STARTTLS; on loopback also without) or smtps://HOST:PORT. Without one, mails are kept in DATA/mail. Set a URL with a password in the environment only."`
	SMTPHelo         string `name:"smtp-helo" env:"PERSONAL_SMTP_HELO" placeholder:"NAME" help:"The host name that EHLO gives to the relay. Default: the host of --url, else the domain of --mail-from."`
	MailFrom         string `default:"personal@localhost" env:"PERSONAL_MAIL_FROM" placeholder:"ADDR" help:"Sender of mails (${default})."`
	AllowMailCapture bool   `env:"PERSONAL_ALLOW_MAIL_CAPTURE" help:"Keep mails in DATA/mail even when --addr is not a loopback address."`

	BasePath        string   `env:"PERSONAL_BASE_PATH" placeholder:"/x" help:"Path in front of /api/v1/personal/."`
	TrustedProxy    []string `env:"PERSONAL_TRUSTED_PROXY" placeholder:"CIDR" help:"Proxies whose headers are trusted for the client's address and scheme."`
	ForwardedHeader string   `default:"x-forwarded-for" env:"PERSONAL_FORWARDED_HEADER" placeholder:"NAME" help:"The header in which trusted proxies send the client's address: x-forwarded-for or forwarded (${default}). The address in the other header is ignored."`
	CORSOrigin      []string `name:"cors-origin" env:"PERSONAL_CORS_ORIGIN" placeholder:"ORIGIN" help:"Origins whose scripts may call the API."`
	Origin          []string `env:"PERSONAL_ORIGIN" placeholder:"ORIGIN" help:"The site's own origins, such as https://www.example.com, needed only behind a proxy that changes the Host header: posts of browsers for other origins are refused."`
	AdminHost       []string `env:"PERSONAL_ADMIN_HOST" placeholder:"NAME" help:"Host names, without a port, under which the admin pages can be opened from anywhere, for example behind a proxy. Other loopback names work only for clients on this machine."`
	Locales         []string `env:"PERSONAL_LOCALES" placeholder:"TAG" help:"Languages of messages, pages and mails: de, en, es, fr, pt-BR, ru or uk. Default: en and ru, and the one of --locale."`
	Locale          string   `env:"PERSONAL_LOCALE" placeholder:"TAG" help:"The default language, for callers whose Accept-Language names none of --locales. Default: the first of --locales, or en."`
	Always200       bool     `name:"always-200" env:"PERSONAL_ALWAYS_200" help:"Send every API response with HTTP 200, for old clients."`

	RegisterDomains []string `sep:"none" env:"PERSONAL_REGISTER_DOMAINS" placeholder:"DOMAIN" help:"The only domains whose e-mail addresses can be registered, or become those of an account; repeated, or separated by commas. Subdomains are domains of their own. Administrators are not restricted. An e-mail proves its domain only with registration.email_verification = required. Default: all domains."`

	OIDC []string `name:"oidc" sep:";" env:"PERSONAL_OIDC" placeholder:"NAME=ISSUER,CLIENT-ID,SECRET-FILE" help:"A provider with which users can sign in: Google, Microsoft, GitLab, Keycloak, GitHub, or any OpenID provider by its issuer; without SECRET-FILE for a public client. Apple, and Microsoft with several tenants, cannot be configured by it. Register the site's URL with /account/providers/NAME/callback as redirect URI. Repeated, or separated by semicolons."`

	SecureCookies bool `env:"PERSONAL_SECURE_COOKIES" help:"Treat every request as sent over HTTPS, for a proxy that terminates TLS and does not send X-Forwarded-Proto. Sets Secure cookies and Strict-Transport-Security."`

	Bake        time.Duration `default:"60s" env:"PERSONAL_BAKE" help:"How long the old version is kept warm for a rollback after a swap (${default}); 0 stops it at once."`
	Drain       time.Duration `default:"30s" env:"PERSONAL_DRAIN" help:"How long requests in progress may take to finish when the host stops (${default})."`
	Pprof       string        `env:"PERSONAL_PPROF" placeholder:"HOST:PORT" help:"Serve Go runtime profiles of host and plugin under /debug/pprof/ at this loopback address; port 0 picks a free one. Default: none."`
	DebugPlugin bool          `env:"PERSONAL_DEBUG_PLUGIN" help:"For development, on a loopback address: let a debugger pause the plugin. Switches off health checks and time limits, and prints the command that attaches a debugger."`
	LogLevel    string        `default:"info" env:"PERSONAL_LOG_LEVEL" help:"Log level: debug, info, warn or error (${default})."`
}

// Run serves until the context ends.
func (f *serveCommand) Run(ctx context.Context, parsed *kong.Context, out output) error {
	typed := map[string]bool{}
	for _, p := range parsed.Path {
		if p.Flag != nil && !p.Resolved { // not set by the environment
			typed[p.Flag.Name] = true
		}
	}
	c, err := f.check(typed)
	if err != nil {
		return err
	}
	log := tracing.WithTraceID(slog.New(slog.NewTextHandler(out.stderr, &slog.HandlerOptions{Level: c.logLevel})))
	spans, stopTracing, err := startTracing(ctx, out.stdout, log)
	if err != nil {
		return err
	}
	defer stopTracing()
	c.api.TracerProvider = spans
	h, err := openHost(ctx, c, log, out.stdout)
	if err != nil {
		return err
	}
	fmt.Fprintf(out.stdout, "listening on %s\n", h.url)
	if h.profiles != nil {
		fmt.Fprintf(out.stdout, "profiles at %s%s\n", h.profiles.url, profilesPath)
	}
	return h.run(ctx, func() {
		h.printAddresses(out.stdout, isTerminal(out.stdout))
		if f.DebugPlugin {
			s := h.module.Manager().Status()
			debugPlugin(out.stdout, s.Version, s.PID)
		}
	})
}

// config is what the flags mean, checked.
type config struct {
	flags       *serveCommand
	dataDir     string // absolute
	databaseURL string // may hold a password
	pluginsDir  string
	pluginTrust []catalogue.Option // the signatures and versions that are accepted
	mailFrom    *mail.Address
	relay       *mailer.SMTP // nil: mails are kept in the data folder
	api         personalhttp.Options
	admission   *personal.Admission // nil: everyone comes in
	providers   []personaloidc.Provider
	logLevel    slog.Level
}

// check returns the config, or an error that names every invalid flag. typed holds
// the names of the flags on the command line, which every user of the machine can
// read.
func (f *serveCommand) check(typed map[string]bool) (config, error) {
	c := config{flags: f}
	var invalid []error
	check := func(flag string, err error) {
		if err != nil {
			invalid = append(invalid, &flagError{flag, err})
		}
	}
	var err error
	c.dataDir, err = absolute(f.Data)
	check("data", err)
	check("database", rejectTypedPassword(f.Database, typed["database"]))
	c.databaseURL, err = personalhost.DatabaseURL(f.Database, c.dataDir)
	check("database", err)

	c.pluginsDir = cmp.Or(f.Plugins, filepath.Join(c.dataDir, "plugins"))
	keys, err := trust(f.PluginKey)
	check("plugin-key", err)
	c.pluginTrust = keys
	if f.PluginFloor != nil {
		minVersion, err := catalogue.WithMinVersion(*f.PluginFloor)
		check("plugin-floor", err)
		c.pluginTrust = append(c.pluginTrust, minVersion)
	}
	if f.PluginMinAge < 0 {
		check("plugin-min-age", errors.New("it must not be negative"))
	}
	if !manager.RehearsePolicy(f.Rehearse).Valid() {
		check("rehearse", fmt.Errorf("%q is not refuse, warn or off", f.Rehearse))
	}
	if f.Settings != "" {
		_, err := durable.ReadTrusted(f.Settings)
		check("settings", err)
	}

	c.mailFrom, err = mailer.ParseFrom(f.MailFrom)
	check("mail-from", err)
	check("smtp", rejectTypedPassword(f.SMTP, typed["smtp"]))
	if f.SMTP != "" {
		c.relay, err = mailer.NewSMTP(f.SMTP, c.mailFrom, mailer.Options{})
		check("smtp", err)
	}
	if c.relay != nil && f.SMTPHelo != "" {
		c.relay, err = mailer.NewSMTP(f.SMTP, c.mailFrom, mailer.Options{Helo: f.SMTPHelo})
		check("smtp-helo", err)
	}
	check("addr", f.checkAddr(f.Addr))
	check("url", personalhost.CheckURL(f.URL))
	check("pprof", checkProfileAddr(f.Pprof))

	proxies, err := prefixes(f.TrustedProxy)
	check("trusted-proxy", cmp.Or(err, checkAPI(personalhttp.Options{TrustedProxies: proxies})))
	check("forwarded-header", checkAPI(personalhttp.Options{ForwardedHeader: f.ForwardedHeader}))
	check("base-path", checkAPI(personalhttp.Options{BasePath: f.BasePath}))
	check("locales", checkAPI(personalhttp.Options{Locales: f.Locales}))
	check("locale", checkAPI(personalhttp.Options{Locales: f.Locales, DefaultLocale: f.Locale}))
	check("cors-origin", checkAPI(personalhttp.Options{CORSOrigins: f.CORSOrigin}))
	check("origin", checkAPI(personalhttp.Options{Origins: f.Origin}))
	c.api = personalhttp.Options{
		BasePath: f.BasePath, Locales: f.Locales, DefaultLocale: f.Locale, TrustedProxies: proxies,
		ForwardedHeader: f.ForwardedHeader, CORSOrigins: f.CORSOrigin, Origins: f.Origin, AlwaysOK: f.Always200,
		AlwaysHTTPS: f.SecureCookies,
	}
	if f.DebugPlugin {
		c.api.Timeout = debugCallTimeout
	}
	for _, name := range f.AdminHost {
		if name == "" || strings.ContainsAny(name, ":/[]* ") {
			check("admin-host", fmt.Errorf("%q is not a host name: leave out scheme, port and path", name))
		}
	}

	c.admission, err = admitDomains(f.RegisterDomains)
	check("register-domains", err)
	c.providers, err = providers(f.OIDC)
	check("oidc", err)
	if f.Bake < 0 {
		check("bake", errors.New("it must not be negative"))
	}
	if f.Drain <= 0 {
		check("drain", errors.New("it must be longer than 0"))
	}
	if err := c.logLevel.UnmarshalText([]byte(f.LogLevel)); err != nil {
		check("log-level", fmt.Errorf("%q is not debug, info, warn or error", f.LogLevel))
	}
	return c, errors.Join(invalid...)
}

// secretKeys is what makes the plugin's keys those of the data folder, unless
// --no-secret-key is set.
func (c config) secretKeys() func() ([][]byte, error) {
	if c.flags.NoSecretKey {
		return func() ([][]byte, error) { return nil, nil }
	}
	return nil
}

// isTerminal reports whether what is written goes to a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

func absolute(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("the name of the folder is empty")
	}
	return filepath.Abs(dir)
}

// rejectTypedPassword keeps passwords out of process listings and shell
// histories.
func rejectTypedPassword(rawURL string, typed bool) error {
	if !typed {
		return nil
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return errors.New("it is not a valid URL")
	}
	if _, secret := u.User.Password(); secret || u.Query().Has("password") {
		return errors.New("a URL with a password is accepted from the environment only: process listings and shell histories show flags")
	}
	return nil
}

// checkAddr also rejects addresses off loopback unless mails are sent or the
// administrator allowed them to be kept: kept mails hold tokens, which must not
// pile up unnoticed on a machine that serves others.
func (f *serveCommand) checkAddr(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if f.DebugPlugin && !mailer.IsLoopback(host) {
		return errors.New("--debug-plugin pauses the plugin for every visitor, so it works only on a loopback address, such as 127.0.0.1:8080")
	}
	if f.SMTP == "" && !f.AllowMailCapture && !mailer.IsLoopback(host) {
		return errors.New("without --smtp, mails are captured, which is permitted only on a loopback address: set --smtp, or permit it with --allow-mail-capture")
	}
	return nil
}

// prefixes parses networks, and single addresses as networks of one.
func prefixes(texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if addr, err := netip.ParseAddr(text); err == nil {
			addr = addr.Unmap().WithZone("")
			list = append(list, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network such as 10.0.0.0/8", text)
		}
		list = append(list, p)
	}
	return list, nil
}

// checkAPI returns what the HTTP handler finds wrong with its options.
func checkAPI(o personalhttp.Options) error {
	_, err := personalhttp.New(struct{ personal.Service }{}, o)
	return err
}

// memorySize is a number of bytes, written like 512MiB.
type memorySize int64

// UnmarshalText reads a number with the unit B, KiB, MiB, GiB or TiB.
func (m *memorySize) UnmarshalText(text []byte) error {
	for shift, unit := range []string{"B", "KiB", "MiB", "GiB", "TiB"} {
		number, found := strings.CutSuffix(string(text), unit)
		n, err := strconv.ParseInt(number, 10, 64)
		if found && err == nil && n > 0 && n <= math.MaxInt64>>(10*shift) {
			*m = memorySize(n << (10 * shift))
			return nil
		}
	}
	return fmt.Errorf("%q is not a size of memory: write it like 512MiB or 1GiB", text)
}
