package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// Users must not be told that an operation failed which has happened: they would repeat it
// with a password, a token or a code that is void, and would never see their recovery codes.
func TestLostCommit_IsReadBack(t *testing.T) {
	proxy, through := testkit.NewFaultProxy(t, testdb.Postgres(t))
	f := newFixture(t, through)
	f.offer(t, f.store, mustHasher(t, cheap))
	const second = "another good password"
	n := 0
	for name, prepare := range map[string]func(t *testing.T, login string) (call func() error, works func() error){
		"register": func(t *testing.T, login string) (call, works func() error) {
			var in personal.SignedIn
			call = func() (err error) {
				in, err = f.service.Register(t.Context(), personal.RegisterRequest{
					Login: login, Password: goodPassword, ConfirmPassword: goodPassword, Email: login + "@example.com",
				})
				return err
			}
			return call, func() error {
				_, err := f.service.Profile(t.Context(), in.Credentials)
				return err
			}
		},
		"change a password": func(t *testing.T, login string) (call, works func() error) {
			in := f.register(t, login).Credentials
			call = func() error {
				changed, err := f.service.ChangePassword(t.Context(), personal.ChangePasswordRequest{
					Credentials: in, OldPassword: goodPassword, Password: second, ConfirmPassword: second,
				})
				if err == nil {
					in = changed
				}
				return err
			}
			return call, func() error {
				if _, err := f.service.Profile(t.Context(), in); err != nil {
					return err
				}
				_, err := f.signIn(login, second)
				return err
			}
		},
		"confirm a recovery": func(t *testing.T, login string) (call, works func() error) {
			f.register(t, login)
			f.recoverNow(t, personal.RecoverRequest{Login: login})
			tokens := f.tokens()
			call = func() error {
				_, err := f.service.RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
					Token: tokens[len(tokens)-1], Password: second, ConfirmPassword: second,
				})
				return err
			}
			return call, func() error {
				_, err := f.signIn(login, second)
				return err
			}
		},
		"confirm a second factor": func(t *testing.T, login string) (call, works func() error) {
			u := &factor{f: f, in: f.register(t, login).Credentials, login: login}
			secret, err := f.service.BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: u.in, Password: goodPassword})
			if err != nil {
				t.Fatal(err)
			}
			u.secret = secret.Secret
			var confirmed personal.ConfirmedTwoFactor
			call = func() (err error) {
				confirmed, err = f.service.ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{Credentials: u.in, Code: u.code()})
				return err
			}
			return call, func() error {
				_, err := f.service.Authorize(t.Context(), personal.AuthorizeRequest{Login: login, Password: goodPassword,
					Code: confirmed.RecoveryCodes[0]})
				return err
			}
		},
	} {
		for fault, want := range map[string]struct {
			faults []testkit.Fault
			code   personal.Code
			again  bool // a repetition succeeds
		}{
			"the response is lost":                  {[]testkit.Fault{testkit.LoseCommitResponse}, "", false},
			"the request is lost":                   {[]testkit.Fault{testkit.LoseCommit}, personal.CodeUnavailable, true},
			"the response and the outcome are lost": {[]testkit.Fault{testkit.LoseCommitResponse, testkit.LoseRequest}, personal.CodeUnavailable, false},
		} {
			n++
			login := fmt.Sprint("user", n)
			t.Run(name+": "+fault, func(t *testing.T) {
				call, works := prepare(t, login)
				proxy.Next(want.faults...)
				if err := call(); personal.CodeOf(err) != want.code {
					t.Fatalf("got %v, want code %q", err, want.code)
				}
				if want.again {
					if err := call(); err != nil {
						t.Fatalf("repeated: %v", err)
					}
				}
				if want.code != "" && !want.again {
					return
				}
				if err := works(); err != nil {
					t.Errorf("what was reported as done does not work: %v", err)
				}
			})
		}
	}
}

