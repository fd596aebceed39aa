package store

import (
	"context"
	"testing"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/cms-personal/personal/internal/store/dbconn"
)

// clockStore is a store on a machine whose clock is wrong, with a database that
// has the given time, in microseconds.
func clockStore(t *testing.T, ours func() time.Time, query string) *Store {
	t.Helper()
	pools, err := dbconn.Open("sqlite://"+t.TempDir()+"/clock.db", dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pools.Close() })
	return &Store{dialect: dialect{readClock: query}, read: bun.NewDB(pools.Read, sqlitedialect.New()), clock: ours}
}

func TestNowIsTheDatabasesTime(t *testing.T) {
	ours := time.Date(2020, 1, 1, 0, 0, 0, 999, time.FixedZone("", 3600))
	s := clockStore(t, func() time.Time { return ours }, "SELECT 1772366400000007")
	if err := s.SyncClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours = ours.Add(time.Minute)
	want := time.Date(2026, 3, 1, 12, 1, 0, 7000, time.UTC)
	if got := s.Now(); got != want {
		t.Errorf("now is %v, want %v", got, want)
	}
}

func TestTheFastestReadingOfTheClockCounts(t *testing.T) {
	// Each reading asks our clock before and after; the second takes 10 s, the
	// others 20 s, and the answer is half-way.
	start := time.UnixMicro(0).UTC()
	calls := []int{0, 20, 100, 110, 200, 220}
	i := 0
	s := clockStore(t, func() time.Time {
		now := start.Add(time.Duration(calls[i]) * time.Second)
		i++
		return now
	}, "SELECT 1000000000")
	if err := s.SyncClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := *s.offset.Load(), (1000-105)*time.Second; got != want {
		t.Errorf("offset is %v, want %v", got, want)
	}
}

func TestAClockThatCannotBeReadKeepsTheLastOffset(t *testing.T) {
	s := clockStore(t, time.Now, "SELECT 1")
	if err := s.SyncClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := *s.offset.Load()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.SyncClock(ctx); err == nil {
		t.Error("read without a context")
	}
	if after := *s.offset.Load(); after != before {
		t.Errorf("offset went from %v to %v", before, after)
	}
}

func TestTimesAreStoredToTheMicrosecond(t *testing.T) {
	for _, want := range []time.Time{
		{},
		time.Date(2026, 3, 1, 12, 0, 0, 1000, time.UTC),
		time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	} {
		if got := at(want).time(); got != want {
			t.Errorf("%v came back as %v", want, got)
		}
	}
}
