package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// runCommand runs the command line with a context that has ended, so that a host
// that starts unexpectedly stops at once.
func runCommand(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code = Run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestServe_InvalidFlagIsNamed(t *testing.T) {
	tests := map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"an address without a port":              {args: []string{"--addr", "127.0.0.1"}, want: "--addr (PERSONAL_ADDR)"},
		"mail capture on every address":          {args: []string{"--addr", ":8080"}, want: "--allow-mail-capture"},
		"mail capture on a named address":        {args: []string{"--addr", "cms.example.com:80"}, want: "--addr"},
		"a database of an unknown kind":          {args: []string{"--database", "mysql://localhost/x"}, want: "--database"},
		"a database password as a flag":          {args: []string{"--database", "postgres://cms:hunter2@db/x"}, want: "--database (PERSONAL_DATABASE): a URL with a password is accepted from the environment only"},
		"a database password as a parameter":     {args: []string{"--database", "postgres://cms@db/x?password=hunter2"}, want: "--database"},
		"a database URL that cannot be read":     {args: []string{"--database", "postgres://cms:hunter2%zz@db/x"}, want: "--database"},
		"a name that no relay takes":             {args: []string{"--smtp=smtp://mail", "--smtp-helo=a b"}, want: "--smtp-helo"},
		"a relay password as a flag":             {args: []string{"--smtp=smtp://cms:hunter2@mail"}, want: "--smtp"},
		"an invalid relay in the environment":    {env: map[string]string{"PERSONAL_SMTP": "imap://cms:hunter2@mail"}, want: "--smtp (PERSONAL_SMTP)"},
		"a plugin key that does not exist":       {args: []string{"--plugin-key", "/does/not/exist.pub"}, want: "--plugin-key (PERSONAL_PLUGIN_KEY)"},
		"an empty plugin key":                    {args: []string{"--plugin-key="}, want: "--plugin-key"},
		"an empty plugin key variable":           {env: map[string]string{"PERSONAL_PLUGIN_KEY": ""}, want: "--plugin-key"},
		"a plugin key file without a key":        {args: []string{"--plugin-key", "config_test.go"}, want: "--plugin-key"},
		"a plugin floor that is not a version":   {args: []string{"--plugin-floor", "v1"}, want: "--plugin-floor"},
		"an empty plugin floor":                  {args: []string{"--plugin-floor="}, want: "--plugin-floor"},
		"an empty plugin floor variable":         {env: map[string]string{"PERSONAL_PLUGIN_FLOOR": ""}, want: "--plugin-floor"},
		"an empty minimum age":                   {args: []string{"--plugin-min-age="}, want: "--plugin-min-age"},
		"an empty minimum age variable":          {env: map[string]string{"PERSONAL_PLUGIN_MIN_AGE": ""}, want: "--plugin-min-age"},
		"a memory limit without a unit":          {args: []string{"--plugin-memory", "512"}, want: "--plugin-memory"},
		"a memory limit in another unit":         {env: map[string]string{"PERSONAL_PLUGIN_MEMORY": "512MB"}, want: "write it like 512MiB or 1GiB"},
		"a settings file that does not exist":    {args: []string{"--settings", "/does/not/exist.toml"}, want: "--settings"},
		"a sender that is not an address":        {args: []string{"--mail-from", "nobody"}, want: "--mail-from"},
		"a base path with a final slash":         {args: []string{"--base-path", "/x/"}, want: "--base-path"},
		"a proxy that is not a network":          {args: []string{"--trusted-proxy", "10.0.0.0/8,proxy"}, want: "--trusted-proxy"},
		"another forwarded header":               {args: []string{"--forwarded-header", "x-real-ip"}, want: "--forwarded-header (PERSONAL_FORWARDED_HEADER)"},
		"a wildcard origin":                      {args: []string{"--cors-origin", "*"}, want: "--cors-origin"},
		"an own origin with a path":              {args: []string{"--origin", "https://cms.example/"}, want: "--origin (PERSONAL_ORIGIN)"},
		"an admin host with a port":              {args: []string{"--admin-host", "cms.example:443"}, want: "--admin-host (PERSONAL_ADMIN_HOST)"},
		"an admin host that is a URL":            {args: []string{"--admin-host", "https://cms.example"}, want: "--admin-host"},
		"a domain that is an address":            {args: []string{"--register-domains", "example.com,anna@example.org"}, want: "--register-domains (PERSONAL_REGISTER_DOMAINS): \"anna@example.org\" is not a domain"},
		"an empty list of domains":               {env: map[string]string{"PERSONAL_REGISTER_DOMAINS": ""}, want: "--register-domains"},
		"a provider without a client":            {args: []string{"--oidc", "google=https://accounts.google.com"}, want: "--oidc (PERSONAL_OIDC): \"google=https://accounts.google.com\" is not NAME=ISSUER"},
		"two providers, the second without one":  {env: map[string]string{"PERSONAL_OIDC": "a=https://a.example,id;b"}, want: "--oidc (PERSONAL_OIDC): \"b\" is not NAME=ISSUER"},
		"a language without messages":            {args: []string{"--locale", "ja"}, want: "--locale"},
		"languages of which one has no messages": {args: []string{"--locales", "de,ja"}, want: "--locales"},
		"a drain that is not a duration":         {args: []string{"--drain", "soon"}, want: "--drain"},
		"a drain without a unit":                 {args: []string{"--drain", "24"}, want: `--drain: "24" is not a duration: write it like 90s, 15m or 24h`},
		"a bake without a unit":                  {env: map[string]string{"PERSONAL_BAKE": "24"}, want: `"24" is not a duration: write it like`},
		"a drain of 0":                           {env: map[string]string{"PERSONAL_DRAIN": "0s"}, want: "--drain"},
		"a negative bake":                        {args: []string{"--bake=-1s"}, want: "--bake"},
		"an unknown policy for rehearsals":       {args: []string{"--rehearse", "sometimes"}, want: "--rehearse (PERSONAL_REHEARSE): \"sometimes\" is not refuse, warn or off"},
		"a negative minimum age":                 {args: []string{"--plugin-min-age=-1h"}, want: "--plugin-min-age (PERSONAL_PLUGIN_MIN_AGE)"},
		"an unknown log level":                   {args: []string{"--log-level", "loud"}, want: "--log-level"},
		"profiles on every address":              {args: []string{"--pprof", ":6060"}, want: "--pprof (PERSONAL_PPROF): profiles are served on a loopback address only"},
		"profiles on a named address":            {args: []string{"--pprof", "cms.example.com:6060"}, want: "--pprof"},
		"profiles without a port":                {args: []string{"--pprof", "127.0.0.1"}, want: "--pprof"},
		"a debugger on a reachable address":      {args: []string{"--addr", "cms.example.com:80", "--allow-mail-capture", "--debug-plugin"}, want: "--addr (PERSONAL_ADDR): --debug-plugin pauses"},
		"a debugger on every address":            {args: []string{"--addr", ":8080", "--allow-mail-capture"}, env: map[string]string{"PERSONAL_DEBUG_PLUGIN": "true"}, want: "--debug-plugin"},
		"no plugin":                              {want: "no plugin is installed"},
		"a plugin that does not exist":           {args: []string{"--plugin", "/does/not/exist"}, want: "--plugin"},
		"an unknown flag":                        {args: []string{"--bogus"}, want: "--bogus"},
		"an invalid sender and an invalid drain": {args: []string{"--mail-from", "nobody", "--drain", "0s"}, want: "--drain"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for key, value := range tt.env {
				t.Setenv(key, value)
			}
			args := append([]string{"serve", "--data", t.TempDir()}, tt.args...)
			code, stdout, stderr := runCommand(t, args...)
			if code != 1 || !strings.Contains(stderr, tt.want) {
				t.Errorf("got exit code %d, standard error %q, want 1 and %q", code, stderr, tt.want)
			}
			if stdout != "" {
				t.Errorf("got standard output %q, want none", stdout)
			}
			if strings.Contains(stderr, "hunter2") {
				t.Errorf("standard error contains the password: %q", stderr)
			}
		})
	}
}

