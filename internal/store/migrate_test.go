package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/token"
	"github.com/cms-personal/personal/shared/userfields"
)

func TestMigrate_EmptyDatabase(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		s := open(t, url, store.Options{})
		wantVersion(t, s, 0, 0)
		if err := s.Health(t.Context()); err == nil {
			t.Error("got a healthy store without a schema, want an error")
		}
		for range 2 {
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantVersion(t, s, store.SchemaTarget, 1)
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
		if n := value[int](t, url, "SELECT count(*) FROM personal_schema"); n != store.SchemaTarget {
			t.Errorf("got %d migrations, want %d", n, store.SchemaTarget)
		}
	})
}

func TestMigrate_CompatibleNewerSchemaIsAccepted(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		execute(t, url, fmt.Sprintf("INSERT INTO personal_schema (version, min_compatible, applied_at) VALUES (%d, 1, 0)", store.SchemaTarget+1))
		execute(t, url, "ALTER TABLE personal_accounts ADD COLUMN newer TEXT")
		execute(t, url, "ALTER TABLE personal_sessions ADD COLUMN newer INTEGER NOT NULL DEFAULT 7")
		if err := s.Migrate(t.Context()); err != nil {
			t.Error(err)
		}
		wantVersion(t, s, store.SchemaTarget+1, 1)
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
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
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

// TestMigrate_DoesNotDeadlockWithRegistrations migrates while a transaction of the last
// release has written an account and is about to write a job, as a registration does.
func TestMigrate_DoesNotDeadlockWithRegistrations(t *testing.T) {
	url := testkit.Postgres(t)
	first, err := os.ReadFile("migrations/postgres/0001_init.sql")
	if err != nil {
		t.Fatal(err)
	}
	execute(t, url, string(first)+"INSERT INTO personal_schema (version, min_compatible, applied_at) VALUES (1, 1, 0)")
	s := open(t, url, store.Options{})
	tx, err := pools(t, url).Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO personal_accounts
		(login, login_key, email, password_hash, credential_version, fields, disabled, created, updated)
		VALUES ('a', 'a', '', '', 1, '{}', false, 0, 0)`); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() { migrated <- s.Migrate(t.Context()) }()
	for value[int](t, url, "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = current_database() AND NOT granted") == 0 {
		time.Sleep(10 * time.Millisecond) // until the migration waits for the transaction
	}
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO personal_jobs (kind, payload, created, due, attempts, lease) VALUES ('event', '', 0, 0, 0, 0)`); err != nil {
		t.Errorf("the migration ended the transaction: %v", err)
	}
	if err := errors.Join(tx.Commit(), <-migrated); err != nil {
		t.Error(err)
	}
	wantVersion(t, s, store.SchemaTarget, 1)
}

// A backup, for example, holds locks on all tables for hours. Readers must not wait behind
// the migration that waits for it.
func TestMigrate_WithoutLocksNamesWhoHoldsThem(t *testing.T) {
	url := testkit.Postgres(t)
	firstRelease(t, url)
	s := open(t, url, store.Options{})
	backup, err := pools(t, url).Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if err := backup.QueryRowContext(t.Context(), "SELECT pg_backend_pid() FROM personal_jobs UNION SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	refused := make(chan error, 1)
	go func() { refused <- s.Migrate(ctx) }()
	blocked := 0
	for reader := pools(t, url).Read; err == nil && len(refused) == 0; {
		waited := time.Now()
		_, err = reader.ExecContext(t.Context(), "SELECT 1 FROM personal_jobs")
		if time.Since(waited) > time.Second {
			blocked++
		}
		time.Sleep(10 * time.Millisecond) // reads come now and then
	}
	if blocked > 0 || err != nil {
		t.Errorf("got %d reads that waited longer than a second, error %v", blocked, err)
	}
	err = <-refused
	want := fmt.Sprintf("server process %d (application", pid)
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "repeat the start") {
		t.Errorf("got error %v, want %q in it and what to do", err, want)
	}
	if err := backup.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	wantVersion(t, s, store.SchemaTarget, 1)
}

// Statements that name the columns of schema 1 must run on every later schema: a plugin of
// the last release may use the database at the same time.
const (
	insertOldAccount = `INSERT INTO personal_accounts (login, login_key, email, email_key, password_hash, credential_version, fields, disabled, created, updated)
		VALUES ('%[1]s', '%[1]s', '%[1]s@example.org', '%[1]s@example.org', 'hash', 3, '{"city": "Omsk"}', (1 = 0), 5, 6)`
	insertOldSession = `INSERT INTO personal_sessions (account_id, selector, chain_key, newest, created, rotated, used, last_seen, address, agent)
		SELECT id, %[2]s, %[3]s, %[3]s, 7, 7, 0, 7, '192.0.2.1', '' FROM personal_accounts WHERE login = '%[1]s'`
)

