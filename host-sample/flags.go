package main

import (
	"context"
	"time"

	"github.com/alecthomas/kong"
)

// serveCommand holds the flags of serve as they were given.
type serveCommand struct {
	Addr     string `default:"127.0.0.1:8080" env:"PERSONAL_ADDR" placeholder:"HOST:PORT" help:"Where to listen; port 0 takes a free one (${default})."`
	Data     string `default:"./data" env:"PERSONAL_DATA" placeholder:"DIR" help:"The data folder, made if there is none (${default})."`
	Database string `env:"PERSONAL_DATABASE" placeholder:"URL" help:"sqlite://PATH or postgres://…, by default sqlite://DATA/personal.db. A URL with a password: by the environment only."`

	Plugins     string   `env:"PERSONAL_PLUGINS" placeholder:"DIR" help:"The folder of the plugin catalogue, by default DATA/plugins."`
	Plugin      string   `env:"PERSONAL_PLUGIN" placeholder:"FILE" help:"Install this plugin binary or bundle, and use it where none is active yet."`
	PluginKey   []string `sep:"none" env:"PERSONAL_PLUGIN_KEY" placeholder:"FILE" help:"Minisign public keys, one on a line: only plugins signed by one of them are installed and started. May be repeated."`
	PluginFloor string   `env:"PERSONAL_PLUGIN_FLOOR" placeholder:"VERSION" help:"The lowest plugin version that may be started: one that is known to be bad does not come back, whoever signed it."`
	Settings    string   `env:"PERSONAL_SETTINGS" placeholder:"FILE" help:"The plugin's settings, TOML, handed over unread at every start of a plugin process."`

	SMTP             string `name:"smtp" env:"PERSONAL_SMTP" placeholder:"URL" help:"Mail relay, smtp://HOST:PORT (STARTTLS, plain on loopback) or smtps://HOST:PORT; without one mails are kept in DATA/mail. A URL with a password: by the environment only."`
	MailFrom         string `default:"personal@localhost" env:"PERSONAL_MAIL_FROM" placeholder:"ADDR" help:"The sender of mails (${default})."`
	AllowMailCapture bool   `env:"PERSONAL_ALLOW_MAIL_CAPTURE" help:"Keep mails in DATA/mail even when listening off loopback."`

	BasePath        string   `env:"PERSONAL_BASE_PATH" placeholder:"/x" help:"Put before /api/v1/personal/."`
	TrustedProxy    []string `env:"PERSONAL_TRUSTED_PROXY" placeholder:"CIDR" help:"Proxies that are believed about the client's address and scheme; repeated, or with commas."`
	ForwardedHeader string   `default:"x-forwarded-for" env:"PERSONAL_FORWARDED_HEADER" placeholder:"NAME" help:"The header in which they tell the client's address: x-forwarded-for or forwarded (${default}). An address in the other one is ignored."`
	CORSOrigin      []string `name:"cors-origin" env:"PERSONAL_CORS_ORIGIN" placeholder:"ORIGIN" help:"Sites whose scripts may call the API; repeated, or with commas."`
	AdminHost       []string `env:"PERSONAL_ADMIN_HOST" placeholder:"NAME" help:"Host names, without a port, by which administrators reach the admin pages, beside loopback ones: for a site behind a proxy; repeated, or with commas."`
	Locale          string   `default:"en" env:"PERSONAL_LOCALE" help:"Language of messages where the caller asks for none on offer (${default})."`
	Always200       bool     `name:"always-200" env:"PERSONAL_ALWAYS_200" help:"Send every envelope with HTTP 200, for old clients."`

	SecureCookies bool `env:"PERSONAL_SECURE_COOKIES" help:"Take every request as sent over HTTPS: for a proxy that ends TLS and does not say so by X-Forwarded-Proto. Keeps cookies and browsers to HTTPS."`

	Bake     time.Duration `default:"60s" env:"PERSONAL_BAKE" help:"How long a new version is on trial, and the old one kept warm, when plugin versions are swapped (${default}); 0 for not at all."`
	Drain    time.Duration `default:"30s" env:"PERSONAL_DRAIN" help:"How long requests under way may take to end when the host stops (${default})."`
	LogLevel string        `default:"info" env:"PERSONAL_LOG_LEVEL" help:"debug, info, warn or error (${default})."`
}

// Run serves until the context ends.
func (f *serveCommand) Run(ctx context.Context, parsed *kong.Context, out output) error {
	c, err := f.check(onCommandLine(parsed))
	if err != nil {
		return err
	}
	return serve(ctx, c, out)
}

// onCommandLine returns the names of the flags that were typed, rather than set
// by the environment.
func onCommandLine(parsed *kong.Context) map[string]bool {
	typed := map[string]bool{}
	for _, p := range parsed.Path {
		if p.Flag != nil && !p.Resolved {
			typed[p.Flag.Name] = true
		}
	}
	return typed
}
