package accounts_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/personal"
)

// A hash that is not of the chain is charged as a guess, and does not affect the
// session.
func TestRefresh_HashThatIsNotOfTheChainIsAGuess(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f, _ := guarded(t, url)
		f.settings.Throttle.GuessAddress = throttle.Limit{Burst: 3, Every: time.Minute}
		f.service = f.serve(f.store, mustHasher(t, cheap))
		in := f.register(t, "ada").Credentials
		selector, _, _ := token.ParseHash(in.UserHash)
		forged := personal.Credentials{UserID: in.UserID, UserHash: token.FormatHash(selector, token.Secret{1})}
		for i, want := range []personal.Code{personal.CodeUnauthenticated, personal.CodeUnauthenticated, personal.CodeUnauthenticated,
			personal.CodeTooManyAttempts} {
			_, err := f.service.Refresh(at(t, "203.0.113.1"), forged)
			if got := personal.CodeOf(err); got != want {
				t.Errorf("forged hash %d: got code %q, want %q", i+1, got, want)
			}
		}
		if _, err := f.service.Refresh(at(t, "203.0.113.1"), in); err != nil {
			t.Errorf("the session itself: %v", err)
		}
		f.drain(t)
		for _, e := range f.host.Events() {
			if e.Type == personal.EventSessionTheft {
				t.Error("got a session_theft event, want none")
			}
		}
	})
}

// failing is a store in which some writes fail.
type failing struct {
	accounts.Store
	touch, revoke error
}

func (s *failing) TouchSession(ctx context.Context, t accounts.SessionTouch) error {
	if s.touch != nil {
		return s.touch
	}
	return s.Store.TouchSession(ctx, t)
}

func (s *failing) RevokeStolenSession(ctx context.Context, session accounts.Session, jobs ...accounts.NewJob) error {
	if s.revoke != nil {
		return s.revoke
	}
	return s.Store.RevokeStolenSession(ctx, session, jobs...)
}

func TestProfile_SucceedsWhenTheUseCannotBeStored(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	f.service = f.serve(&failing{Store: f.store, touch: fmt.Errorf("disk full: %w", accounts.ErrUnavailable)}, mustHasher(t, cheap))
	in := f.register(t, "ada").Credentials
	for range 2 {
		if _, err := f.service.Profile(t.Context(), in); err != nil {
			t.Errorf("profile: %v", err)
		}
		f.clock.Advance(time.Hour)
	}
}

