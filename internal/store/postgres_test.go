package store_test

import (
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
)

func TestOnPostgreSQLNowIsTheServersTime(t *testing.T) {
	url := testkit.Postgres(t)
	s := open(t, url, store.Options{})
	before := s.Now()
	theirs := time.UnixMicro(value[int64](t, url, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))
	after := s.Now()
	const slack = time.Second // of the measurement
	if theirs.Before(before.Add(-slack)) || theirs.After(after.Add(slack)) {
		t.Errorf("the server's time %v is not between %v and %v", theirs, before, after)
	}
}
