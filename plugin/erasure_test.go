package main

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// Short times are kept, although other work is done once a minute. The process that handled the
// registration and the deletion is gone by then.
func TestModule_ErasesInTime(t *testing.T) {
	for condition, test := range map[string]struct {
		settings string
		deleted  bool
	}{
		"deleted account":    {"[deletion]\ngrace = \"1s\"\n", true},
		"unverified account": {"[registration]\nenabled = true\nemail_verification = \"required\"\nunverified_lifetime = \"1s\"\n", false},
	} {
		t.Run(condition, func(t *testing.T) {
			host := &personaltest.Host{}
			configuration := rpc.Configuration{
				DatabaseURL: testdb.SQLite(t), Settings: []byte(test.settings + "[password]\nmemory_kib = 7168\n"),
			}
			start := func() *module {
				t.Helper()
				built, err := builder(newMeasurements(), slog.New(slog.DiscardHandler), nil)(t.Context(), configuration, host)
				if err != nil {
					t.Fatal(err)
				}
				return built.(*module)
			}
			first := start()
			if err := first.Migrate(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			const password = personaltest.Password
			in, err := first.Service().Register(t.Context(), personal.RegisterRequest{
				Login: "ada", Email: "ada@example.com", Password: password, ConfirmPassword: password,
			})
			if err != nil {
				t.Fatal(err)
			}
			if test.deleted {
				if _, err := first.Service().Delete(t.Context(), personal.DeleteRequest{Credentials: in.Credentials, Password: password}); err != nil {
					t.Fatal(err)
				}
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			second := start()
			defer func() {
				if err := second.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := second.Activate(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // less than a minute
			defer cancel()
			if ids, err := host.AwaitErased(ctx, 1); err != nil || !slices.Equal(ids, []int64{1}) {
				t.Errorf("got erasures %v, error %v, want user 1, the first of the database", ids, err)
			}
		})
	}
}
