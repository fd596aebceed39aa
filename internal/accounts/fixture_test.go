package accounts_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/passkey"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

const goodPassword = personaltest.Password

// clock is the database's clock, moved by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fixture is the domain on a real database, with a clock that moves only by Advance
// and passwords that are cheap to hash.
type fixture struct {
	service  *accounts.Service
	store    *store.Store
	worker   *outbox.Worker
	host     *personaltest.Host
	clock    *clock
	settings accounts.Settings
	url      string
}

func testSettings() accounts.Settings {
	return accounts.Settings{
		SessionIdle: 24 * time.Hour, SessionAbsolute: 720 * time.Hour, SupersededGrace: 30 * time.Second, VerifyCache: time.Minute, ProofLifetime: 5 * time.Minute,
		MinPassword: 8, RecoveryLifetime: 30 * time.Minute, InvitationLifetime: 7 * 24 * time.Hour, LoginWithEmail: true, Notices: true,
		DeletionGrace: 168 * time.Hour, UnverifiedLifetime: 72 * time.Hour,
		RecoveryURL: "https://cms.example/recover#token={token}",
	}
}

// passkeys switches passkeys on.
func passkeys(s *accounts.Settings) {
	s.Passkeys = passkey.Site{ID: personaltest.PasskeyDomain, Origins: []string{personaltest.PasskeyOrigin}}
}

func newFixture(t testing.TB, url string, adjust ...func(*accounts.Settings)) *fixture {
	t.Helper()
	f := &fixture{
		host:     &personaltest.Host{},
		clock:    &clock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)},
		settings: testSettings(),
		url:      url,
	}
	for _, change := range adjust {
		change(&f.settings)
	}
	log := slog.New(slog.DiscardHandler)
	var err error
	f.store, err = store.Open(t.Context(), url, store.Options{Clock: f.clock.Now, Log: log})
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	t.Cleanup(func() { f.store.Close() })
	if err := f.store.Migrate(t.Context()); err != nil {
		t.Fatalf("migrating: %v", err)
	}
	hasher, err := password.New(password.Params{MemoryKiB: 8, Time: 1, Threads: 1}, 0)
	if err != nil {
		t.Fatalf("making a hasher: %v", err)
	}
	f.worker = &outbox.Worker{Store: f.store, Log: log, Poll: 10 * time.Millisecond, RetriedWhileStored: accounts.RetriedWhileStored}
	f.service = f.serve(f.store, hasher)
	f.worker.Handlers = f.service.Jobs()
	return f
}

// serve makes a service from the given store and hasher and the fixture's parts.
func (f *fixture) serve(s accounts.Store, h accounts.Hasher) *accounts.Service {
	return accounts.New(f.settings, s, h, f.host, slog.New(slog.DiscardHandler), f.worker.Wake)
}

func (f *fixture) kinds() []outbox.Kind { return slices.Collect(maps.Keys(f.worker.Handlers)) }

// work runs the outbox until the test ends.
func (f *fixture) work(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f.worker.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func (f *fixture) register(t failer, login string) personal.SignedIn {
	t.Helper()
	in, err := f.service.Register(context.Background(), personal.RegisterRequest{
		Login: login, Password: goodPassword, ConfirmPassword: goodPassword, Email: login + "@example.com",
	})
	if err != nil {
		t.Fatalf("registering: %v", err)
	}
	return in
}