func TestProfile_FreshFor(t *testing.T) {
	for name, tt := range map[string]struct {
		adjust func(*accounts.Settings)
		use    func(t *testing.T, f *fixture, c personal.Credentials) personal.Credentials // before; may be nil
		want   time.Duration
	}{
		"as long as the setting": {func(s *accounts.Settings) { s.VerifyCache = time.Second }, nil, time.Second},
		"never":                  {func(s *accounts.Settings) { s.VerifyCache = 0 }, nil, 0},
		"grace period":           {func(s *accounts.Settings) { s.SupersededGrace = 20 * time.Second }, nil, 20 * time.Second},
		"superseded hash": {nil, func(t *testing.T, f *fixture, c personal.Credentials) personal.Credentials {
			f.refreshTimes(t, c, 1, time.Second)
			return c
		}, 0},
		"current hash after a refresh": {nil, func(t *testing.T, f *fixture, c personal.Credentials) personal.Credentials {
			return f.refreshTimes(t, c, 1, time.Second)
		}, 30 * time.Second},
		"until the last use is stored again": {nil, func(t *testing.T, f *fixture, c personal.Credentials) personal.Credentials {
			f.profile(t, c)
			f.clock.Advance(50 * time.Second)
			return c
		}, 10 * time.Second},
		"last use that is due and stored": {nil, func(t *testing.T, f *fixture, c personal.Credentials) personal.Credentials {
			f.profile(t, c)
			f.clock.Advance(time.Minute)
			return c
		}, 30 * time.Second},
		"short-lived session": {func(s *accounts.Settings) { s.SessionIdle = 10 * time.Second }, nil, 100 * time.Millisecond},
		"end of the session": {func(s *accounts.Settings) { s.SessionAbsolute = time.Hour }, func(_ *testing.T, f *fixture, c personal.Credentials) personal.Credentials {
			f.clock.Advance(time.Hour - 5*time.Second)
			return c
		}, 5 * time.Second},
		"first use that cannot be stored": {nil, func(t *testing.T, f *fixture, c personal.Credentials) personal.Credentials {
			f.service = f.serve(&failing{Store: f.store, touch: errors.New("disk full")}, mustHasher(t, cheap))
			return c
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var adjust []func(*accounts.Settings)
			if tt.adjust != nil {
				adjust = append(adjust, tt.adjust)
			}
			f := newFixture(t, testdb.SQLite(t), adjust...)
			c := f.register(t, "ada").Credentials
			if tt.use != nil {
				c = tt.use(t, f, c)
			}
			if got := f.profile(t, c).FreshFor; got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func (f *fixture) profile(t *testing.T, c personal.Credentials) personal.Profile {
	t.Helper()
	p, err := f.service.Profile(t.Context(), c)
	if err != nil {
		t.Fatalf("profile: %v", err)
	}
	return p
}

func TestRefresh_TheftThatCannotBeStoredIsUnavailable(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	s := &failing{Store: f.store, revoke: errors.New("attempt to write a readonly database")}
	f.service = f.serve(s, mustHasher(t, cheap))
	in := f.register(t, "ada").Credentials
	f.refreshTimes(t, in, 2, time.Minute)
	_, err := f.service.Refresh(t.Context(), in)
	wantCode(t, err, personal.CodeUnavailable)
	s.revoke = nil
	_, err = f.service.Refresh(t.Context(), in)
	wantCode(t, err, personal.CodeUnauthenticated)
}

func (f *fixture) refreshTimes(t *testing.T, c personal.Credentials, times int, pause time.Duration) personal.Credentials {
	t.Helper()
	for i := range times {
		f.clock.Advance(pause)
		fresh, err := f.service.Refresh(t.Context(), c)
		if err != nil {
			t.Fatalf("refresh %d: %v", i+1, err)
		}
		c = fresh
	}
	return c
}

func TestRefresh_SessionEndsAfterMaxRotations(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		in := f.register(t, "ada").Credentials
		selector, _, _ := token.ParseHash(in.UserHash)
		session, _, err := f.store.FindSession(t.Context(), selector, accounts.AccountState)
		if err != nil {
			t.Fatal(err)
		}
		session.Rotations = accounts.MaxRotations - 1
		session.Marks = []accounts.RotationMark{{Time: session.Rotated, Count: session.Rotations}}
		if err := f.store.RotateSession(t.Context(), session, func(time.Time) accounts.Session { return session }); err != nil {
			t.Fatal(err)
		}
		last := f.refreshTimes(t, in, 1, time.Second)
		_, err = f.service.Profile(t.Context(), last)
		wantCode(t, err, personal.CodeUnauthenticated)
		f.drain(t)
		for _, e := range f.host.Events() {
			if e.Type == personal.EventSessionTheft {
				t.Error("got a session_theft event, want none")
			}
		}
	})
}

// repeating is a store that rotates twice, as a batch does if it cannot tell whether
// it was committed.
type repeating struct{ accounts.Store }

func (s repeating) RotateSession(ctx context.Context, session accounts.Session, rotated func(time.Time) accounts.Session) error {
	if err := s.Store.RotateSession(ctx, session, rotated); err != nil {
		return err
	}
	return s.Store.RotateSession(ctx, session, rotated)
}

func TestRefresh_RepeatedRotationReturnsTheHashOfTheFirst(t *testing.T) {
	testdb.Database(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		first := f.register(t, "ada").Credentials
		f.service = f.serve(repeating{f.store}, mustHasher(t, cheap))
		second := f.refreshTimes(t, first, 1, time.Minute)
		selector, secret, _ := token.ParseHash(second.UserHash)
		session, _, err := f.store.FindSession(t.Context(), selector, accounts.AccountState)
		if err != nil || session.Current != secret.Digest() || session.Rotations != 1 || second == first {
			t.Errorf("got %d rotations, current hash returned: %t, error %v; want 1 and the current hash",
				session.Rotations, session.Current == secret.Digest(), err)
		}
	})
}

func TestProfile_PollsAreNoUseOfTheSession(t *testing.T) {
	f := newFixture(t, testdb.SQLite(t))
	for login, tt := range map[string]struct {
		poll bool
		want personal.Code
	}{"ada": {false, ""}, "bob": {true, personal.CodeUnauthenticated}} {
		in := f.register(t, login).Credentials
		ctx, err := personal.WithCall(t.Context(), personal.Call{Poll: tt.poll}), error(nil)
		for range 6 { // the first one counts: it uses a new hash
			f.clock.Advance(f.settings.SessionIdle / 4)
			_, err = f.service.Profile(ctx, in)
		}
		wantCode(t, err, tt.want)
	}
}

func TestRefresh_RacesAreChargedOnce(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		f, _ := guarded(t, url)
		in := f.register(t, "ada").Credentials
		errs := make([]error, 60)
		var running sync.WaitGroup
		for i := range errs {
			running.Go(func() { _, errs[i] = f.service.Refresh(context.Background(), in) })
		}
		running.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Errorf("60 refreshes at once, which is the limit: %v", err)
		}
	})
}