// Clients work through a connection that loses requests and responses, and that dies
// silently. Each has its own account and repeats what failed, with the hash it has.
func TestFaults_LoseNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	const clients, rounds, seed, rate = 8, 60, 0, 0.04
	url := testdb.Postgres(t)
	proxy, through := testkit.NewFaultProxy(t, url)
	service, closed := faulty(t, through)
	watching := watch(t, url)
	all := make([]*faultClient, clients)
	for i := range all {
		all[i] = &faultClient{service: service, login: fmt.Sprint("user", i), random: rand.New(rand.NewPCG(seed, uint64(i)))}
	}
	proxy.Random(seed, rate)
	var running sync.WaitGroup
	for i, c := range all {
		running.Go(func() {
			for round := range rounds {
				if err := c.step(t); err != nil {
					t.Errorf("%s, round %d: %v", c.login, round, err)
					return
				}
				switch {
				case i == 1 && round == rounds/2: // in the middle of something
					proxy.Next(testkit.FreezeConnection)
				case i == 0 && round == rounds/4:
					proxy.Freeze()
				case i == 0 && round == rounds/8:
					proxy.Cut()
				}
			}
		})
	}
	running.Wait()
	proxy.Random(seed, 0)
	lost, unknown := 0, 0
	for f := testkit.LoseRequest; f <= testkit.LoseCommitResponse; f++ {
		lost += proxy.Injected(f)
	}
	for _, c := range all {
		unknown += c.failed
		if err := c.check(t.Context()); err != nil {
			t.Errorf("%s: %v", c.login, err)
		}
	}
	if lost < 50 || unknown < 20 {
		t.Errorf("got %d lost messages and %d failed calls, too few to test anything", lost, unknown)
	}
	closed()
	watching(time.Minute) // a call may take 1 s, its statements 2 s more; on a busy machine they begin late
}

// faulty opens a service whose calls are not limited in number.
func faulty(t *testing.T, url string) (service *accounts.Service, closed func()) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), url, store.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	closed = sync.OnceFunc(func() { db.Close() })
	t.Cleanup(closed)
	if err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	hasher, err := password.New(password.Params{MemoryKiB: 8, Time: 1, Threads: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return accounts.New(testSettings(), db, hasher, &personaltest.Host{}, log, func() {}), closed
}

// watch watches the server until the returned function is called and all transactions have
// ended. It reports those that were open for longer than allowed, and deadlocks.
func watch(t *testing.T, url string) (stop func(allowed time.Duration)) {
	t.Helper()
	pools, err := dbconn.Open(url, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pools.Close() })
	const (
		others    = " FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
		oldest    = "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8" + others
		deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
	)
	count := func(query string) (n float64) {
		if err := pools.Read.QueryRow(query).Scan(&n); err != nil {
			t.Errorf("watching the server: %v", err)
		}
		return n
	}
	before, longest := count(deadlocks), 0.0
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			longest = max(longest, count(oldest))
			select {
			case <-ended:
				return
			case <-ticker.C:
			}
		}
	})
	return func(allowed time.Duration) {
		t.Helper()
		close(ended)
		watching.Wait()
		for open := 1.0; open > 0 && longest <= allowed.Seconds(); longest = max(longest, open) {
			time.Sleep(20 * time.Millisecond) // nothing signals the end of a transaction
			open = count(oldest)
		}
		if longest > allowed.Seconds() {
			t.Errorf("got a transaction that was open for %.1f s, want %v at most", longest, allowed)
		}
		if after := count(deadlocks); after != before {
			t.Errorf("got %v deadlocks, want none", after-before)
		}
	}
}

// faultClient is the only user of an account, and knows what was acknowledged.
type faultClient struct {
	service   *accounts.Service
	login     string
	random    *rand.Rand
	exists    bool                 // the account was acknowledged
	in        personal.Credentials // zero: signed out
	passwords []string             // that may be valid: more than one if the outcome of a change is unknown
	changes   int
	failed    int
}

