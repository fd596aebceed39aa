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

	"github.com/cms-personal/personal/internal/store/dbconn"
)

// PostgresVariable names the environment variable with the URL of a server to
// test on. Its user must be allowed to create databases.
const PostgresVariable = "PERSONAL_TEST_POSTGRES"

const adminTimeout = 30 * time.Second

// Databases runs f as a subtest on a new, empty database of every kind.
func Databases(t *testing.T, f func(t *testing.T, url string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { f(t, SQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { f(t, Postgres(t)) })
}

// SQLite returns the URL of a new database file that goes with the test.
func SQLite(t testing.TB) string {
	t.Helper()
	return "sqlite://" + filepath.Join(t.TempDir(), "personal.db")
}

// Postgres returns the URL of a new, empty PostgreSQL database, dropped when
// the test ends. The server is the one that PostgresVariable names, or one that
// the test binary starts for itself at the first call. Where there is neither,
// the test fails: it is never skipped.
func Postgres(t testing.TB) string {
	t.Helper()
	server, err := testServer()
	if err != nil {
		t.Fatalf("a PostgreSQL server to test on: %v", err)
	}
	name := "personal_test_" + strings.ToLower(rand.Text())
	if err := administer(server, "CREATE DATABASE "+name); err != nil {
		t.Fatalf("create a test database: %v", err)
	}
	t.Cleanup(func() {
		if err := administer(server, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop the test database: %v", err)
		}
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("the URL in " + PostgresVariable + " cannot be read")
	}
	u.Path = "/" + name
	return u.String()
}

// testServer is the URL of the server shared by all tests of the binary. A
// server started here ends with the process, see StartPostgres.
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
	limits := dbconn.RequestLimits
	limits.Read = adminTimeout
	pools, err := dbconn.Open(server, limits)
	if err != nil {
		return err
	}
	return errors.Join(f(pools.Write), pools.Close())
}

// waitUntilUp waits for the server to answer.
func waitUntilUp(ctx context.Context, server string, ended <-chan struct{}) error {
	return onServer(server, func(db *sql.DB) error {
		for {
			err := db.PingContext(ctx)
			if err == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("it does not answer: %w", err)
			case <-ended:
				return errors.New("it ended at once")
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}
