package dbconn_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
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

func TestLimits_ApplyToTransactionsOnly(t *testing.T) {
	db := open(t, testkit.Postgres(t), dbconn.RequestLimits).Write
	db.SetMaxOpenConns(1)
	setting := func(q interface {
		QueryRowContext(context.Context, string, ...any) *sql.Row
	}) (s string) {
		t.Helper()
		if err := q.QueryRowContext(t.Context(), "SHOW lock_timeout").Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := setting(tx); got != "5s" {
		t.Errorf("in the transaction: got lock_timeout %s, want 5s", got)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := setting(db); got != "0" {
		t.Errorf("after the transaction: got lock_timeout %s, want 0", got)
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

func TestPostgres_DeadlineEndsQueryAndConnection(t *testing.T) {
	db := open(t, testkit.Postgres(t), dbconn.RequestLimits).Write
	db.SetMaxOpenConns(1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := db.ExecContext(ctx, "SELECT pg_sleep(60)"); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got error %v, want that of a deadline", err)
	}
	if err := db.PingContext(t.Context()); err != nil { // on a new connection: the pool has only one
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
