package personalhost

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/mail"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/smtprelay"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalhost/mailer"
	"github.com/cms-personal/personal/shared/personalhost/secretkeys"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestOpen_InvalidConfigNamesTheField(t *testing.T) {
	notABinary := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(notABinary, []byte("hello\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	const incompleteHost = "Config.Host: a personalhost.Host needs Fields, Mail and Log"
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no data folder":     {func(c *Config) { c.Data = "" }, "Config.Data is missing"},
		"data is a file":     {func(c *Config) { c.Data = notABinary }, "opening the data folder"},
		"unknown database":   {func(c *Config) { c.DatabaseURL = "mysql://u:secret@db" }, "Config.DatabaseURL: it must begin with sqlite:// or postgres://"},
		"invalid URL":        {func(c *Config) { c.URL = "https://u:secret@example.com/account" }, "Config.URL: it must be an http(s) URL without user, query and fragment, like https://example.com/account"},
		"invalid API option": {func(c *Config) { c.API.BasePath = "x/" }, `Config.API: personalhttp: options: base path "x/"`},
		"restrictions of another catalogue": {func(c *Config) {
			c.Catalogue, c.Accept = &catalogue.Catalogue{}, []catalogue.Option{catalogue.WithLog(quietLog())}
		}, "Config.Accept restricts only the catalogue in Data"},
		"host without fields": {func(c *Config) { c.Host = &Host{Mail: failingSender{}, Log: quietLog()} }, incompleteHost},
		"host without mail":   {func(c *Config) { c.Host = &Host{Fields: &fieldstore.Store{}, Log: quietLog()} }, incompleteHost},
		"host without log":    {func(c *Config) { c.Host = &Host{Fields: &fieldstore.Store{}, Mail: failingSender{}} }, incompleteHost},
		"embedded no host":    {func(c *Config) { c.Host = struct{ *Host }{} }, incompleteHost},
		"admission, no judge": {func(c *Config) { c.Admission = &personal.Admission{} }, "Config.Admission has no Judge"},
		"transient parameter": {func(c *Config) { c.API.Transient = []string{"code"} }, `Config.API: personalhttp: options: transient parameter "code" is a parameter of an operation`},
		"no plugin":           {func(c *Config) { c.Plugin = "" }, "no plugin is installed: set Config.Plugin"},
		"missing plugin":      {func(c *Config) { c.Plugin += ".missing" }, "Config.Plugin: installing a plugin: open "},
		"not a plugin":        {func(c *Config) { c.Plugin = notABinary }, "Config.Plugin: installing a plugin: plugin: cannot be installed here"},
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Data: t.TempDir(), Plugin: filepath.Join(t.TempDir(), "personal"), Log: quietLog()}
			test.change(&c)
			m, err := Open(t.Context(), c)
			if m != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got module %v, error %v, want an error with %q", m, err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("got error %q, want one without the password", err)
			}
		})
	}
}

