package store_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/storetest"
	"github.com/cms-personal/personal/internal/testkit"
)

// rehearsal opens a store for a rehearsal on another one.
func rehearsal(t testing.TB, s *store.Store, o store.RehearsalOptions) *store.Store {
	t.Helper()
	if o.Clock == nil {
		o.Clock = s.Now
	}
	o.Log = slog.New(slog.DiscardHandler)
	r, err := s.Rehearsal(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestStore_Rehearsal runs the contract suite on the transaction of a rehearsal.
func TestStore_Rehearsal(t *testing.T) {
	run := func(t *testing.T, newDatabase func(testing.TB) string, inMemory bool) {
		storetest.Run(t, func(t *testing.T, clock func() time.Time) storetest.Store {
			return rehearsal(t, migrated(t, newDatabase(t), store.Options{Clock: clock}), store.RehearsalOptions{
				Options: store.Options{Clock: clock}, Copy: inMemory,
			})
		})
	}
	t.Run("PostgreSQL", func(t *testing.T) { run(t, testkit.Postgres, false) })
	t.Run("a copy of SQLite in memory", func(t *testing.T) { run(t, testkit.SQLite, true) })
}
