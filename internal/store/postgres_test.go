package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/token"
)

func TestNow_IsThePostgreSQLServersTime(t *testing.T) {
	url := testkit.Postgres(t)
	s := open(t, url, store.Options{})
	before := s.Now()
	server := time.UnixMicro(value[int64](t, url, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"))
	after := s.Now()
	const slack = time.Second // of the measurement
	if server.Before(before.Add(-slack)) || server.After(after.Add(slack)) {
		t.Errorf("got %v to %v, want the server's time %v in between", before, after, server)
	}
}

// A password change, for example, locks the sessions of its account. A batch that
// waited for it would fail after its time limit, and only then run its writes alone.
func TestSessionWrites_LockedSessionDoesNotDelayOthers(t *testing.T) {
	const sessions = 32
	url := testkit.Postgres(t)
	s := migrated(t, url, store.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	write := func(selector token.Selector, n int) error {
		ctx := ctx
		if n == 4 || n == 5 { // they wait for the lock
			ctx = t.Context()
		}
		session, _, err := s.FindSession(ctx, selector, accounts.AccountState)
		if err != nil {
			return err
		}
		if n%4 == 1 {
			return s.TouchSession(ctx, accounts.SessionTouch{ID: session.ID, Current: session.Current, Used: true})
		}
		return s.RotateSession(ctx, session, func(now time.Time) accounts.Session {
			session.Current, session.Rotated = [32]byte{1}, now
			return session
		})
	}
	var selectors [sessions]token.Selector
	for i := range selectors {
		login := fmt.Sprintf("user%04d", i)
		newAccount(t, s, login)
		copy(selectors[i][:], login)
	}
	locking, err := pools(t, url).Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locking.Rollback()
	if _, err := locking.ExecContext(t.Context(), "SELECT FROM personal_sessions WHERE selector IN ($1, $2) FOR UPDATE", selectors[4][:],
		selectors[5][:]); err != nil {
		t.Fatal(err)
	}
	locked, others := make(chan error, 2), make(chan error, sessions)
	start := func(i int) {
		go func() {
			err := write(selectors[i], i)
			if i == 4 || i == 5 {
				locked <- err
			} else {
				others <- err
			}
		}()
	}
	start(4) // a batch of one
	const waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
	for value[int64](t, url, waiting) == 0 {
		time.Sleep(10 * time.Millisecond) // nothing reports it
	}
	for i := range selectors {
		if i != 4 {
			start(i)
		}
	}
	for range sessions - 2 {
		if err := <-others; err != nil {
			t.Error(err)
		}
	}
	if len(locked) > 0 {
		t.Error("got the result of a write to a locked session, want it to wait")
	}
	if err := locking.Rollback(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-locked; err != nil {
			t.Errorf("after the lock: %v", err)
		}
	}
	for i, selector := range selectors {
		session, _, err := s.FindSession(t.Context(), selector, accounts.AccountState)
		touch := i%4 == 1
		if err != nil || (session.Current == [32]byte{1}) == touch || session.Used.IsZero() == touch {
			t.Errorf("session %d: got %+v (error %v), want it rotated or, if %t, used", i, session, err, touch)
		}
	}
}

// TestOpen_SettingsOfARoleDoNotChangeValues works on a database whose settings change how values are
// read and written.
func TestOpen_SettingsOfARoleDoNotChangeValues(t *testing.T) {
	url := testkit.Postgres(t)
	alter(t, url, "bytea_output = 'escape'", "DateStyle = 'German'", "TimeZone = 'Asia/Tokyo'", "transform_null_equals = on",
		"default_transaction_isolation = 'serializable'", "client_encoding = 'LATIN1'", "standard_conforming_strings = off")
	s := migrated(t, url, store.Options{})
	newAccount(t, s, "ada")
	if _, _, err := s.FindSession(t.Context(), token.Selector([]byte("ada"+strings.Repeat("\x00", len(token.Selector{})-3))), accounts.AccountState); err != nil {
		t.Errorf("a session: got %v", err)
	}
	if err := s.Health(t.Context()); err != nil {
		t.Errorf("health: got %v", err)
	}
}

// TestHealth_ReadsWhatRequestsRead has a session that cannot be read, as if each call failed.
func TestHealth_ReadsWhatRequestsRead(t *testing.T) {
	url := testkit.Postgres(t)
	s := migrated(t, url, store.Options{})
	newAccount(t, s, "ada")
	if err := s.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pools(t, url).Write.ExecContext(t.Context(), "ALTER TABLE personal_sessions RENAME TO elsewhere"); err != nil {
		t.Fatal(err)
	}
	if err := s.Health(t.Context()); err == nil {
		t.Error("without the sessions: got no error")
	}
}
