package dbconn_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"
	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
)

func open(t *testing.T, url string, l dbconn.Limits) dbconn.Pools {
	t.Helper()
	pools, err := dbconn.Open(url, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pools.Close(); err != nil {
			t.Error(err)
		}
	})
	return pools
}

func mustExec(t *testing.T, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

// endless are limits that end nothing while a test runs, unless they follow the deadline of a call.
var endless = dbconn.Limits{Lock: time.Hour, Statement: time.Hour, Read: time.Hour, PerCall: true}

func TestLimits_LockTimeoutKeepsConnectionUsable(t *testing.T) {
	limits := dbconn.RequestLimits
	limits.Lock = 50 * time.Millisecond
	db := open(t, testkit.Postgres(t), limits).Write
	db.SetMaxOpenConns(2)
	mustExec(t, db, "CREATE TABLE t (id int)")
	mustExec(t, db, "INSERT INTO t VALUES (1)")
	first, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, first, "UPDATE t SET id = 2")

	for range 2 {
		second, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = second.ExecContext(t.Context(), "UPDATE t SET id = 3")
		var reported pgdriver.Error
		if !errors.As(err, &reported) || reported.Field('C') != "55P03" {
			t.Fatalf("got error %v, want lock_not_available", err)
		}
		if err := second.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Commit(); err != nil {
		t.Fatal(err)
	}
}

// The limits leave nothing behind on the connection, which a pooler may share.
func TestLimits_FollowTheDeadlineAndEndWithTheStatement(t *testing.T) {
	url := testkit.Postgres(t)
	const settings = "SELECT concat_ws(' ', current_setting('statement_timeout'), current_setting('lock_timeout'), " +
		"current_setting('idle_in_transaction_session_timeout'), current_setting('transaction_isolation'))"
	type querier interface {
		QueryRowContext(context.Context, string, ...any) *sql.Row
	}
	check := func(what string, ctx context.Context, q querier, want string) {
		t.Helper()
		var got string
		if err := q.QueryRowContext(ctx, settings).Scan(&got); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", what, got, err, want)
		}
	}
	within := func(d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}
	database := url[strings.LastIndex(url, "/")+1:]
	database, _, _ = strings.Cut(database, "?")
	mustExec(t, open(t, url, dbconn.MigrationLimits).Write, "ALTER DATABASE "+database+" SET default_transaction_isolation = 'serializable'")

	db := open(t, url, endless).Write
	db.SetMaxOpenConns(1)
	check("without a deadline", t.Context(), db, "1h 5s 0 read committed")
	check("a short deadline", within(time.Minute), db, "5s 2s 0 read committed")
	tx, err := db.BeginTx(within(2*time.Hour), nil)
	if err != nil {
		t.Fatal(err)
	}
	check("in a transaction", t.Context(), tx, "1h 5s 1h read committed")
	check("less time is left", within(time.Minute), tx, "5s 2s 5s read committed")
	check("more than the transaction has", t.Context(), tx, "5s 2s 5s read committed")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	db = open(t, url, dbconn.MigrationLimits).Write
	db.SetMaxOpenConns(1)
	check("migrations", t.Context(), db, "0 0 0 read committed")
	if tx, err = db.BeginTx(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	check("migrations in a transaction", t.Context(), tx, "5min 5s 6min read committed")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestLimits_TooLittleTimeSendsNothing(t *testing.T) {
	db := open(t, testkit.Postgres(t), dbconn.RequestLimits).Write
	db.SetMaxOpenConns(1)
	mustExec(t, db, "CREATE SEQUENCE s")
	var before, after int
	if err := db.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&before); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 49*time.Millisecond) // real time: it is too little
	defer cancel()
	if _, err := db.ExecContext(ctx, "SELECT nextval('s')"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("statement: got error %v, want that of a deadline", err)
	}
	if _, err := db.BeginTx(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("transaction: got error %v, want that of a deadline", err)
	}
	var used bool
	if err := db.QueryRowContext(t.Context(), "SELECT is_called, pg_backend_pid() FROM s").Scan(&used, &after); err != nil {
		t.Fatal(err)
	}
	if used || before != after {
		t.Errorf("got statement sent %t and connection %d after %d, want neither sent nor another one", used, after, before)
	}
}

// The callers' time ends while they wait for a lock, for a connection, or for the end of a statement.
func TestLimits_NoStatementOutlivesItsCall(t *testing.T) {
	const callers = 50
	url := testkit.Postgres(t)
	db, other := open(t, url, endless).Write, open(t, url, dbconn.MigrationLimits).Write
	db.SetMaxOpenConns(8)
	mustExec(t, db, "CREATE TABLE t (id int)")
	lock, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback()
	mustExec(t, lock, "LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // real time: it is to expire
			defer cancel()
			if i%2 == 0 {
				statement := []string{"INSERT INTO t VALUES (1)", "SELECT pg_sleep(3600)"}[i/2%2]
				if _, err := db.ExecContext(ctx, statement); err == nil {
					t.Error("got past the lock or the end of the call: " + statement)
				}
				return
			}
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return
			}
			defer tx.Rollback()
			if _, err := tx.ExecContext(ctx, "INSERT INTO t VALUES (1)"); err == nil {
				t.Error("a transaction got past the lock")
			}
		})
	}
	running.Wait()
	const ours = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND "
	waiting, connections, gaveUp := 1, 0, time.Now()
	for waiting > 0 && time.Since(gaveUp) < time.Minute {
		if err := other.QueryRowContext(t.Context(), ours+"(wait_event_type = 'Lock' OR wait_event = 'PgSleep')").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.QueryRowContext(t.Context(), ours+"pid NOT IN (SELECT pid FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted)").
		Scan(&connections); err != nil {
		t.Fatal(err)
	}
	if waiting > 0 || connections > 8 {
		t.Errorf("got %d backends that wait and %d in all long after the calls, want none and at most the pool's 8", waiting, connections)
	}
	if err := lock.Commit(); err != nil {
		t.Fatal(err)
	}
	rows := 0
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("got %d rows, %v, of statements that were reported as failed", rows, err)
	}
}

