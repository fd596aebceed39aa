package main

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// runCommand runs the command line with a context that has ended, so that a
// host which starts in spite of everything stops at once.
func runCommand(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code = run(ctx, args, output{stdout: &out, stderr: &errs})
	return code, out.String(), errs.String()
}

func TestBadSettingsExitWith1AndNameTheKey(t *testing.T) {
	tests := map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"an address without a port":           {args: []string{"--addr", "127.0.0.1"}, want: "--addr (PERSONAL_ADDR)"},
		"mail capture on every address":       {args: []string{"--addr", ":8080"}, want: "--allow-mail-capture"},
		"mail capture on a named address":     {args: []string{"--addr", "cms.example.com:80"}, want: "--addr"},
		"a database of an unknown kind":       {args: []string{"--database", "mysql://localhost/x"}, want: "--database"},
		"a database password as a flag":       {args: []string{"--database", "postgres://cms:hunter2@db/x"}, want: "--database (PERSONAL_DATABASE): a URL with a password is taken from the environment only"},
		"a database password as a parameter":  {args: []string{"--database", "postgres://cms@db/x?password=hunter2"}, want: "--database"},
		"a database URL that cannot be read":  {args: []string{"--database", "postgres://cms:hunter2%zz@db/x"}, want: "--database"},
		"a relay password as a flag":          {args: []string{"--smtp=smtp://cms:hunter2@mail"}, want: "--smtp"},
		"a faulty relay by the environment":   {env: map[string]string{"PERSONAL_SMTP": "imap://cms:hunter2@mail"}, want: "--smtp (PERSONAL_SMTP)"},
		"a plugin key that is not there":      {args: []string{"--plugin-key", "/does/not/exist.pub"}, want: "--plugin-key (PERSONAL_PLUGIN_KEY)"},
		"a plugin key of nothing":             {args: []string{"--plugin-key="}, want: "--plugin-key"},
		"a plugin key by an empty variable":   {env: map[string]string{"PERSONAL_PLUGIN_KEY": ""}, want: "--plugin-key"},
		"a plugin key that is none":           {args: []string{"--plugin-key", "config_test.go"}, want: "--plugin-key"},
		"a plugin floor that is no version":   {args: []string{"--plugin-floor", "v1"}, want: "--plugin-floor"},
		"a settings file that is not there":   {args: []string{"--settings", "/does/not/exist.toml"}, want: "--settings"},
		"a sender that is no address":         {args: []string{"--mail-from", "nobody"}, want: "--mail-from"},
		"a base path with a final slash":      {args: []string{"--base-path", "/x/"}, want: "--base-path"},
		"a proxy that is no network":          {args: []string{"--trusted-proxy", "10.0.0.0/8,proxy"}, want: "--trusted-proxy"},
		"another forwarded header":            {args: []string{"--forwarded-header", "x-real-ip"}, want: "--forwarded-header (PERSONAL_FORWARDED_HEADER)"},
		"any origin at all":                   {args: []string{"--cors-origin", "*"}, want: "--cors-origin"},
		"an admin host with a port":           {args: []string{"--admin-host", "cms.example:443"}, want: "--admin-host (PERSONAL_ADMIN_HOST)"},
		"an admin host that is a URL":         {args: []string{"--admin-host", "https://cms.example"}, want: "--admin-host"},
		"a language without messages":         {args: []string{"--locale", "fr"}, want: "--locale"},
		"a drain without end":                 {args: []string{"--drain", "soon"}, want: "--drain"},
		"no time to drain":                    {env: map[string]string{"PERSONAL_DRAIN": "0s"}, want: "--drain"},
		"a negative bake":                     {args: []string{"--bake=-1s"}, want: "--bake"},
		"an unknown log level":                {args: []string{"--log-level", "loud"}, want: "--log-level"},
		"no plugin":                           {want: "no plugin is installed"},
		"a plugin that is not there":          {args: []string{"--plugin", "/does/not/exist"}, want: "--plugin"},
		"a flag that nobody knows":            {args: []string{"--bogus"}, want: "--bogus"},
		"a sender and a drain that are wrong": {args: []string{"--mail-from", "nobody", "--drain", "0s"}, want: "--drain"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for key, value := range tt.env {
				t.Setenv(key, value)
			}
			args := append([]string{"serve", "--data", t.TempDir()}, tt.args...)
			code, stdout, stderr := runCommand(t, args...)
			if code != 1 || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, standard error %q; want 1 and %q", code, stderr, tt.want)
			}
			if stdout != "" {
				t.Errorf("standard output is %q", stdout)
			}
			if strings.Contains(stderr, "hunter2") {
				t.Errorf("the password is shown: %q", stderr)
			}
		})
	}
}