// checked returns the config of valid flags.
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

func TestServe_DatabaseDefaultsToDataFolder(t *testing.T) {
	dir := t.TempDir()
	if got, want := checked(t, defaults(dir)).databaseURL, "sqlite://"+filepath.Join(dir, "personal.db"); got != want {
		t.Errorf("got database %q, want %q", got, want)
	}
}

func TestServe_RelativeDatabasePathBecomesAbsolute(t *testing.T) {
	f := defaults(t.TempDir())
	f.Database = "sqlite://x/y.db"
	got := checked(t, f, "database").databaseURL
	if path, ok := strings.CutPrefix(got, "sqlite://"); !ok || !filepath.IsAbs(path) || !strings.HasSuffix(path, "/x/y.db") {
		t.Errorf("got database %q, want an absolute path that ends in /x/y.db", got)
	}
}

func TestServe_PasswordsOnlyFromEnvironment(t *testing.T) {
	f := defaults(t.TempDir())
	f.Database = "postgres://cms:hunter2@db/x"
	f.SMTP = "smtps://cms:hunter2@mail"
	if c := checked(t, f); c.databaseURL != f.Database || c.relay == nil {
		t.Errorf("got database %q and relay %v, want the URLs of the environment", c.databaseURL, c.relay)
	}
	f.Database, f.SMTP = "postgres://cms@db/x", "smtps://mail"
	checked(t, f, "database", "smtp") // URLs without a password may be flags
}

