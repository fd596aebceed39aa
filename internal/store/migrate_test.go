package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/token"
)

// compatible is the schema that versions know which work on this one, too.
const compatible = 15

func TestMigrate_EmptyDatabase(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		s := open(t, url, store.Options{})
		wantVersion(t, s, 0, 0)
		if err := s.Health(t.Context()); err == nil {
			t.Error("got a healthy store without a schema, want an error")
		}
		for range 2 {
			if _, found, err := s.CheckSchema(t.Context()); err != nil || found != compatible {
				t.Errorf("got %d (error %v), want %d also before the migration", found, err, compatible)
			}
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantVersion(t, s, store.SchemaTarget, compatible)
			if err := s.Health(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestMigrate_ConcurrentNodes(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		const nodes = 8
		stores := make([]*store.Store, nodes)
		for i := range stores {
			stores[i] = open(t, url, store.Options{})
		}
		errs := make([]error, nodes)
		var all sync.WaitGroup
		for i, s := range stores {
			all.Go(func() { errs[i] = s.Migrate(t.Context()) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if n := value[int](t, url, "SELECT count(*) FROM personal_schema"); n != store.SchemaTarget-store.SchemaMinimum+1 {
			t.Errorf("got %d migrations, want each once", n)
		}
	})
}

func TestMigrate_CompatibleNewerSchemaIsAccepted(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		execute(t, url, laterSchema(t, url))
		if err := s.Migrate(t.Context()); err != nil {
			t.Error(err)
		}
		wantVersion(t, s, store.SchemaTarget+1, 15)
		id, err := s.CreateAccount(t.Context(), accounts.Account{LoginKey: "a", CredentialVersion: 1}, accounts.Session{},
			func(int64) []accounts.NewJob { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.UpdateProfile(t.Context(), id, func(*accounts.Account) []accounts.NewJob { return nil }); err != nil {
			t.Error(err)
		}
		if _, _, err := s.FindSession(t.Context(), accounts.Session{}.Selector, accounts.AccountProfile); err != nil {
			t.Error(err)
		}
		execute(t, url, fmt.Sprintf("INSERT INTO personal_renamings (account_id) VALUES (%d)", id))
		if err := s.DeleteAccount(t.Context(), id, func(accounts.Account, outbox.Job) []byte { return nil }); err != nil {
			t.Error(err)
		}
		if n := value[int](t, url, "SELECT count(*) FROM personal_renamings"); n != 0 {
			t.Errorf("got %d rows of the erased user, want none", n)
		}
	})
}

func TestMigrate_IncompatibleNewerSchemaIsRefused(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		want := store.SchemaError{Found: store.SchemaTarget + 2, MinCompatible: store.SchemaTarget + 1}
		execute(t, url, fmt.Sprintf("INSERT INTO personal_schema (version, min_compatible, applied_at) VALUES (%d, %d, 0)", want.Found,
			want.MinCompatible))
		err := s.Migrate(t.Context())
		var refused *store.SchemaError
		if !errors.As(err, &refused) || *refused != want {
			t.Fatalf("got error %v, want %v", err, &want)
		}
		if !strings.Contains(err.Error(), "run a newer version") {
			t.Errorf("got %q, want what to do in it", err)
		}
	})
}

func TestMigrateSteps_StepThatTakesTooLongIsUndone(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		s := open(t, url, store.Options{})
		err := s.MigrateSteps(t.Context(), time.Nanosecond)
		var setup *dbconn.SetupError
		if !errors.As(err, &setup) || !strings.Contains(setup.Problem, "run `personal migrate` in a quiet hour") {
			t.Errorf("got error %v, want what to do", err)
		}
		wantVersion(t, s, 0, 0)
		if err := s.MigrateSteps(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		wantVersion(t, s, store.SchemaTarget, compatible)
	})
}

// TestMigrateSteps_ServerEndsTheStatement makes each statement of a migration sleep.
func TestMigrateSteps_ServerEndsTheStatement(t *testing.T) {
	url := testkit.Postgres(t)
	s := open(t, url, store.Options{})
	execute(t, url, "CREATE FUNCTION slow() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(3600); END'")
	execute(t, url, "CREATE EVENT TRIGGER slow ON ddl_command_start EXECUTE FUNCTION slow()")
	defer execute(t, url, "DROP EVENT TRIGGER slow")
	var setup *dbconn.SetupError
	if err := s.MigrateSteps(t.Context(), 100*time.Millisecond); !errors.As(err, &setup) {
		t.Errorf("got error %v, want what to do", err)
	}
	const sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
	for value[int](t, url, sleeping) > 0 {
		if t.Context().Err() != nil {
			t.Fatal("got a statement that runs on, want that the server has ended it")
		}
		time.Sleep(10 * time.Millisecond)
	}
	wantVersion(t, s, 0, 0)
}

func TestMigrate_WaitsForTheLock(t *testing.T) {
	url := testkit.Postgres(t)
	s := open(t, url, store.Options{})
	other := pools(t, url).Write
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "SELECT pg_advisory_xact_lock(7309453671206911841)"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // real time: it is to expire
	defer cancel()
	if err := s.Migrate(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got error %v, want DeadlineExceeded", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Migrate(t.Context()) }()
	if err := tx.Rollback(); err != nil { // as the server does when a node dies
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMigrate_WithoutLocksNamesWhoHoldsThem(t *testing.T) {
	url := testkit.Postgres(t)
	s := open(t, url, store.Options{})
	other, err := pools(t, url).Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if err := other.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if _, err := other.ExecContext(t.Context(), "CREATE TABLE personal_accounts (id BIGINT)"); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("server process %d (application", pid)
	for limit := 3 * time.Second; ; limit *= 2 { // a slow machine needs more
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err = s.Migrate(ctx)
		cancel()
		if err != nil && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), "repeat the start") {
			break
		}
		if err == nil || limit > time.Minute {
			t.Fatalf("got error %v, want %q in it and what to do", err, want)
		}
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	wantVersion(t, s, store.SchemaTarget, compatible)
}

// Databases of development versions before the first release are not migrated.
func TestMigrate_DevelopmentSchemaIsRefusedWithAdvice(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		s := open(t, url, store.Options{})
		execute(t, url, "CREATE TABLE personal_schema (version INTEGER PRIMARY KEY, min_compatible INTEGER NOT NULL, applied_at BIGINT NOT NULL)")
		execute(t, url, "INSERT INTO personal_schema (version, min_compatible, applied_at) VALUES (14, 1, 0)")
		for doing, do := range map[string]func() error{
			"migrate": func() error { return s.Migrate(t.Context()) },
			"check":   func() error { _, _, err := s.CheckSchema(t.Context()); return err },
			"health":  func() error { return s.Health(t.Context()) },
		} {
			var refused *store.SchemaError
			if err := do(); !errors.As(err, &refused) || !strings.Contains(err.Error(), "schema version 14, of a development version") ||
				!strings.Contains(err.Error(), "personal export") {
				t.Errorf("%s: got %v, want a refusal that says what to do", doing, err)
			}
		}
	})
}

// A newer version may come while this one runs, and demand what this one does not do.
func TestHealth_RefusesASchemaThatNeedsANewerVersion(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		execute(t, url, fmt.Sprintf("UPDATE personal_schema SET min_compatible = %d", store.SchemaTarget+1))
		var refused *store.SchemaError
		if err := s.Health(t.Context()); !errors.As(err, &refused) {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}

// Each migration is written once per database.
func TestMigrations_BothDatabasesHaveTheSameColumns(t *testing.T) {
	lite, pg := testkit.SQLite(t), testkit.Postgres(t)
	migrated(t, lite, store.Options{})
	migrated(t, pg, store.Options{})
	got := value[string](t, lite, `SELECT group_concat(col, ' ') FROM (
		SELECT m.name || '.' || c.name AS col FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name LIKE 'personal_%' ORDER BY m.name, c.cid)`)
	want := value[string](t, pg, `SELECT string_agg(table_name || '.' || column_name, ' ' ORDER BY table_name COLLATE "C", ordinal_position)
		FROM information_schema.columns WHERE table_schema = 'public'`)
	if got != want {
		t.Errorf("got on SQLite\n%s\nwant as on PostgreSQL\n%s", got, want)
	}
	stray := value[int](t, pg, `SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname NOT LIKE 'personal\_%'`)
	if stray != 0 {
		t.Errorf("got %d names without the prefix personal_, want none", stray)
	}
}

func TestCheckSchema_NewerSchemaIsReportedAsStored(t *testing.T) {
	url := testkit.SQLite(t)
	s := migrated(t, url, store.Options{})
	for i, least := range []int{store.SchemaTarget, store.SchemaTarget + 1} {
		execute(t, url, fmt.Sprintf("INSERT INTO personal_schema (version, min_compatible, applied_at) VALUES (%d, %d, 0)",
			store.SchemaTarget+1+i, least))
		found, compatible, err := s.CheckSchema(t.Context())
		if (err == nil) != (i == 0) || found != store.SchemaTarget+1+i || compatible != least {
			t.Errorf("got version %d for %d, error %v; want version %d for %d", found, compatible, err, store.SchemaTarget+1+i, least)
		}
	}
}

func wantVersion(t *testing.T, s *store.Store, version, minCompatible int) {
	t.Helper()
	found, least, err := s.SchemaVersion(t.Context())
	if err != nil || found != version || least != minCompatible {
		t.Errorf("got version %d for %d, error %v; want %d for %d", found, least, err, version, minCompatible)
	}
}

// pools does not limit single statements: VACUUM must be alone in its message.
func pools(t testing.TB, url string) dbconn.Pools {
	t.Helper()
	p, err := dbconn.Open(url, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func execute(t testing.TB, url, statement string) {
	t.Helper()
	if _, err := pools(t, url).Write.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func value[T any](t testing.TB, url, query string) (v T) {
	t.Helper()
	if err := pools(t, url).Read.QueryRowContext(t.Context(), query).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// A HOT update changes no index: it writes a third of the log.
func TestMigrate_WritesOfSessionsAreHOT(t *testing.T) {
	const sessions, rotations = 50, 10
	url := testkit.Postgres(t)
	s := migrated(t, url, store.Options{})
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
