package main

import (
	"log/slog"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// rehearsedModule returns a module whose database has the current schema.
func rehearsedModule(t testing.TB, url, settings string, fields ...personal.Field) *module {
	t.Helper()
	host := &personaltest.Host{}
	version := func() (string, error) { return "1.0.0", nil }
	built, err := builder(version, newMeasurements(), slog.New(slog.NewTextHandler(testWriter{t}, nil)), nil)(t.Context(), pluginrpc.Configuration{
		DatabaseURL: url, Settings: []byte(settings), Settles: true,
	}, host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { built.Close() })
	if err := built.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return built.(*module)
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) { w.t.Log(string(b)); return len(b), nil }

func BenchmarkRehearse(b *testing.B) {
	for name, database := range map[string]func(testing.TB) string{"SQLite": testkit.SQLite, "PostgreSQL": testkit.Postgres} {
		b.Run(name, func(b *testing.B) {
			m := rehearsedModule(b, database(b), "")
			for b.Loop() {
				got, err := m.Rehearse(b.Context())
				if err != nil || len(got.Checks) == 0 {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestRehearse_Passes(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		m := rehearsedModule(t, url, "")
		got, err := m.Rehearse(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got.Checks {
			t.Log(c)
			if c.Outcome == pluginrpc.RehearsalFailed {
				t.Errorf("check %s failed: %s %v", c.Name, c.Reason, c.Differences)
			}
		}
	})
}
