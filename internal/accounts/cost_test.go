package accounts_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/race"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// The bounds of allocations are an eighth above what was measured. On PostgreSQL, each
// counted statement is a round trip.
func TestCost_StatementsAndAllocations(t *testing.T) {
	costs := []struct {
		operation                  string
		call                       func(*testing.T, *fixture, *personal.Credentials) error
		sqlite, postgres           int     // statements, with those of transactions
		allocSQLite, allocPostgres float64 // at most
	}{
		{"refresh", func(t *testing.T, f *fixture, c *personal.Credentials) error {
			fresh, err := f.service.Refresh(at(t, "203.0.113.1"), *c)
			*c = fresh
			return err
		}, 4, 2, 175, 130},
		{"verification", func(t *testing.T, f *fixture, c *personal.Credentials) error {
			_, err := f.service.Profile(at(t, "203.0.113.1"), *c)
			return err
		}, 1, 1, 125, 90},
		{"registration", func(t *testing.T, f *fixture, c *personal.Credentials) error {
			login := fmt.Sprint("user", f.clock.Now().Unix())
			_, err := f.service.Register(at(t, "203.0.113.1"), personal.RegisterRequest{
				Login: login, Password: goodPassword, ConfirmPassword: goodPassword, Email: login + "@example.com",
			})
			return err
		}, 14, 14, 560, 430},
		{"sign-in", func(t *testing.T, f *fixture, c *personal.Credentials) error {
			_, err := f.service.Authorize(at(t, "203.0.113.1"), personal.AuthorizeRequest{Login: "ada", Password: goodPassword})
			return err
		}, 17, 17, 1000, 750},
	}
	for _, c := range costs {
		t.Run(c.operation, func(t *testing.T) {
			testdb.Databases(t, func(t *testing.T, url string) {
				statements, allocs := c.postgres, c.allocPostgres
				if strings.HasPrefix(url, "sqlite") {
					statements, allocs = c.sqlite, c.allocSQLite
				}
				f, h := guarded(t, url)
				counter := &statementCounter{}
				optional(&f.settings)
				f.settings.Throttle.Register.Burst = 1000
				f.service = f.serve(counter.open(t, f, url), h)
				credentials := f.register(t, "ada").Credentials
				call := func() {
					f.clock.Advance(10 * time.Second) // no limit is reached
					if err := c.call(t, f, &credentials); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 { // prepares statements, opens connections, stores the first use
					call()
				}
				counter.take()
				call()
				if got := counter.take(); len(got) != statements {
					t.Errorf("got %d statements, want %d:\n%s", len(got), statements, strings.Join(got, "\n"))
				}
				if race.Enabled {
					return // it allocates
				}
				if got := testing.AllocsPerRun(50, call); got > allocs {
					t.Errorf("got %v allocations, want at most %v", got, allocs)
				}
			})
		})
	}
}

// statementCounter records the statements of the connections of a pool.
type statementCounter struct {
	mu         sync.Mutex
	statements []string
}

func (c *statementCounter) add(_ context.Context, statement string) error {
	c.mu.Lock()
	c.statements = append(c.statements, statement)
	c.mu.Unlock()
	return nil
}

// take returns the statements since the last call.
func (c *statementCounter) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.statements
	c.statements = nil
	return got
}

// open opens another store on the fixture's database, and counts its statements.
func (c *statementCounter) open(t *testing.T, f *fixture, url string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{Clock: f.clock.Now, Log: slog.New(slog.DiscardHandler), Wraps: []dbconn.Wrap{dbconn.Watch(c.add)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