func TestServe_AddressOffLoopbackNeedsMailFlag(t *testing.T) {
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

func TestPrefixes_NetworksAndAddresses(t *testing.T) {
	list, err := prefixes([]string{"10.0.0.0/8", " 192.0.2.1", "2001:db8::1", "::ffff:192.0.2.7"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list {
		got = append(got, p.String())
	}
	if want := "10.0.0.0/8 192.0.2.1/32 2001:db8::1/128 192.0.2.7/32"; strings.Join(got, " ") != want {
		t.Errorf("got proxies %v, want %s", got, want)
	}
}

func TestFlags_HaveEnvironmentVariables(t *testing.T) {
	parser, err := newParser(t.Context(), output{stdout: io.Discard, stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, command := range parser.Model.Children {
		for _, flag := range command.Flags {
			seen++
			variable := "PERSONAL_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
			if !slices.Equal(flag.Envs, []string{variable}) {
				t.Errorf("%s --%s: got environment variables %v, want %s", command.Name, flag.Name, flag.Envs, variable)
			}
		}
	}
	if seen < 20 {
		t.Errorf("got %d flags, want at least 20", seen)
	}
}

func TestServe_AdminHostsAreValid(t *testing.T) {
	f := defaults(t.TempDir())
	f.AdminHost = []string{"cms.example", "www.cms.example"}
	checked(t, f)
}

func TestServe_WithoutPluginReleasesDataFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for range 2 {
		code, _, stderr := runCommand(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
		if code != 1 || !strings.Contains(stderr, errNoPlugin.Error()) {
			t.Errorf("exit code %d, standard error %q", code, stderr)
		}
	}
}

func TestMemorySize_IsReadWithItsUnit(t *testing.T) {
	for text, want := range map[string]memorySize{
		"512MiB": 512 << 20, "1GiB": 1 << 30, "3KiB": 3 << 10, "100B": 100, "1TiB": 1 << 40,
		"": 0, "0MiB": 0, "-1MiB": 0, "512": 0, "512M": 0, "512MB": 0, "1.5GiB": 0, "MiB": 0, "9999999TiB": 0, "off": 0,
	} {
		var got memorySize
		if err := got.UnmarshalText([]byte(text)); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %d (%v), want %d", text, got, err, want)
		}
	}
}

func TestCommands_RefuseWhatOthersCanChange(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	if code, _, stderr := runToEnd(t, "plugin", "install", "--activate", fake(t, fakeVersion), "--data", data); code != 0 {
		t.Fatalf("got exit code %d, %q, want 0", code, stderr)
	}
	settings, key := filepath.Join(t.TempDir(), "personal.toml"), filepath.Join(t.TempDir(), "key.pub")
	for _, path := range []string{settings, key} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, 0o620)); err != nil {
			t.Fatal(err)
		}
	}
	serve := []string{"serve", "--addr", "127.0.0.1:0"}
	install := []string{"plugin", "install", fake(t, fakeVersion)}
	all := [][]string{serve, {"plugin", "list"}, install, {"plugin", "remove", "1.0.0"}, {"plugin", "prune"}}
	online := [][]string{{"plugin", "status"}, {"plugin", "use", "1.0.0"}, {"plugin", "rollback"}, {"admin-link"}, {"healthcheck"}}
	for path, refusing := range map[string][][]string{
		data:                               slices.Concat(all, online),
		filepath.Join(data, "plugins"):     all,
		filepath.Join(data, "admin-token"): {serve},
		settings:                           {append(serve, "--settings", settings)},
		key:                                {append(serve, "--plugin-key", key), {"plugin", "list", "--plugin-key", key}},
	} {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.WriteFile(path, nil, 0o600)
		}
		if err := errors.Join(err, os.Chmod(path, 0o777)); err != nil {
			t.Fatal(err)
		}
		for _, args := range refusing {
			code, stdout, stderr := runCommand(t, append(args, "--data", data)...)
			if code != 1 || stdout != "" || !strings.Contains(stderr, path+": ") || !strings.Contains(stderr, "then run chmod ") {
				t.Errorf("%s, %v: got exit code %d, %q, %q, want 1, the path and the command that corrects it", path, args, code, stdout, stderr)
			}
		}
		if info == nil {
			err = os.Remove(path)
		} else {
			err = os.Chmod(path, info.Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
