package main

import (
	"log/slog"
	"runtime/debug"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestModule_CollectsLessOftenWhileHashing(t *testing.T) {
	const before = 50
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	build := builder(newMeasurements(), slog.New(slog.DiscardHandler), nil)
	m, err := build(t.Context(), rpc.Configuration{
		DatabaseURL: testdb.SQLite(t), Settings: []byte("[password]\nmemory_kib = 8\ntime = 1\n"),
	}, &personaltest.Host{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Migrate(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	_, err = m.Service().Authorize(t.Context(), personal.AuthorizeRequest{Login: "nobody", Password: personaltest.Password})
	if personal.CodeOf(err) != personal.CodeInvalidCredentials {
		t.Fatal(err)
	}
	if got := debug.SetGCPercent(before); got <= before {
		t.Errorf("got collections at %d %% after a hash, want less often than at %d", got, before)
	}
}
