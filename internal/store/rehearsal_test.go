package store_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/store/storetest"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// rehearsal opens a store for a rehearsal on another one.
func rehearsal(ctx context.Context, t testing.TB, s *store.Store, o store.RehearsalOptions) *store.Store {
	t.Helper()
	if o.Clock == nil {
		o.Clock = s.Now
	}
	o.Log = slog.New(slog.DiscardHandler)
	r, err := s.Rehearsal(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestStore_Rehearsal runs the contract suite on the transaction of a rehearsal, cases one after
// the other on the same one. They set no deadlines, which a rewound transaction would not send
// again: TestRehearsal_LimitsEachCall. PostgreSQL ignores Copy.
func TestStore_Rehearsal(t *testing.T) {
	for name, database := range map[string]func(testing.TB) string{
		"PostgreSQL": testdb.Postgres, "a copy of SQLite in memory": testdb.SQLite,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			t.Cleanup(cancel)
			stores := &rewoundStores{t: t, open: func(t *testing.T, clock func() time.Time) (*store.Store, func() error) {
				s := migrated(t, database(t), store.Options{})
				r := rehearsal(ctx, t, s, store.RehearsalOptions{Options: store.Options{Clock: clock}, Copy: true})
				if err := r.InTx(ctx, "RELEASE SAVEPOINT rehearsal; SAVEPOINT empty; SAVEPOINT rehearsal"); err != nil {
					t.Fatal(err)
				}
				return r, func() error {
					err := r.InTx(ctx, "ROLLBACK TO SAVEPOINT empty; SAVEPOINT rehearsal")
					return errors.Join(err, r.RehearsalOver())
				}
			}}
			storetest.RunAlone(t, stores.take)
		})
	}
}

func TestRehearsal_ChangesNothing(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		r := rehearsal(t.Context(), t, s, store.RehearsalOptions{})
		id, err := r.CreateWithoutSession(t.Context(), account("ada"), withoutJobs)
		if err != nil {
			t.Fatal(err)
		}
		// A statement that fails does not end the transaction.
		var taken *accounts.TakenError
		if _, err := r.CreateWithoutSession(t.Context(), account("ada"), withoutJobs); !errors.As(err, &taken) {
			t.Errorf("a login that is taken: got %v, want a TakenError", err)
		}
		if err := r.FinishJobs(t.Context(), outbox.Job{ID: 1}); err != nil {
			t.Error(err)
		}
		if tables, err := r.TablesWith(t.Context(), id); err != nil || !slices.Equal(tables, []string{"personal_accounts"}) {
			t.Errorf("got rows in %v, %v, want only those of the account", tables, err)
		}
		if _, err := s.Account(t.Context(), id); !errors.Is(err, accounts.ErrNotFound) {
			t.Errorf("another connection: got %v, want that it sees no account", err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Account(t.Context(), id); err == nil || r.RehearsalOver() == nil {
			t.Errorf("after the end: got %v, %v, want errors", err, r.RehearsalOver())
		}
		if _, err := s.Account(t.Context(), id); !errors.Is(err, accounts.ErrNotFound) {
			t.Errorf("after the end: got %v, want that nothing is left", err)
		}
	})
}

func account(login string) accounts.Account {
	return accounts.Account{Login: login, LoginKey: login, CredentialVersion: 1, PasswordHash: "!"}
}

func withoutJobs(int64) []accounts.NewJob { return nil }

// A process that is frozen in the middle of a rehearsal holds no lock for long.
func TestRehearsal_IsEndedByTheServer(t *testing.T) {
	url := testdb.Postgres(t)
	s := migrated(t, url, store.Options{})
	r := rehearsal(t.Context(), t, s, store.RehearsalOptions{})
	if _, err := r.CreateWithoutSession(t.Context(), account("ada"), withoutJobs); err != nil {
		t.Fatal(err)
	}
	pools, err := dbconn.Open(url, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	for open := 1; open > 0; {
		err := pools.Read.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_sleep(0.05), pg_stat_activity
			WHERE datname = current_database() AND state = 'idle in transaction' AND pid <> pg_backend_pid()`).Scan(&open)
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Account(t.Context(), 1); !errors.Is(err, accounts.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if err := r.RehearsalOver(); err == nil {
		t.Error("the rehearsal does not know that its transaction has ended")
	}
}

// A short deadline of one call neither ends the transaction nor holds for the next one.
func TestRehearsal_LimitsEachCall(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		r := rehearsal(t.Context(), t, migrated(t, url, store.Options{}), store.RehearsalOptions{Copy: strings.HasPrefix(url, "sqlite")})
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		<-short.Done()
		if _, err := r.LastJob(short); err == nil {
			t.Error("a call whose time is over succeeded")
		}
		for range 3 {
			if _, err := r.LastJob(t.Context()); err != nil {
				t.Errorf("the next call: got %v, want success", err)
			}
		}
	})
}