// step makes one call. It returns what an honest client must never see.
func (c *faultClient) step(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // real time: calls may fail
	defer cancel()
	var err error
	switch {
	case !c.exists:
		err = c.register(ctx)
	case c.in == personal.Credentials{}:
		err = c.signIn(ctx)
	case c.random.IntN(4) == 0:
		err = c.change(ctx)
	default:
		err = c.refresh(ctx)
	}
	if personal.CodeOf(err) == personal.CodeUnavailable {
		c.failed++
		return nil
	}
	return err
}

func (c *faultClient) register(ctx context.Context) error {
	in, err := c.service.Register(ctx, personal.RegisterRequest{
		Login: c.login, Password: goodPassword, ConfirmPassword: goodPassword, Email: c.login + "@example.com",
	})
	exists := personal.CodeOf(err) == personal.CodeAlreadyExists && c.failed > 0 // by a call whose outcome was unknown
	if err == nil || exists {
		c.exists, c.in, c.passwords = true, in.Credentials, []string{goodPassword}
		return nil
	}
	return err
}

func (c *faultClient) signIn(ctx context.Context) error {
	for _, password := range c.passwords {
		in, err := c.service.Authorize(ctx, personal.AuthorizeRequest{Login: c.login, Password: password})
		if err == nil {
			c.in, c.passwords = in.Credentials, []string{password}
		}
		if personal.CodeOf(err) != personal.CodeInvalidCredentials {
			return err
		}
	}
	return fmt.Errorf("none of %q is accepted", c.passwords)
}

func (c *faultClient) change(ctx context.Context) error {
	c.changes++
	next := fmt.Sprintf("a good password, number %d", c.changes)
	in, err := c.service.ChangePassword(ctx, personal.ChangePasswordRequest{
		Credentials: c.in, OldPassword: c.passwords[0], Password: next, ConfirmPassword: next,
	})
	if err == nil {
		c.in, c.passwords = in, []string{next}
		return nil
	}
	if personal.CodeOf(err) == personal.CodeUnavailable { // its session may have new secrets
		c.in, c.passwords = personal.Credentials{}, append(c.passwords, next)
	}
	return err
}

func (c *faultClient) refresh(ctx context.Context) error {
	fresh, err := c.service.Refresh(ctx, c.in)
	if err == nil {
		c.in = fresh
	}
	return err
}

// check returns an error unless all that was acknowledged is there.
func (c *faultClient) check(ctx context.Context) error {
	if !c.exists {
		return errors.New("no registration succeeded")
	}
	if c.in != (personal.Credentials{}) {
		if err := c.refresh(ctx); err != nil {
			return err
		}
	}
	return c.signIn(ctx)
}

// The contract holds for a client that repeats what is unavailable, while the first statement
// of each call is lost on its way to the database.
func TestService_ContractWithLostRequests(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, url string) {
		personaltest.Run(t, func(t *testing.T, host personal.Host) personal.Service {
			type key struct{}
			lose := func(ctx context.Context, statement string) error {
				if lost, ok := ctx.Value(key{}).(*atomic.Bool); ok && statement != "COMMIT" && lost.CompareAndSwap(false, true) {
					return io.ErrUnexpectedEOF
				}
				return nil
			}
			service := reflect.ValueOf(newDomainOn(t, url, store.Options{Wraps: []dbconn.Wrap{dbconn.Watch(lose)}}, host))
			return &personaltest.HandledBy(func(ctx context.Context, operation personal.OperationName, request any) (result any, err error) {
				in := []reflect.Value{reflect.ValueOf(context.WithValue(ctx, key{}, new(atomic.Bool)))}
				if request != nil {
					in = append(in, reflect.ValueOf(request))
				}
				for range 2 {
					out := service.MethodByName(string(operation)).Call(in)
					if err, _ = out[len(out)-1].Interface().(error); len(out) > 1 {
						result = out[0].Interface()
					}
					if personal.CodeOf(err) != personal.CodeUnavailable {
						break
					}
				}
				return result, err
			}).Service
		})
	})
}
