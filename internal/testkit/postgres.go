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

// RewindablePostgres is [PostgresFrom]. The function brings the first rows back, over a connection
// that it keeps: for one test that does much, it is cheaper than many databases.
func RewindablePostgres(t testing.TB, fill func(url string) error) (url string, rewind func() error) {
	t.Helper()
	url = postgres(t, fill)
	pools, err := openServer(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pools.Close() })
	return url, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
		defer cancel()
		rewound, err := rewindRows(ctx, pools.Write)
		if err == nil && !rewound {
			err = errors.New("rewinding the database: more than rows has changed")
		}
		return err
	}
}

func postgres(t testing.TB, fill func(url string) error) string {
	t.Helper()
	all, err := testDatabases()
	if err != nil {
		t.Fatalf("finding a PostgreSQL server for tests: %v", err)
	}
	number, url, err := all.take(fill)
	if err != nil {
		t.Fatalf("creating a test database: %v", err)
	}
	t.Cleanup(func() { all.release(number, fill != nil) })
	return url
}

// databases are the databases that this process has taken, with a connection that holds an
// advisory lock on the number of each until the process ends, also if it is killed. A
// connection per test would cost the server more than all that is done over it.
type databases struct {
	server url.URL
	mu     sync.Mutex
	holder *sql.Conn
	tried  int            // all numbers up to this one are taken, by this process or by others
	free   map[bool][]int // taken by this process, and used by no test: filled ones and others
}

// testDatabases returns the databases of the process.
var testDatabases = sync.OnceValues(func() (*databases, error) {
	server, err := testServer()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("the URL in " + PostgresVariable + " is invalid")
	}
	u.Path = "/postgres" // advisory locks are those of a database: all runs must use the same one
	pools, err := openServer(u.String())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	holder, err := pools.Write.Conn(ctx)
	return &databases{server: *u, holder: holder, free: map[bool][]int{}}, err
})

// take takes the first database that is free, and creates, empties or rewinds it. After an
// error the process does not use the database again.
func (d *databases) take(fill func(url string) error) (number int, url string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	number, url, created, err := d.rename(ctx, fill != nil)
	switch {
	case err != nil:
	case created && fill != nil:
		err = fillDatabase(ctx, url, fill)
	case created:
	case fill == nil:
		err = administer(url, emptySchema)
	default:
		err = rewindDatabase(ctx, url, fill)
	}
	return number, url, err
}

// rename takes a number, and gives its database a new name and no settings, or
// creates it.
func (d *databases) rename(ctx context.Context, filled bool) (number int, url string, created bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if number, err = d.number(ctx, filled); err != nil {
		return 0, "", false, fmt.Errorf("taking a database: %w", err)
	}
	prefix := fmt.Sprintf("personal_test_%d_", number)
	name := prefix + strings.ToLower(rand.Text())
	u := d.server
	u.Path = "/" + name
	var before string
	err = d.holder.QueryRowContext(ctx, "SELECT datname FROM pg_database WHERE starts_with(datname, $1)", prefix).Scan(&before)
	if errors.Is(err, sql.ErrNoRows) {
		_, err = d.holder.ExecContext(ctx, "CREATE DATABASE "+name)
		return number, u.String(), true, err
	}
	if err == nil {
		_, err = d.holder.ExecContext(ctx, fmt.Sprintf(
			"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '%[1]s' AND backend_type = 'client backend';"+
				"ALTER DATABASE %[1]s RENAME TO %[2]s; ALTER DATABASE %[2]s RESET ALL", before, name))
	}
	if err != nil {
		return 0, "", false, fmt.Errorf("taking the database %s: %w", before, err)
	}
	return number, u.String(), false, nil
}

// lockSpace is the first key of the advisory locks of test databases.
const lockSpace = 7309453

// maxDatabases is how many databases can be in use at the same time.
const maxDatabases = 1000

// number returns the number of a database that is free. What a filled one is used for again
// needs its tables.
func (d *databases) number(ctx context.Context, filled bool) (int, error) {
	if free := d.free[filled]; len(free) > 0 {
		d.free[filled] = free[:len(free)-1]
		return free[len(free)-1], nil
	}
	for d.tried < maxDatabases {
		d.tried++
		var taken bool
		err := d.holder.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1, $2)", lockSpace, d.tried).Scan(&taken)
		if taken || err != nil {
			return d.tried, err
		}
	}
	return 0, fmt.Errorf("all %d are in use", maxDatabases)
}

// release ends a test's use of a database.
func (d *databases) release(number int, filled bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free[filled] = append(d.free[filled], number)
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
