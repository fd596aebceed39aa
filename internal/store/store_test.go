package store_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/storetest"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

func TestStore_SQLite(t *testing.T)     { runSuite(t, testdb.SQLite) }
func TestStore_PostgreSQL(t *testing.T) { runSuite(t, testdb.Postgres) }

func runSuite(t *testing.T, newDatabase func(testing.TB) string) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) storetest.Store {
		return migrated(t, newDatabase(t), store.Options{Clock: clock})
	})
}

// open opens a store that is closed when the test ends.
func open(t testing.TB, url string, o store.Options) *store.Store {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s, err := store.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// migrated opens a store and brings its schema up to date.
func migrated(t testing.TB, url string, o store.Options) *store.Store {
	t.Helper()
	s := open(t, url, o)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}
