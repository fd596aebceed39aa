// Package testdb gives tests databases that have the schema of this version: quicker than a
// migration for each test. Tests of migrations take empty ones of package testkit.
package testdb

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
)

// Databases runs f as a subtest on a new database of each system, see SQLite and Postgres.
func Databases(t *testing.T, f func(t *testing.T, url string)) {
	t.Helper()
	t.Run("SQLite", func(t *testing.T) { f(t, SQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { f(t, Postgres(t)) })
}

// Database is [testkit.Database] with the schema.
func Database(t *testing.T, f func(t *testing.T, url string)) {
	t.Helper()
	testkit.OnSystems(t, f, SQLite, Postgres)
}

// SQLite is [testkit.SQLite] with the schema.
func SQLite(t testing.TB) string {
	t.Helper()
	file, err := sqliteFile()
	if err != nil {
		t.Fatalf("migrating a database for tests: %v", err)
	}
	database := testkit.SQLite(t)
	if err := os.WriteFile(strings.TrimPrefix(database, "sqlite://"), file, 0o600); err != nil {
		t.Fatalf("copying the migrated database: %v", err)
	}
	return database
}

// Postgres is [testkit.Postgres] with the schema.
func Postgres(t testing.TB) string {
	t.Helper()
	return testkit.PostgresFrom(t, migrate)
}

// RewindablePostgres is [testkit.RewindablePostgres] with the schema.
func RewindablePostgres(t testing.TB) (url string, rewind func() error) {
	t.Helper()
	return testkit.RewindablePostgres(t, migrate)
}

// sqliteFile returns the content of a migrated database file.
var sqliteFile = sync.OnceValues(func() (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "personal-migrated-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "personal.db")
	if err := migrate((&url.URL{Scheme: "sqlite", Path: path}).String()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// migrate migrates a database. Closing it leaves one file of SQLite.
func migrate(url string) (err error) {
	ctx := context.Background()
	s, err := store.Open(ctx, url, store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.Migrate(ctx)
}
