package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/token"
)

// firstRelease makes the tables of version 0.1.0 with an account, so that a migration finds
// a database in use.
func firstRelease(t testing.TB, url string) {
	t.Helper()
	dialect, _, _ := strings.Cut(url, ":")
	first, err := os.ReadFile(filepath.Join("migrations", dialect, "0001_init.sql"))
	if err != nil {
		t.Fatal(err)
	}
	execute(t, url, string(first)+"; INSERT INTO personal_schema (version, min_compatible, applied_at) VALUES (1, 1, 0); "+fmt.Sprintf(insertOldAccount, "anna"))
}

// countIndexes returns how many of the listed indexes the database has.
func countIndexes(t testing.TB, url string, names ...string) int {
	t.Helper()
	from := "sqlite_master WHERE type = 'index' AND name"
	if strings.HasPrefix(url, "postgres") {
		from = "pg_class JOIN pg_index ON indexrelid = oid WHERE indisvalid AND relname"
	}
	return value[int](t, url, "SELECT count(*) FROM "+from+" IN ('"+strings.Join(names, "', '")+"')")
}

var listed = []string{
	"personal_jobs_account", "personal_jobs_kind", "personal_accounts_unverified", "personal_accounts_erase", "personal_accounts_two_factor", "personal_accounts_disabled",
	"personal_accounts_waiting", "personal_accounts_factors", "personal_accounts_created",
}

func reconcile(t testing.TB, s *store.Store) {
	t.Helper()
	if done, err := s.ReconcileIndexes(t.Context()); err != nil || !done {
		t.Fatalf("got done %t, error %v", done, err)
	}
}

func TestReconcileIndexes_AfterTheMigrationOfADatabaseInUse(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		firstRelease(t, url)
		var log strings.Builder
		s := migrated(t, url, store.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if n := countIndexes(t, url, listed...); n != 0 {
			t.Errorf("migrated: got %d of the indexes, want none: a migration would hold locks while it builds them", n)
		}
		for range 2 {
			reconcile(t, s)
			if n := countIndexes(t, url, listed...); n != len(listed) {
				t.Errorf("reconciled: got %d of %d indexes", n, len(listed))
			}
		}
		if n := strings.Count(log.String(), "created an index"); n != len(listed) {
			t.Errorf("got %d indexes created in two calls, want each once:\n%s", n, log.String())
		}
	})
}

func TestMigrate_EmptyDatabaseHasAllIndexesAtOnce(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		migrated(t, url, store.Options{})
		if n := countIndexes(t, url, listed...); n != len(listed) {
			t.Errorf("got %d of %d indexes", n, len(listed))
		}
	})
}

func TestReconcileIndexes_RebuildsInvalidOnes(t *testing.T) {
	url := testkit.Postgres(t)
	firstRelease(t, url)
	s := migrated(t, url, store.Options{})
	// What an interrupted CREATE INDEX CONCURRENTLY leaves.
	execute(t, url, "CREATE INDEX personal_accounts_disabled ON personal_accounts (id) WHERE disabled")
	execute(t, url, "UPDATE pg_index SET indisvalid = FALSE WHERE indexrelid = 'personal_accounts_disabled'::regclass")
	reconcile(t, s)
	if n := countIndexes(t, url, listed...); n != len(listed) {
		t.Errorf("got %d of %d valid indexes", n, len(listed))
	}
}

func TestReconcileIndexes_OneNodeAtATime(t *testing.T) {
	url := testkit.Postgres(t)
	firstRelease(t, url)
	first, second := migrated(t, url, store.Options{}), open(t, url, store.Options{})
	// An open transaction on the table keeps CREATE INDEX CONCURRENTLY waiting.
	tx, err := pools(t, url).Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "UPDATE personal_accounts SET name = 'Anna'"); err != nil {
		t.Fatal(err)
	}
	building := func() int {
		return value[int](t, url, `SELECT count(*) FROM pg_stat_progress_create_index WHERE datname = current_database()`)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := first.ReconcileIndexes(ctx)
		ended <- err
	}()
	for building() == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	if done, err := second.ReconcileIndexes(t.Context()); done || err != nil {
		t.Errorf("meanwhile, another node: got done %t, error %v, want that it does nothing", done, err)
	}
	execute(t, url, "INSERT INTO personal_jobs (kind, payload, created, due, attempts, lease) VALUES ('event', '', 0, 0, 0, 0)") // nothing waits
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: got error %v, want context.Canceled", err)
	}
	if n := building(); n != 0 {
		t.Errorf("stopped: got %d indexes that the server still builds, want none", n)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	reconcile(t, second)
	if n := countIndexes(t, url, listed...); n != len(listed) {
		t.Errorf("got %d of %d valid indexes", n, len(listed))
	}
}

// A HOT update changes no index: it writes a third of the log.
func TestReconcileIndexes_WritesOfSessionsAreHOT(t *testing.T) {
	const sessions, rotations = 50, 10
	url := testkit.Postgres(t)
	s := migrated(t, url, store.Options{})
	reconcile(t, s)
	ids := make([]accounts.Session, 0, sessions)
	for i := range sessions {
		session := accounts.Session{Selector: token.Selector([]byte(fmt.Sprintf("%8d", i))), Created: s.Now(), LastSeen: s.Now(),
			Agent: "Mozilla/5.0 (X11; Linux x86_64)"}
		_, err := s.CreateAccount(t.Context(), accounts.Account{LoginKey: fmt.Sprint("user", i), CredentialVersion: 1}, session,
			func(int64) []accounts.NewJob { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if session, _, err = s.FindSession(t.Context(), session.Selector, accounts.AccountState); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, session)
	}
	log := func() int { return value[int](t, url, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint") }
	before := log()
	for n := range rotations {
		for i := range ids {
			was := ids[i]
			err := s.RotateSession(t.Context(), was, func(now time.Time) accounts.Session {
				ids[i].Current[0], ids[i].Rotations = byte(n+1), int64(n+1)
				ids[i].Rotated, ids[i].LastSeen, ids[i].Used = now, now, now
				return ids[i]
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	written := log() - before
	if err := s.Close(); err != nil { // connections send their statistics at the end
		t.Fatal(err)
	}
	var updates, hot int
	for reader := pools(t, url).Read; updates < sessions*rotations; {
		row := reader.QueryRowContext(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'personal_sessions'")
		if err := row.Scan(&updates, &hot); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Logf("%d bytes of WAL for each of %d rotations", written/updates, updates)
	// On an idle machine it is nearly all. How many depends on when the server can remove old
	// versions, so only what an index on a changed column leaves is an error: none.
	if hot == 0 {
		t.Errorf("got no HOT update in %d, want nearly all", updates)
	}
}
