package store_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/storetest"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// TestStore_SQLite runs on the schema of a made-up 0.3.0; all other tests run on that of this version.
func TestStore_SQLite(t *testing.T) {
	template := testdb.SQLite(t)
	t.Run("later schema", func(t *testing.T) { execute(t, template, laterSchema(t, template)) }) // and closes the file
	file, err := os.ReadFile(strings.TrimPrefix(template, "sqlite://"))
	if err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, func(t *testing.T, clock func() time.Time) storetest.Store {
		url := testkit.SQLite(t)
		if err := os.WriteFile(strings.TrimPrefix(url, "sqlite://"), file, 0o600); err != nil {
			t.Fatal(err)
		}
		s := migrated(t, url, store.Options{Clock: clock})
		wantVersion(t, s, store.SchemaTarget+1, 15)
		return s
	})
}

// laterSchema returns the migration of a made-up 0.3.0: each table has another column, and users have rows in
// another table.
func laterSchema(t testing.TB, url string) string {
	t.Helper()
	statements := []string{
		fmt.Sprintf("INSERT INTO personal_schema (version, min_compatible, applied_at) VALUES (%d, 15, 0)", store.SchemaTarget+1),
		"CREATE TABLE personal_renamings (account_id BIGINT PRIMARY KEY REFERENCES personal_accounts ON DELETE CASCADE)",
	}
	list := "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'personal_%'"
	if strings.HasPrefix(url, "postgres") {
		list = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_name LIKE 'personal_%'"
	}
	rows, err := pools(t, url).Read.QueryContext(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			t.Fatal(err)
		}
		statements = append(statements, "ALTER TABLE "+table+" ADD COLUMN later_note TEXT", "ALTER TABLE "+table+" ADD COLUMN later_count INTEGER NOT NULL DEFAULT 7")
	}
	if rows.Err() != nil || len(statements) < 40 {
		t.Fatalf("got %d statements, %v, want two for each table", len(statements), rows.Err())
	}
	return strings.Join(statements, ";\n")
}

func TestStore_PostgreSQL(t *testing.T) {
	stores := &rewoundStores{t: t, open: func(t *testing.T, clock func() time.Time) (*store.Store, func() error) {
		url, rewind := testdb.RewindablePostgres(t)
		return migrated(t, url, store.Options{Clock: clock}), rewind
	}}
	storetest.Run(t, stores.take)
}

// rewoundStores are stores that cases use one after the other. A case finds the rows of a new
// database, at a fraction of the cost: connections are most of it.
type rewoundStores struct {
	t    *testing.T // of all cases
	open func(t *testing.T, clock func() time.Time) (_ *store.Store, rewind func() error)
	mu   sync.Mutex
	free []*rewoundStore
}

type rewoundStore struct {
	*store.Store
	rewind func() error
	clock  atomic.Pointer[func() time.Time]
}

// take returns a store that no other case uses until t ends. That of a case that has failed is
// not used again.
func (all *rewoundStores) take(t *testing.T, clock func() time.Time) storetest.Store {
	t.Helper()
	s := all.rewound(t)
	if s == nil {
		s = &rewoundStore{}
		s.clock.Store(&clock)
		s.Store, s.rewind = all.open(all.t, func() time.Time { return (*s.clock.Load())() })
	}
	s.clock.Store(&clock)
	t.Cleanup(func() {
		if !t.Failed() {
			all.mu.Lock()
			defer all.mu.Unlock()
			all.free = append(all.free, s)
		}
	})
	return s.Store
}

// rewound returns a free store that was rewound, or nil.
func (all *rewoundStores) rewound(t *testing.T) *rewoundStore {
	t.Helper()
	s := all.pop()
	if s == nil {
		return nil
	}
	if err := s.rewind(); err != nil {
		t.Fatal(err)
	}
	return s
}

// pop takes the last of the free stores, or nil.
func (all *rewoundStores) pop() *rewoundStore {
	all.mu.Lock()
	defer all.mu.Unlock()
	last := len(all.free) - 1
	if last < 0 {
		return nil
	}
	s := all.free[last]
	all.free = all.free[:last]
	return s
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
