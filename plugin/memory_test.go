package main

import (
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestCheckMemory_RefusesLessThanHashingNeeds(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		limit, hashing int64
		want           string
	}{
		{0, 4096 * mib, ""},
		{134 * mib, 38 * mib, ""},
		{134*mib - 1, 38 * mib, "the limit is 133 MiB, with these settings the plugin needs 134 MiB (96 MiB, and 38 MiB for"},
		{1024 * mib, 16 * 256 * mib, "the limit is 1024 MiB, with these settings the plugin needs 4192 MiB"},
	} {
		err := checkMemory(tt.limit, tt.hashing)
		var permanent *rpc.PermanentError
		if errors.As(err, &permanent) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("limit %d, hashing %d: got %v, want %q", tt.limit, tt.hashing, err, tt.want)
		}
	}
}

func TestModule_RefusesMemoryLimitBelowItsSettings(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	build := builder(newMeasurements(), slog.New(slog.DiscardHandler), nil)
	c := rpc.Configuration{DatabaseURL: testdb.SQLite(t), Settings: []byte("[password]\nmemory_kib = 65536\n")}
	t.Setenv(rpc.MemoryLimitEnv, "209715200") // 200 MiB
	_, err := build(t.Context(), c, &personaltest.Host{})
	var permanent *rpc.PermanentError
	if !errors.As(err, &permanent) || !strings.Contains(err.Error(), "needs 224 MiB") ||
		!strings.Contains(err.Error(), "password.memory_kib") {
		t.Errorf("got %v, want a permanent error with the numbers and the setting", err)
	}
	t.Setenv(rpc.MemoryLimitEnv, "234881024") // 224 MiB
	m, err := build(t.Context(), c, &personaltest.Host{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
