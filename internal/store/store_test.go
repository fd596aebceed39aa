package store_test

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/storetest"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

func TestStore_SQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T, clock func() time.Time) storetest.Store {
		return migrated(t, testdb.SQLite(t), store.Options{Clock: clock})
	})
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
