package store_test

import (
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
)

func TestNow_IsThePostgreSQLServersTime(t *testing.T) {
	url := testkit.Postgres(t)
	s := open(t, url, store.Options{})
	before := s.Now()
	server := time.UnixMicro(value[int64](t, url, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))
	after := s.Now()
	const slack = time.Second // of the measurement
	if server.Before(before.Add(-slack)) || server.After(after.Add(slack)) {
		t.Errorf("got %v to %v, want the server's time %v in between", before, after, server)
	}
}
