package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/cms-personal/personal/bench/harness"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
)

// prefix begins the names of the databases. It changes with the schema. Raise c1 when
// the generated data changes. Databases with another prefix are removed.
var prefix = fmt.Sprintf("growth_s%d_c1_", store.SchemaTarget)

// keeper keeps the databases of one system between runs. A database gets its name when
// it is complete.
type keeper struct {
	kind   dbconn.Kind
	folder string                  // of SQLite
	server *testkit.PostgresServer // else nil
}

// openKeeper opens the databases of one system: it starts PostgreSQL and removes outdated
// and incomplete databases.
func openKeeper(ctx context.Context, data string, kind dbconn.Kind) (*keeper, error) {
	k := &keeper{kind: kind, folder: filepath.Join(data, string(kind))}
	if kind == dbconn.PostgreSQL {
		if err := os.MkdirAll(data, 0o755); err != nil { // its parent, which the server's user must be able to enter
			return nil, err
		}
		var err error
		if k.server, err = testkit.StartKeptPostgres(ctx, k.folder); err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(k.folder, 0o700); err != nil {
		return nil, err
	}
	if err := k.clean(ctx); err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

func (k *keeper) close() {
	if k.server != nil {
		if err := k.server.Stop(); err != nil {
			harness.Progress("stop PostgreSQL: %v", err)
		}
	}
}

// clean removes outdated and incomplete databases.
func (k *keeper) clean(ctx context.Context) error {
	names, err := k.names(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && !strings.HasSuffix(name, "_new") {
			continue
		}
		harness.Progress("removing the outdated or incomplete database %s", name)
		if err := k.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// names returns the names of all databases that this program made.
func (k *keeper) names(ctx context.Context) (names []string, err error) {
	if k.kind == dbconn.SQLite {
		paths, err := filepath.Glob(filepath.Join(k.folder, "growth_*.db"))
		for _, path := range paths {
			names = append(names, strings.TrimSuffix(filepath.Base(path), ".db"))
		}
		return names, err
	}
	err = k.onServer(func(db *sql.DB) error {
		rows, err := db.QueryContext(ctx, `SELECT datname FROM pg_database WHERE datname LIKE 'growth\_%'`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			names = append(names, name)
		}
		return rows.Err()
	})
	return names, err
}

// database returns the URL of the database with the data, which it loads if it is
// missing.
func (k *keeper) database(ctx context.Context, d harness.Data) (string, error) {
	name := fmt.Sprint(prefix, d.Accounts)
	names, err := k.names(ctx)
	if err != nil {
		return "", err
	}
	for _, found := range names {
		if found == name {
			return k.url(name), nil
		}
	}
	begin := time.Now()
	harness.Progress("loading %d accounts with %d sessions each", d.Accounts, d.SessionsEach)
	if err := k.create(ctx, name+"_new"); err != nil {
		return "", err
	}
	if err := load(ctx, k.url(name+"_new"), d); err != nil {
		return "", err
	}
	if err := k.rename(ctx, name+"_new", name); err != nil {
		return "", err
	}
	harness.Progress("loaded %d accounts in %s", d.Accounts, time.Since(begin).Round(time.Second))
	return k.url(name), nil
}

func load(ctx context.Context, url string, d harness.Data) error {
	s, err := store.Open(ctx, url, store.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := errors.Join(s.Migrate(ctx), s.Close()); err != nil {
		return err
	}
	return d.Load(ctx, url)
}

func (k *keeper) path(name string) string { return filepath.Join(k.folder, name+".db") }

func (k *keeper) url(name string) string {
	if k.kind == dbconn.SQLite {
		return "sqlite://" + k.path(name)
	}
	u, err := url.Parse(k.server.URL)
	if err != nil {
		panic(err) // testkit made it
	}
	u.Path = "/" + name
	return u.String()
}

func (k *keeper) create(ctx context.Context, name string) error {
	if k.kind == dbconn.SQLite {
		return nil // the first connection creates it
	}
	return k.administer(ctx, "CREATE DATABASE "+name)
}

// rename renames a database that has no connections, and so no write-ahead log.
func (k *keeper) rename(ctx context.Context, from, to string) error {
	if k.kind == dbconn.SQLite {
		return os.Rename(k.path(from), k.path(to))
	}
	return k.administer(ctx, "ALTER DATABASE "+from+" RENAME TO "+to)
}

func (k *keeper) remove(ctx context.Context, name string) error {
	if k.kind == dbconn.PostgreSQL {
		return k.administer(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
	}
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := os.Remove(k.path(name) + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (k *keeper) administer(ctx context.Context, statement string) error {
	return k.onServer(func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, statement)
		return err
	})
}

func (k *keeper) onServer(f func(*sql.DB) error) error {
	db := sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(k.server.URL)))
	return errors.Join(f(db), db.Close())
}
