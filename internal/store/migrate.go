package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/store/dbconn"
)

const (
	// SchemaTarget is the schema version that Migrate brings a database to.
	SchemaTarget = 8
	// SchemaMinimum is the oldest schema, besides an empty database, that Migrate
	// can start from.
	SchemaMinimum = 1
	// schemaCompatible is the lowest SchemaTarget of a program that can work on
	// this schema. Migrations only add to the schema, so it rises seldom.
	schemaCompatible = 1

	migrationPoll = 100 * time.Millisecond
)

//go:embed migrations
var migrations embed.FS

// SchemaError means that this program cannot work on a database's schema.
type SchemaError struct {
	Found         int // the database's version
	MinCompatible int // the lowest SchemaTarget of a program that can work on it
}

// Error names the versions and says what to do.
func (e *SchemaError) Error() string {
	if e.Found < SchemaMinimum {
		return fmt.Sprintf("the database has schema version %d, and this program migrates from version %d or later: "+
			"run a version in between first", e.Found, SchemaMinimum)
	}
	return fmt.Sprintf("the database has schema version %d, which needs a program that knows version %d; this one knows %d: "+
		"run a newer version, or restore the backup made before the upgrade", e.Found, e.MinCompatible, SchemaTarget)
}

// SchemaVersion returns the version of the database's schema, 0 if it has none,
// and the lowest SchemaTarget of a program that can work on it.
func (s *Store) SchemaVersion(ctx context.Context) (found, minCompatible int, err error) {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	found, minCompatible, err = s.schemaVersion(ctx, s.read)
	return found, minCompatible, wrap(ctx, "read the schema version", err)
}

func (s *Store) schemaVersion(ctx context.Context, db bun.IDB) (found, minCompatible int, err error) {
	var exists bool
	if err := db.NewRaw(s.hasTable, "personal_schema").Scan(ctx, &exists); err != nil || !exists {
		return 0, 0, err
	}
	err = db.NewRaw("SELECT coalesce(max(version), 0), coalesce(max(min_compatible), 0) FROM personal_schema").
		Scan(ctx, &found, &minCompatible)
	return found, minCompatible, err
}

// CheckSchema is SchemaVersion for the time after a migration: compatible is the
// lowest SchemaTarget of a program that can work on the schema once Migrate is
// done. If this program can neither work on the schema nor migrate it, the error is
// a [*SchemaError].
func (s *Store) CheckSchema(ctx context.Context) (found, compatible int, err error) {
	found, compatible, err = s.SchemaVersion(ctx)
	if err != nil {
		return 0, 0, err
	}
	done, err := schemaDone(found, compatible)
	if !done {
		compatible = max(compatible, schemaCompatible)
	}
	return found, compatible, err
}

// RaiseMinCompatible makes programs whose SchemaTarget is below n refuse the database from
// now on. It does nothing if they do already, and nothing lowers it again. Several nodes
// may call it at once. The database must have schema version n or later.
func (s *Store) RaiseMinCompatible(ctx context.Context, n int) error {
	found, minCompatible, err := s.SchemaVersion(ctx)
	if err != nil || minCompatible >= n {
		return err
	}
	if n > min(found, SchemaTarget) { // this program would refuse the database
		return fmt.Errorf("raising the lowest compatible schema version to %d: the database has %d, this program knows %d", n, found, SchemaTarget)
	}
	// Readers take the highest min_compatible of all rows.
	raised, err := s.exec(ctx, "raise the lowest compatible schema version",
		"UPDATE personal_schema SET min_compatible = ? WHERE version >= ? AND min_compatible < ?", n, n, n)
	if raised > 0 {
		s.log.InfoContext(ctx, "older plugin versions refuse this database from now on", "schema_min_compatible", n)
	}
	return err
}

// Migrate brings the schema to SchemaTarget, each step in its own transaction.
// Several nodes may call it at once. It accepts a newer schema that this program
// can work on; other schemas are a *SchemaError.
func (s *Store) Migrate(ctx context.Context) error {
	// Read first: a node that only runs needs no permission to create tables.
	found, minCompatible, err := s.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if done, err := schemaDone(found, minCompatible); done || err != nil {
		return err
	}
	// On a connection of its own, because a step may take longer than a request.
	pools, err := dbconn.Open(s.url, dbconn.MigrationLimits)
	if err != nil {
		return err
	}
	defer func() { _ = pools.Close() }()
	for done := false; !done; {
		if done, err = s.step(ctx, s.db(pools.Write)); err != nil {
			return wrap(ctx, "migrate the database", err)
		}
	}
	return nil
}

// schemaDone reports whether there is nothing to migrate.
func schemaDone(found, minCompatible int) (bool, error) {
	if minCompatible > SchemaTarget || found > 0 && found < SchemaMinimum {
		return false, &SchemaError{Found: found, MinCompatible: minCompatible}
	}
	return found >= SchemaTarget, nil
}

// step waits for the migration lock, which no crash leaves behind, and runs the
// next migration under it. It polls: the time limits, which are meant for work,
// would end a wait in the server.
func (s *Store) step(ctx context.Context, db *bun.DB) (done bool, err error) {
	for {
		locked := false
		err = db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) (err error) {
			if err := tx.NewRaw(s.migrating).Scan(ctx, &locked); err != nil || !locked {
				return err
			}
			done, err = s.migrateNext(ctx, tx)
			return err
		})
		if err != nil || locked {
			return done, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(migrationPoll):
		}
	}
}

func (s *Store) migrateNext(ctx context.Context, tx bun.Tx) (done bool, err error) {
	found, minCompatible, err := s.schemaVersion(ctx, tx)
	if err != nil {
		return false, err
	}
	if done, err := schemaDone(found, minCompatible); done || err != nil {
		return done, err
	}
	next := found + 1
	statements, err := s.migration(next)
	if err != nil {
		return false, err
	}
	// Not through bun, which would look for placeholders in the text.
	if _, err := tx.Tx.ExecContext(ctx, statements); err != nil {
		return false, err
	}
	_, err = exec(ctx, tx, "INSERT INTO personal_schema (version, min_compatible, applied_at) VALUES (?, ?, ?)",
		next, min(next, schemaCompatible), at(s.Now()))
	if err == nil {
		s.log.InfoContext(ctx, "migrated the database", "schema", next)
	}
	return false, err
}

// migration returns the statements that lead to a version.
func (s *Store) migration(version int) (string, error) {
	names, err := fs.Glob(migrations, path.Join(s.migrations, fmt.Sprintf("%04d_*.sql", version)))
	if err != nil || len(names) != 1 {
		return "", fmt.Errorf("migration %d: %d files, want one", version, len(names))
	}
	text, err := migrations.ReadFile(names[0])
	return string(text), err
}
