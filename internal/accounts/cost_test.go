package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
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

// A code costs its charge, which is refunded with the guess, and the statement that uses
// it up.
func TestCost_StatementsOfASignInWithACode(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f, h := guarded(t, url)
		counter := &statementCounter{}
		f.offer(t, counter.open(t, f, url), h)
		u := f.enrol(t, "ada")
		for name, test := range map[string]struct {
			code func() string
			want int
		}{
			"code":          {u.next, 22},
			"recovery code": {u.recoveryCode, 23}, // it also forgets refused codes
		} {
			var got []string
			for range 3 { // opens connections, and makes the address known
				code := test.code()
				counter.take()
				u.wantTry(t, at(t, home), code, "")
				got = counter.take()
			}
			if len(got) != test.want {
				t.Errorf("%s: got %d statements, want %d:\n%s", name, len(got), test.want, strings.Join(got, "\n"))
			}
		}
	})
}

// The first write is held until every call waits for a write.
func TestCost_ConcurrentRefreshesShareWrites(t *testing.T) {
	const callers = 32
	testdb.Databases(t, func(t *testing.T, url string) {
		f, counter := newFixture(t, url), &statementCounter{}
		waiting := make(chan struct{}, callers)
		f.service = f.serve(announcing{counter.open(t, f, url), waiting}, mustHasher(t, cheap))
		pairs := make([]personal.Credentials, callers)
		for i := range pairs {
			pairs[i] = f.register(t, fmt.Sprint("user", i)).Credentials
		}
		counter.take()
		var writes atomic.Int32
		counter.before = func(ctx context.Context, statement string) {
			if isWrite := statement == "BEGIN" || strings.Contains(statement, "SKIP LOCKED"); !isWrite || writes.Add(1) > 1 {
				return
			}
			for range callers {
				select {
				case <-waiting:
				case <-ctx.Done():
					t.Error("the time of the first write has ended before all calls wait for a write")
					return
				}
			}
		}
		errs := make([]error, callers)
		var running sync.WaitGroup
		for i := range pairs {
			running.Go(func() { _, errs[i] = f.service.Refresh(t.Context(), pairs[i]) })
		}
		running.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if got := writes.Load(); got < 1 || got > 3 {
			t.Errorf("got %d writes for %d rotations, want 3 at most:\n%s", got, callers, strings.Join(counter.take(), "\n"))
		}
	})
}

// announcing is a store that sends to waiting when a rotation begins to wait for its
// end.
type announcing struct {
	accounts.Store
	waiting chan<- struct{}
}

func (s announcing) RotateSession(ctx context.Context, session accounts.Session, rotated func(time.Time) accounts.Session) error {
	ctx = awaited{ctx, sync.OnceFunc(func() { s.waiting <- struct{}{} })}
	return s.Store.RotateSession(ctx, session, rotated)
}

// awaited is a context that calls begins when someone waits for its end.
type awaited struct {
	context.Context
	begins func()
}

func (c awaited) Done() <-chan struct{} {
	c.begins()
	return c.Context.Done()
}

// statementCounter records the statements of the connections of a pool.
type statementCounter struct {
	before func(ctx context.Context, statement string) // if set, called before each statement
	lose   atomic.Bool                                 // the next one but a COMMIT does not reach the database

	mu         sync.Mutex
	statements []string
}

func (c *statementCounter) add(ctx context.Context, statement string) error {
	c.mu.Lock()
	c.statements = append(c.statements, statement)
	c.mu.Unlock()
	if c.before != nil {
		c.before(ctx, statement)
	}
	if statement != "COMMIT" && c.lose.CompareAndSwap(true, false) {
		return io.ErrUnexpectedEOF
	}
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