func TestOpen_InvalidUserFieldsNameTheFile(t *testing.T) {
	c := Config{Data: t.TempDir(), Log: quietLog()}
	path := filepath.Join(c.Data, "user-fields.json")
	if err := os.WriteFile(path, []byte(`[{"name":"login","type":"text"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got error %v, want one that names %s", err, path)
	}
}

// ownFields is a host with its own schema.
type ownFields struct {
	*Host
	schema personal.Schema
	err    error
}

func (h ownFields) UserFields(context.Context) (personal.Schema, error) { return h.schema, h.err }

func TestOpen_UserFieldWithNameOfTransientParameter(t *testing.T) {
	newHost := func() *Host {
		fields, err := fieldstore.Open(filepath.Join(t.TempDir(), "fields.json"), []byte(`[{"name":"captcha","type":"text"}]`))
		if err != nil {
			t.Fatal(err)
		}
		return &Host{Fields: fields, Mail: failingSender{}, Log: quietLog()}
	}
	file := t.TempDir()
	if err := os.WriteFile(filepath.Join(file, "user-fields.json"), []byte(`[{"name":"captcha","type":"text"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = `Config.API.Transient: a user field has the name "captcha" as well: rename one of the two`
	for name, test := range map[string]struct {
		c    Config
		want string
	}{
		"the module's file": {Config{Data: file}, want},
		"a ready host":      {Config{Data: t.TempDir(), Host: newHost()}, want},
		"an embedded host":  {Config{Data: t.TempDir(), Host: struct{ *Host }{newHost()}}, want},
		"its own schema": {Config{Data: t.TempDir(), Host: ownFields{
			newHost(), personal.Schema{Fields: []personal.Field{{Name: "captcha", Type: personal.TypeText}}}, nil,
		}}, want},
		"a schema that cannot be read": {Config{Data: t.TempDir(), Host: ownFields{newHost(), personal.Schema{}, errors.New("no schema")}}, "comparing Config.API.Transient with the user fields: no schema"},
	} {
		test.c.Log, test.c.API.Transient = quietLog(), []string{"invite", "captcha"}
		if _, err := Open(t.Context(), test.c); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
}

func TestOpen_LaterUserFieldWithNameOfTransientParameter(t *testing.T) {
	fields, err := fieldstore.Open(filepath.Join(t.TempDir(), "fields.json"), []byte("[]"))
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Data: t.TempDir(), Host: struct{ *Host }{&Host{Fields: fields, Mail: failingSender{}, Log: quietLog()}}, Log: quietLog()}
	c.API.Transient = []string{"captcha"}
	if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no plugin is installed") {
		t.Fatalf("got %v, want that there is no plugin", err)
	}
	if _, err := fields.Put([]byte(`[{"name":"captcha","type":"text"}]`), func(string) bool { return true }); err == nil ||
		!strings.Contains(err.Error(), "user field captcha: the name is that of a transient parameter") {
		t.Errorf("got %v, want an error that names the field", err)
	}
}

func TestOpen_DamagedSecretKeyNamesFileAndLine(t *testing.T) {
	c := Config{Data: t.TempDir(), Log: quietLog()}
	path := filepath.Join(c.Data, "secret.key")
	if err := os.WriteFile(path, []byte("# a key\nsecret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), path+":2: the line is not a key") {
		t.Errorf("got error %v, want one that names %s and line 2", err, path)
	}
}

func TestOpen_SecretKeysComeFromFileUnlessConfigHasThem(t *testing.T) {
	var log bytes.Buffer
	var keys [2][][]byte
	c := Config{Data: t.TempDir(), Plugin: filepath.Join(t.TempDir(), "missing"), Log: slog.New(slog.NewTextHandler(&log, nil))}
	for i := range keys { // the second Open finds the file
		if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "Config.Plugin") {
			t.Fatalf("got error %v, want that the plugin is missing", err)
		}
		var err error
		if keys[i], err = secretkeys.ReadFile(filepath.Join(c.Data, "secret.key")); err != nil {
			t.Fatal(err)
		}
	}
	if len(keys[0]) != 1 || len(keys[1]) != 1 || !bytes.Equal(keys[0][0], keys[1][0]) ||
		strings.Count(log.String(), "created a secret key") != 1 {
		t.Errorf("got %d and %d keys, log %q, want that the first start alone creates one", len(keys[0]), len(keys[1]), &log)
	}

	c.Data = t.TempDir()
	c.SecretKeys = func() ([][]byte, error) { return nil, nil }
	_, _ = Open(t.Context(), c)
	if _, err := os.Stat(filepath.Join(c.Data, "secret.key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Config with keys: got %v, want no file", err)
	}
}

func TestOpen_WarnsThatANewerPluginIsNotRun(t *testing.T) {
	versions, err := catalogue.Open(filepath.Join(t.TempDir(), "plugins"))
	if err != nil {
		t.Fatal(err)
	}
	program := func(version string) string {
		path := filepath.Join(t.TempDir(), "personal")
		text := fmt.Sprintf(`#!/bin/sh
echo '{"name":"personal","version":"%s","protocol":{"min":1,"max":1},"schema":{"min":0,"max":1},"os":"%s","arch":"%s"}'
`, version, runtime.GOOS, runtime.GOARCH)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if _, err := versions.Install(t.Context(), program("1.0.0")); err != nil {
		t.Fatal(err)
	}
	for version, warned := range map[string]bool{"1.0.0": false, "1.1.0": true, "0.9.0": false} {
		var log bytes.Buffer
		c := Config{Catalogue: versions, Plugin: program(version), Log: slog.New(slog.NewTextHandler(&log, nil))}
		if err := c.choosePlugin(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "active=1.0.0 offered="+version); got != warned {
			t.Errorf("%s: got the log %q, want that it names both versions: %t", version, log.String(), warned)
		}
	}
}

func TestCheckURL_TakesWhatLinksCanBeginWith(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "https://example.com/account": true, "http://127.0.0.1:8080/account/": true, "https://[2001:db8::1]/": true, "https://сайт.example": true,
		"example.com/account": false, "/account": false, "ftp://example.com": false, "https://": false, "https://:8080/": false, "https:example.com": false,
		"https://u@example.com": false, "https://example.com?": false, "https://example.com/?a=b": false, "https://example.com/#": false,
		"https://example.com/{token}": false, "https://example.com/%": false, "https://exa mple.com": false, "https://example.com/\n": false,
	} {
		if err := CheckURL(text); (err == nil) != ok {
			t.Errorf("%q: got error %v, want none: %t", text, err, ok)
		}
	}
}

func TestDatabaseURL_SQLitePathIsAbsolute(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string]string{
		"":                     "sqlite:///data/personal.db",
		"sqlite:///x.db":       "sqlite:///x.db",
		"sqlite://x.db":        "sqlite://" + filepath.Join(here, "x.db"),
		"sqlite://:memory:":    "sqlite://:memory:",
		"postgres://u:p@db/x":  "postgres://u:p@db/x",
		"postgresql://db:1/xy": "postgresql://db:1/xy",
	} {
		if got, err := DatabaseURL(raw, "/data"); err != nil || got != want {
			t.Errorf("DatabaseURL(%q): got %q, %v, want %q", raw, got, err, want)
		}
	}
}

// failingSender refuses mails.
type failingSender struct{ err error }

func (s failingSender) Send(context.Context, personal.Mail) error { return s.err }
func (s failingSender) Check(context.Context) error               { return s.err }

var _ mailer.Sender = failingSender{}

func TestHost_EventIsLogged(t *testing.T) {
	var log bytes.Buffer
	h := &Host{Log: slog.New(slog.NewTextHandler(&log, nil))}
	e := personal.Event{ID: "e1", Type: personal.EventSignedIn, UserID: 42, Address: "192.0.2.1", RequestID: "r"}
	if err := h.PublishEvent(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got, want := log.String(), `msg="account event" type=signed_in user_id=42 request_id=r`+"\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got log %q, want it to end with %q", got, want)
	}
	e.Fields = []string{"city", "name"}
	if err := h.PublishEvent(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got, want := log.String(), " request_id=r fields=city,name\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got log %q, want it to end with %q", got, want)
	}
}