func TestMigrate_KeepsAccountsOfEarlierSchemas(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		dialect, _, _ := strings.Cut(url, ":")
		literal := map[string]string{"sqlite": "x'%x'", "postgres": `'\x%x'::bytea`}[dialect]
		const earlier = 5
		files, err := filepath.Glob("migrations/" + dialect + "/*.sql")
		if err != nil || len(files) != store.SchemaTarget {
			t.Fatalf("got %d migrations (error %v), want %d", len(files), err, store.SchemaTarget)
		}
		// insert stores an account with a session.
		insert := func(login string) token.Selector {
			selector := token.Selector([]byte(fmt.Sprintf("%8s", login)))
			execute(t, url, fmt.Sprintf(insertOldAccount, login))
			execute(t, url, fmt.Sprintf(insertOldSession, login, fmt.Sprintf(literal, selector[:]), fmt.Sprintf(literal, make([]byte, 32))))
			return selector
		}
		var selectors []token.Selector
		for i, file := range files[:earlier] {
			statements, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			execute(t, url, string(statements)+fmt.Sprintf(";INSERT INTO personal_schema (version, min_compatible, applied_at) VALUES (%d, 1, 0)",
				i+1))
			selectors = append(selectors, insert(fmt.Sprint("schema", i+1)))
		}
		s := migrated(t, url, store.Options{})
		wantVersion(t, s, store.SchemaTarget, 1)
		selectors = append(selectors, insert("schema6"))
		for i, selector := range selectors {
			session, account, err := s.FindSession(t.Context(), selector, accounts.WholeAccount)
			login := fmt.Sprint("schema", i+1)
			want := accounts.Account{
				ID: account.ID, Login: login, LoginKey: login, Email: accounts.Email{Address: login + "@example.org", Key: login + "@example.org"},
				PasswordHash: "hash", CredentialVersion: 3, Fields: userfields.Values{"city": "Omsk"},
				Created: time.UnixMicro(5).UTC(), Updated: time.UnixMicro(6).UTC(),
			}
			if diff := cmp.Diff(want, account); err != nil || diff != "" {
				t.Errorf("error %v, %s", err, diff)
			}
			p := accounts.PendingFactor{AccountID: account.ID, SessionID: session.ID, CredentialVersion: 3,
				Secret: accounts.Sealed{Key: "key", Data: []byte("x")}}
			if err := errors.Join(s.SetPendingFactor(t.Context(), p),
				s.EnableTwoFactor(t.Context(), p, 1, [][32]byte{{1}}, accounts.KeptSession{Session: session})); err != nil {
				t.Errorf("%s: enabling a second factor: %v", login, err)
			}
		}
		// With a version that knows no second factors.
		execute(t, url, "UPDATE personal_accounts SET password_hash = 'x', credential_version = credential_version + 1, updated = 9 WHERE login = 'schema1'")
		execute(t, url, "DELETE FROM personal_accounts WHERE login <> 'schema1'")
		if n := value[int](t, url, "SELECT count(*) FROM personal_accounts WHERE two_factor_secret IS NOT NULL"); n != 1 {
			t.Errorf("got %d accounts with a second factor, want 1", n)
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

func TestCheckSchema_IsTheSameBeforeAndAfterMigrate(t *testing.T) {
	s := open(t, testkit.SQLite(t), store.Options{})
	for _, when := range []string{"before", "after"} {
		if _, compatible, err := s.CheckSchema(t.Context()); err != nil || compatible != 1 {
			t.Errorf("%s: got %d (error %v), want 1", when, compatible, err)
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCheckSchema_NewerSchemaIsReportedAsStored(t *testing.T) {
	url := testkit.SQLite(t)
	s := migrated(t, url, store.Options{})
	for _, least := range []int{1, store.SchemaTarget + 1} {
		execute(t, url, fmt.Sprintf("INSERT INTO personal_schema (version, min_compatible, applied_at) VALUES (%d, %d, 0)",
			store.SchemaTarget+least, least))
		found, compatible, err := s.CheckSchema(t.Context())
		if (err == nil) != (least == 1) || found != store.SchemaTarget+least || compatible != least {
			t.Errorf("got version %d for %d, error %v; want version %d for %d", found, compatible, err, store.SchemaTarget+least, least)
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

func TestRaiseMinCompatible_OncePerDatabase(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		if err := s.RaiseMinCompatible(t.Context(), store.SchemaTarget+1); err == nil {
			t.Error("raising it beyond what this program knows: got no error, want one")
		}
		wantVersion(t, s, store.SchemaTarget, 1)
		const nodes = 8
		errs := make([]error, nodes)
		var all sync.WaitGroup
		for i := range errs {
			node := open(t, url, store.Options{})
			all.Go(func() { errs[i] = node.RaiseMinCompatible(t.Context(), 4) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		wantVersion(t, s, store.SchemaTarget, 4)
		if err := s.RaiseMinCompatible(t.Context(), 2); err != nil {
			t.Error(err)
		}
		wantVersion(t, s, store.SchemaTarget, 4)
		if err := s.Migrate(t.Context()); err != nil {
			t.Errorf("a start afterwards: got %v, want that this program runs on it", err)
		}
	})
}