// checked returns the config of a command that must be in order.
func checked(t *testing.T, f serveCommand, typed ...string) config {
	t.Helper()
	flags := map[string]bool{}
	for _, name := range typed {
		flags[name] = true
	}
	c, err := f.check(flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// defaults are the flags that kong sets when none is given.
func defaults(data string) serveCommand {
	return serveCommand{
		Addr: "127.0.0.1:0", Data: data, MailFrom: "personal@localhost", Locale: "en",
		Bake: 1, Drain: 1, LogLevel: "info",
	}
}

func TestTheDatabaseIsInTheDataFolderByDefault(t *testing.T) {
	dir := t.TempDir()
	if got, want := checked(t, defaults(dir)).databaseURL, "sqlite://"+filepath.Join(dir, "personal.db"); got != want {
		t.Errorf("database is %q, want %q", got, want)
	}
}

func TestARelativeDatabaseFileIsMadeAbsolute(t *testing.T) {
	f := defaults(t.TempDir())
	f.Database = "sqlite://x/y.db"
	got := checked(t, f, "database").databaseURL
	if path, ok := strings.CutPrefix(got, "sqlite://"); !ok || !filepath.IsAbs(path) || !strings.HasSuffix(path, "/x/y.db") {
		t.Errorf("database is %q", got)
	}
}

func TestCredentialsAreTakenFromTheEnvironment(t *testing.T) {
	f := defaults(t.TempDir())
	f.Database = "postgres://cms:hunter2@db/x"
	f.SMTP = "smtps://cms:hunter2@mail"
	if c := checked(t, f); c.databaseURL != f.Database || c.relay == nil {
		t.Error("the URLs were not taken")
	}
	f.Database, f.SMTP = "postgres://cms@db/x", "smtps://mail"
	checked(t, f, "database", "smtp") // without a password flags are fine
}

func TestABakeOfNothingIsNone(t *testing.T) {
	f := defaults(t.TempDir())
	f.Bake = 0
	checked(t, f)
}

func TestListeningOffLoopbackNeedsAWordAboutMails(t *testing.T) {
	f := defaults(t.TempDir())
	f.Addr = "0.0.0.0:80"
	f.AllowMailCapture = true
	checked(t, f)
	f.AllowMailCapture, f.SMTP = false, "smtp://mail.example.com"
	checked(t, f)
	for _, loopback := range []string{"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1"} {
		f := defaults(t.TempDir())
		f.Addr = loopback
		checked(t, f)
	}
}

func TestTrustedProxiesAreNetworksOrAddresses(t *testing.T) {
	list, err := prefixes([]string{"10.0.0.0/8", " 192.0.2.1", "2001:db8::1", "::ffff:192.0.2.7"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list {
		got = append(got, p.String())
	}
	if want := "10.0.0.0/8 192.0.2.1/32 2001:db8::1/128 192.0.2.7/32"; strings.Join(got, " ") != want {
		t.Errorf("proxies are %v, want %s", got, want)
	}
}

func TestEveryFlagHasItsEnvironmentTwin(t *testing.T) {
	parser, err := newParser(t.Context(), output{stdout: io.Discard, stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, command := range parser.Model.Children {
		for _, flag := range command.Flags {
			seen++
			twin := "PERSONAL_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
			if !slices.Equal(flag.Envs, []string{twin}) {
				t.Errorf("%s --%s: the environment variables are %v, want %s", command.Name, flag.Name, flag.Envs, twin)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d flags were looked at", seen)
	}
}

func TestAdminHostsAreRepeatedOrSeparatedByCommas(t *testing.T) {
	f := defaults(t.TempDir())
	f.AdminHost = []string{"cms.example", "www.cms.example"}
	if got := checked(t, f).adminHosts; !slices.Equal(got, f.AdminHost) {
		t.Errorf("admin hosts are %q", got)
	}
}
