package testkit

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/internal/store/dbconn"
)

// PostgresVariable is the environment variable with the URL of a server for tests. Its
// user must be allowed to create databases.
const PostgresVariable = "PERSONAL_TEST_POSTGRES"

const adminTimeout = 30 * time.Second

// Databases runs f as a subtest on a new, empty database of each system.
func Databases(t *testing.T, f func(t *testing.T, url string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { f(t, SQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { f(t, Postgres(t)) })
}

// DatabasesVariable is the environment variable that makes [Database] use all systems.
const DatabasesVariable = "PERSONAL_TEST_ALL_DATABASES"

// Database is [Databases] for what does not depend on the system, because suites show that the
// stores of both are alike: on SQLite alone, which is quicker, unless DatabasesVariable is
// set, as .ci/extended does.
func Database(t *testing.T, f func(t *testing.T, url string)) {
	t.Helper()
	OnSystems(t, f, SQLite, Postgres)
}

// OnSystems is [Database] with databases that are made otherwise.
func OnSystems(t *testing.T, f func(t *testing.T, url string), sqlite, postgres func(testing.TB) string) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { f(t, sqlite(t)) })
	if os.Getenv(DatabasesVariable) != "" {
		t.Run("PostgreSQL", func(t *testing.T) { f(t, postgres(t)) })
	}
}

// SQLite returns the URL of a database file that does not exist yet. It is removed
// when the test ends. The file is in memory where the system has a folder for that, because
// tests commit many transactions, and each would wait for the disk. As with PostgreSQL,
// tests survive killed processes there, not a power failure.
func SQLite(t testing.TB) string {
	t.Helper()
	return "sqlite://" + filepath.Join(memoryDir(t), "personal.db")
}

// memoryDir returns a new folder in memory, or on disk if there is no gigabyte free in
// /dev/shm.
func memoryDir(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	var free unix.Statfs_t
	if err := unix.Statfs(memory, &free); err != nil || uint64(free.Bavail)*uint64(free.Bsize) < 1<<30 {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "personal-test-")
	if err != nil {
		t.Fatalf("making a folder for a database: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Postgres returns the URL of an empty PostgreSQL database that no other test uses. The
// server is the one that PostgresVariable names, or one that the test binary starts at the
// first call. If that is impossible, the test fails; it is never skipped.
//
// The databases are called personal_test_N_… and used again by later tests, of this and of
// other processes, because PostgreSQL takes long to create and to drop one. Each test gets
// another name, so that no process that an earlier test has left behind reaches the database.
func Postgres(t testing.TB) string {
	t.Helper()
	return postgres(t, nil)
}

// PostgresFrom is [Postgres] with the tables that fill creates, and the rows that it adds. All
// calls with one RunVariable give functions that do the same: a database that still has these tables is
// not filled again, it gets their first rows back.
func PostgresFrom(t testing.TB, fill func(url string) error) string {
	t.Helper()
	return postgres(t, fill)
}

func postgres(t testing.TB, fill func(url string) error) string {
	t.Helper()
	server, err := testServer()
	if err != nil {
		t.Fatalf("finding a PostgreSQL server for tests: %v", err)
	}
	database, err := takeDatabase(server, fill)
	if err != nil {
		t.Fatalf("creating a test database: %v", err)
	}
	t.Cleanup(func() {
		if err := database.release(); err != nil {
			t.Errorf("releasing the test database: %v", err)
		}
	})
	return database.url
}

// testDatabase is a database that a test has taken: its connection holds the advisory
// lock of the database's number, also if the process is killed.
type testDatabase struct {
	url    string
	pools  dbconn.Pools
	holder *sql.Conn
}

// maxDatabases is how many databases can be in use at the same time.
const maxDatabases = 1000

// takeDatabase takes the first database that is free, and creates, empties or rewinds it.
func takeDatabase(server string, fill func(url string) error) (_ *testDatabase, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	d := &testDatabase{}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.release())
		}
	}()
	u, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("the URL in " + PostgresVariable + " is invalid")
	}
	u.Path = "/postgres" // advisory locks are those of a database: all runs must use the same one
	if d.pools, err = openServer(u.String()); err != nil {
		return nil, err
	}
	if d.holder, err = d.pools.Write.Conn(ctx); err != nil {
		return nil, err
	}
	var number int
	err = d.holder.QueryRowContext(ctx, `WITH RECURSIVE n AS (SELECT 1 AS i, pg_try_advisory_lock($1, 1) AS taken
		UNION ALL SELECT i + 1, pg_try_advisory_lock($1, i + 1) FROM n WHERE NOT taken AND i < $2)
		SELECT i FROM n WHERE taken`, lockSpace, maxDatabases).Scan(&number)
	if err != nil {
		return nil, fmt.Errorf("taking a database: %w", err)
	}
	prefix := fmt.Sprintf("personal_test_%d_", number)
	name := prefix + strings.ToLower(rand.Text())
	u.Path = "/" + name
	d.url = u.String()
	var before string
	err = d.holder.QueryRowContext(ctx, "SELECT datname FROM pg_database WHERE starts_with(datname, $1)", prefix).Scan(&before)
	if errors.Is(err, sql.ErrNoRows) {
		if _, err = d.holder.ExecContext(ctx, "CREATE DATABASE "+name); err == nil && fill != nil {
			err = fillDatabase(ctx, d.url, fill)
		}
		return d, err
	}
	if err != nil {
		return nil, err
	}
	_, err = d.holder.ExecContext(ctx,
		"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'", before)
	if err == nil {
		_, err = d.holder.ExecContext(ctx, "ALTER DATABASE "+before+" RENAME TO "+name)
	}
	if err != nil {
		return nil, fmt.Errorf("taking the database %s: %w", before, err)
	}
	if _, err := d.holder.ExecContext(ctx, "ALTER DATABASE "+name+" RESET ALL"); err != nil {
		return nil, fmt.Errorf("resetting the settings of the database %s: %w", name, err)
	}
	if fill == nil {
		return d, administer(d.url, emptySchema)
	}
	return d, rewindDatabase(ctx, d.url, fill)
}

// lockSpace is the first key of the advisory locks of test databases.
const lockSpace = 7309453

// release ends the test's use of the database.
func (d *testDatabase) release() (err error) {
	if d.holder != nil {
		err = d.holder.Close()
	}
	if d.pools.Write != nil {
		err = errors.Join(err, d.pools.Close())
	}
	return err
}

// testServer returns the URL of the server that all tests of the binary share. A
// server started here stops with the process, see StartPostgres.
var testServer = sync.OnceValues(func() (string, error) {
	if given := os.Getenv(PostgresVariable); given != "" {
		return given, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	server, err := StartPostgres(ctx)
	if err != nil {
		return "", err
	}
	return server.URL, nil
})

// administer runs one statement outside a transaction.
func administer(server, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	return onServer(server, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, statement)
		return err
	})
}

func onServer(server string, f func(*sql.DB) error) error {
	pools, err := openServer(server)
	if err != nil {
		return err
	}
	return errors.Join(f(pools.Write), pools.Close())
}

func openServer(server string) (dbconn.Pools, error) {
	limits := dbconn.MigrationLimits // CREATE DATABASE must be alone in its message
	limits.Read = adminTimeout
	return dbconn.Open(server, limits)
}

// waitUntilUp waits until the server accepts connections.
func waitUntilUp(ctx context.Context, server string, ended <-chan struct{}) error {
	return onServer(server, func(db *sql.DB) error {
		for {
			err := db.PingContext(ctx)
			if err == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("it does not respond: %w", err)
			case <-ended:
				return errors.New("it stopped at once")
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}