// The network is cut within the transaction: only the server can end it.
func TestLimits_TransactionOfALostCallerEnds(t *testing.T) {
	url := testkit.Postgres(t)
	proxy, through := testkit.NewFaultProxy(t, url)
	db, other := open(t, through, endless).Write, open(t, url, dbconn.MigrationLimits).Write
	mustExec(t, db, "CREATE TABLE t (id int)")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // of which the transaction may be idle for 5 s
	defer cancel()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	mustExec(t, tx, "INSERT INTO t VALUES (1)")
	proxy.Freeze()
	for open, began := 1, time.Now(); open > 0; {
		if time.Since(began) > time.Minute {
			t.Fatal("the transaction is open long after its call")
		}
		const query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"
		if err := other.QueryRowContext(t.Context(), query).Scan(&open); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPostgres_ReplacesConnectionClosedByServer(t *testing.T) {
	url := testkit.Postgres(t)
	db, admin := open(t, url, dbconn.RequestLimits).Write, open(t, url, dbconn.RequestLimits).Write
	db.SetMaxOpenConns(1)
	pid := 0
	if err := db.QueryRowContext(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	var ended bool
	if err := admin.QueryRowContext(t.Context(), "SELECT pg_terminate_backend($1, 5000)", pid).Scan(&ended); err != nil || !ended {
		t.Fatal(ended, err)
	}
	if err := db.PingContext(t.Context()); err != nil {
		t.Errorf("the first use after the server closed the connection: %v", err)
	}
}

func TestPostgres_LimitEndsQuery(t *testing.T) {
	limits := dbconn.RequestLimits
	limits.Statement = 250 * time.Millisecond
	db := open(t, testkit.Postgres(t), limits).Write
	db.SetMaxOpenConns(1)
	var reported pgdriver.Error
	if _, err := db.ExecContext(t.Context(), "SELECT pg_sleep(3600)"); !errors.As(err, &reported) || !reported.StatementTimeout() {
		t.Fatalf("got error %v, want that of the server's limit", err)
	}
	if err := db.PingContext(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSQLite_ConnectionsHavePragmas(t *testing.T) {
	pools := open(t, testkit.SQLite(t), dbconn.RequestLimits)
	for _, pool := range []*sql.DB{pools.Write, pools.Read} {
		for pragma, want := range map[string]string{
			"synchronous": "2", "journal_mode": "wal", "foreign_keys": "1", "busy_timeout": "5000", "secure_delete": "1",
		} {
			var got string
			if err := pool.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("PRAGMA %s: got %s, %v, want %s", pragma, got, err, want)
			}
		}
	}
}

func TestSQLite_FilesArePrivate(t *testing.T) {
	for _, existing := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "x.db")
		if existing {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		pools := open(t, "sqlite://"+path, dbconn.RequestLimits)
		mustExec(t, pools.Write, "CREATE TABLE t (id INTEGER)")
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s: got mode %v, want 0600", filepath.Base(name), info.Mode())
			}
		}
	}
}

// A file on a read-only file system cannot be changed but can be read.
func TestSQLite_PrivateFileIsNotChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after unix.Stat_t
	if err := unix.Stat(path, &before); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // some file systems have a coarse clock
	open(t, "sqlite://"+path, dbconn.RequestLimits)
	if err := unix.Stat(path, &after); err != nil {
		t.Fatal(err)
	}
	if before.Ctim != after.Ctim {
		t.Error("got a change of the file's metadata, want none")
	}
}

func TestSQLite_DoesNotCreateFolders(t *testing.T) {
	_, err := dbconn.Open("sqlite://"+filepath.Join(t.TempDir(), "none", "x.db"), dbconn.RequestLimits)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got error %v, want fs.ErrNotExist", err)
	}
}

func TestSQLite_ReadersDoNotWaitAndCannotWrite(t *testing.T) {
	pools := open(t, testkit.SQLite(t), dbconn.RequestLimits)
	mustExec(t, pools.Write, "CREATE TABLE t (id INTEGER)")
	tx, err := pools.Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustExec(t, tx, "INSERT INTO t VALUES (1)")
	var n int
	if err := pools.Read.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil || n != 0 {
		t.Errorf("got %d rows, %v, want 0", n, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := pools.Read.ExecContext(t.Context(), "INSERT INTO t VALUES (2)"); err == nil {
		t.Error("a connection of the read pool could write")
	}
}
