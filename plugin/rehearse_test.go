package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// everyField is a schema with each type, rule and kind of access.
func everyField() []personal.Field {
	low, high := 3.0, 9.0
	text := func(s string) personal.Input { return personal.Text(s) }
	return []personal.Field{
		{Name: "company", Type: personal.TypeText, MaxLength: 5, Required: true},
		{Name: "phone", Type: personal.TypeText, Pattern: `\+?[0-9][0-9 ()-]{4,18}[0-9]`, Required: true},
		{Name: "note", Type: personal.TypeLongText},
		{Name: "age", Type: personal.TypeInteger, Min: &low, Max: &high},
		{Name: "height", Type: personal.TypeNumber, Min: &low},
		{Name: "newsletter", Type: personal.TypeBoolean, Default: personal.Input{Kind: personal.InputBoolean, Text: "true"}},
		{Name: "born", Type: personal.TypeDate, Required: true},
		{Name: "seen", Type: personal.TypeDateTime},
		{Name: "city", Type: personal.TypeEnum, Options: []personal.Option{{Value: "kazan"}, {Value: "moscow", Label: personal.LocalText{"en": "Moscow"}}}, Default: text("moscow")},
		{Name: "picture", Type: personal.TypeFile, Pattern: `[a-z/]+\.png`},
		{Name: "friend", Type: personal.TypeLink},
		{Name: "friends", Type: personal.TypeLinkSet, Pattern: `(u|g)-[1-9][0-9]*`},
		{Name: "tags", Type: personal.TypeTags, MaxLength: 1, Required: true},
		{Name: "role_links", Type: personal.TypeLinkSet, Pattern: `fixed`},
		{Name: "customer", Type: personal.TypeText, ReadOnly: true, Order: -1},
		{Name: "rating", Type: personal.TypeInteger, Hidden: true, Default: personal.Input{Kind: personal.InputNumber, Text: "5"}},
		{Name: "secret", Type: personal.TypeLongText, Hidden: true},
	}
}

// rehearsedModule returns a module whose database has the current schema.
func rehearsedModule(t testing.TB, url, settings string, fields ...personal.Field) *module {
	t.Helper()
	host := &personaltest.Host{UserFieldsFunc: func(context.Context) (personal.Schema, error) {
		return personal.Schema{Revision: "1", Fields: slices.Clone(fields)}, nil
	}}
	return moduleOf(t, host, rpc.Configuration{DatabaseURL: url, Settings: []byte(settings),
		SecretKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}})
}

func moduleOf(t testing.TB, host personal.Host, c rpc.Configuration) *module {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	built, err := builder(newMeasurements(), log, nil)(t.Context(), c, host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { built.Close() })
	if err := built.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return built.(*module)
}

// rehearseCopy is rehearse where a rehearsal on SQLite ends, on an empty copy: most take longer than
// they may hold the writer.
func rehearseCopy(t testing.TB, m *module) (others []rpc.RehearsalCheck) {
	t.Helper()
	others, _ = checksOf(t, func(ctx context.Context) (rpc.Rehearsal, error) { return m.rehearseOn(ctx, true) })
	return others
}

// rehearse rehearses and returns the checks that did not pass, and the names of all.
func rehearse(t testing.TB, m *module) (others []rpc.RehearsalCheck, names []string) {
	t.Helper()
	return checksOf(t, m.Rehearse)
}

func checksOf(t testing.TB, run func(context.Context) (rpc.Rehearsal, error)) (others []rpc.RehearsalCheck, names []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a slow machine must not interrupt it
	defer cancel()
	got, err := run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range got.Checks {
		names = append(names, c.Name)
		if c.Outcome != rpc.RehearsalPassed {
			others = append(others, c)
		}
	}
	return others, names
}

const everythingOn = `
[site]
name = "A site"
[registration]
enabled = true
email_verification = "required"
[two_factor]
enabled = true
[login]
with_email = true
[passkeys]
rp_id = "site.example"
origins = ["https://site.example"]
`

// rehearsedSettings are settings that an honest version passes with.
var rehearsedSettings = map[string]string{
	"default":       "",
	"everything on": everythingOn,
	"optional verification": `
[registration]
email_verification = "optional"
[two_factor]
enabled = true
[mail]
notices = false
[throttle]
enabled = false
`,
	"extreme": `
[session]
idle = "1s"
absolute = "1s"
grace = "1s"
[password]
min_length = 256
words = ["rehearsal"]
[recovery]
lifetime = "1s"
[registration]
enabled = true
email_verification = "required"
verification_lifetime = "1s"
unverified_lifetime = "1s"
[deletion]
grace = "1s"
[two_factor]
enabled = true
[throttle]
register = {burst = 1, every = "24h"}
confirm = {burst = 1, every = "24h"}
recover_all = {burst = 1, every = "24h"}
sign_in_account = {burst = 1, every = "24h"}
guess = {burst = 1, every = "24h"}
`,
}

func TestRehearse_HonestVersionPasses(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		for name, settings := range rehearsedSettings {
			t.Run(name, func(t *testing.T) {
				schemas := [][]personal.Field{everyField()}
				if name == "default" || name == "everything on" {
					schemas = append(schemas, nil)
				}
				for _, fields := range schemas {
					others := rehearseCopy(t, rehearsedModule(t, url, settings, fields...))
					for _, c := range others {
						if c.Outcome == rpc.RehearsalFailed || name == "everything on" {
							t.Errorf("check %s with %d fields: got %s: %s %v", c.Name, len(fields), c.Outcome, c.Reason, c.Differences)
						}
					}
				}
			})
		}
	})
}

func BenchmarkRehearse(b *testing.B) {
	for name, database := range map[string]func(testing.TB) string{"SQLite": testdb.SQLite, "PostgreSQL": testdb.Postgres} {
		for settings, text := range map[string]string{"default": "", "everything on": everythingOn} {
			b.Run(fmt.Sprintf("%s/%s", name, settings), func(b *testing.B) {
				m := rehearsedModule(b, database(b), text, everyField()...)
				for b.Loop() {
					if others, _ := rehearse(b, m); len(others) > 1 {
						b.Fatal(others)
					}
				}
			})
		}
	}
}
