package store

import (
	"context"
	"testing"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"github.com/cms-personal/personal/internal/store/dbconn"
)

// clockStore is a store with the given clock of its machine, and a query for the
// database's time in microseconds.
func clockStore(t *testing.T, ours func() time.Time, query string) *Store {
	t.Helper()
	pools, err := dbconn.Open("sqlite://"+t.TempDir()+"/clock.db", dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pools.Close() })
	return &Store{dialect: dialect{readClock: query}, read: bun.NewDB(pools.Read, sqlitedialect.New()), clock: ours}
}

func TestNow_IsTheDatabasesTime(t *testing.T) {
	ours := time.Date(2020, 1, 1, 0, 0, 0, 999, time.FixedZone("", 3600))
	s := clockStore(t, func() time.Time { return ours }, "SELECT 1772366400000007")
	if err := s.SyncClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ours = ours.Add(time.Minute)
	want := time.Date(2026, 3, 1, 12, 1, 0, 7000, time.UTC)
	if got := s.Now(); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSyncClock_UsesTheFastestReading(t *testing.T) {
	// Each sample reads our clock before and after; the second takes 10 s, the others
	// 20 s, and the database's time is taken as of half-way.
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
		t.Errorf("got offset %v, want %v", got, want)
	}
}

func TestSyncClock_FailureKeepsTheLastOffset(t *testing.T) {
	s := clockStore(t, time.Now, "SELECT 1")
	if err := s.SyncClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := *s.offset.Load()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.SyncClock(ctx); err == nil {
		t.Error("got no error with a canceled context, want one")
	}
	if after := *s.offset.Load(); after != before {
		t.Errorf("got offset %v, want %v", after, before)
	}
}

func TestMicros_RoundTrip(t *testing.T) {
	for _, want := range []time.Time{
		{},
		time.Date(2026, 3, 1, 12, 0, 0, 1000, time.UTC),
		time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	} {
		if got := at(want).time(); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