func TestHost_FailedMailKeepsTheCauseAndIsNamed(t *testing.T) {
	var log bytes.Buffer
	refused := personal.NewMailRefusedError("550 no such user")
	h := &Host{Mail: failingSender{refused}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	err := h.SendMail(t.Context(), personal.Mail{ID: "m1", Text: "a secret"})
	var got *personal.MailRefusedError
	if !errors.As(err, &got) || got != refused || !strings.Contains(err.Error(), "m1") {
		t.Errorf("got error %v, want the refusal, and the mail's ID", err)
	}
	if log.Len() != 0 {
		t.Errorf("got log %q, want none: the mail was not delivered", &log)
	}
	if err := h.CheckMail(t.Context()); !errors.Is(err, refused) {
		t.Errorf("got %v from the check, want that of the sender", err)
	}
}

func TestReadyHost_HasNoFieldsAndCapturesMails(t *testing.T) {
	var log bytes.Buffer
	data := t.TempDir()
	h, err := readyHost(Config{Data: data, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if schema, err := h.UserFields(t.Context()); err != nil || len(schema.Fields) != 0 || schema.Revision == "" {
		t.Errorf("got schema %v, %v, want no fields and a revision", schema, err)
	}
	if err := h.SendMail(t.Context(), personal.Mail{ID: "m1", To: "anna@example.com", Subject: "Code", Text: "a secret"}); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(data, "mail", "*-m1.eml")); len(files) != 1 {
		t.Errorf("got files %v, want the mail", files)
	}
	if text := log.String(); !strings.Contains(text, "mail_id=m1") || strings.Contains(text, "a secret") {
		t.Errorf("got log %q, want the mail's ID and no secret", text)
	}
}

func TestConfig_RelayLearnsTheSite(t *testing.T) {
	relay := &smtprelay.Relay{}
	smtp, err := mailer.NewSMTP("smtp://127.0.0.1", &mail.Address{Address: "a@sender.example"}, mailer.Options{Dial: relay.Dial})
	if err != nil {
		t.Fatal(err)
	}
	fields, err := fieldstore.Open(filepath.Join(t.TempDir(), "user-fields.json"), []byte("[]\n"))
	if err != nil {
		t.Fatal(err)
	}
	type own struct{ *Host } // of a CMS
	c := Config{Data: t.TempDir(), URL: "https://www.example.org/account", Host: own{&Host{Fields: fields, Mail: smtp, Log: slog.Default()}}}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	if err := smtp.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	relay.Wait()
	if got := relay.Talks()[0].Helo; got != "www.example.org" {
		t.Errorf("got EHLO %s, want the host of the site's URL", got)
	}
}

// All nodes with the same secret keys have the same keys for a purpose.
func TestModule_KeysDependOnSecretAndPurpose(t *testing.T) {
	one, two := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	keys := func(purpose string, secrets ...[]byte) [][]byte {
		t.Helper()
		m := &Module{keys: func() ([][]byte, error) { return secrets, nil }}
		got, err := m.Keys(purpose)
		if err != nil || len(got) != len(secrets) {
			t.Fatalf("got %d keys, %v; want %d", len(got), err, len(secrets))
		}
		return got
	}
	a, rotated := keys("cookies", one), keys("cookies", two, one)
	switch {
	case len(a[0]) != 32 || !bytes.Equal(a[0], rotated[1]):
		t.Error("another node, or one with a new first key, has another key of the same secret")
	case bytes.Equal(a[0], rotated[0]) || bytes.Equal(a[0], one) || bytes.Equal(a[0], keys("else", one)[0]):
		t.Error("the key is that of another secret or purpose, or the secret itself")
	case len(keys("cookies")) != 0:
		t.Error("there is a key without a secret")
	}
	failed := errors.New("no file")
	if _, err := (&Module{keys: func() ([][]byte, error) { return nil, failed }}).Keys("cookies"); !errors.Is(err, failed) {
		t.Errorf("got %v, want the error of the secret keys", err)
	}
}
