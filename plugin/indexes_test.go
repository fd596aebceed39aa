package main

import (
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

func TestIndexes_AreChangedOnceSettled(t *testing.T) {
	url := testkit.Postgres(t)
	n := newNode(t, pluginrpc.Configuration{DatabaseURL: url, Settles: true})
	n.begin(t)
	if err := n.Activate(t.Context()); err != nil {
		t.Fatal(err)
	}
	pools, err := dbconn.Open(url, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	removed := func() (removed bool) {
		t.Helper()
		if err := pools.Read.QueryRowContext(t.Context(), "SELECT to_regclass('personal_sessions_last_seen') IS NULL").Scan(&removed); err != nil {
			t.Fatal(err)
		}
		return removed
	}
	if removed() {
		t.Error("before the version is settled: got a removed index, which a rollback may need")
	}
	if err := n.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); !removed(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("settled: the index was not removed")
		}
	}
	if err := n.Quiesce(t.Context()); err != nil || strings.Contains(n.log.String(), "WARN") {
		t.Errorf("got error %v and log %s, want no warning", err, n.log)
	}
}
