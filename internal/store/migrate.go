package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"path"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/store/dbconn"
)

const (
	// SchemaTarget is the schema version that Migrate brings a database to.
	SchemaTarget = 18
	// SchemaMinimum is the oldest schema, besides an empty database, that Migrate
	// can start from: that of the first release. Lower numbers were development versions.
	SchemaMinimum = 15
	// schemaCompatible is the lowest SchemaTarget of a program that can work on
	// this schema. Migrations only add to the schema, so it rises seldom.
	schemaCompatible = 15

	migrationPoll = 100 * time.Millisecond
	// migrationLock is how long a migration waits for a lock on PostgreSQL. Until then
	// all requests that read the table wait behind it.
	migrationLock = 300 * time.Millisecond
	// migrationPatience is how long a step tries again to get its locks.
	migrationPatience = 30 * time.Second
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
		return fmt.Sprintf("the database has schema version %d, of a development version before 0.2.0, which releases do not read: use a new database; "+
			"to keep the accounts, write them with `personal export` of that version and read them with `personal import` of this one", e.Found)
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

// Migrate brings the schema to SchemaTarget, each step in its own transaction. If others
// keep a step from getting its locks, the error names their processes.
// Several nodes may call it at once. It accepts a newer schema that this program
// can work on; other schemas are a *SchemaError.
func (s *Store) Migrate(ctx context.Context) error { return s.MigrateSteps(ctx, 0) }

// MigrateSteps is Migrate while a site is served: a step that takes longer than the limit is undone, and
// the error is a [*dbconn.SetupError]. 0 is no limit.
func (s *Store) MigrateSteps(ctx context.Context, limit time.Duration) error {
	if err := s.checkWritable(ctx); err != nil {
		return err
	}
	// Read first: a node that only runs needs no permission to create tables.
	found, minCompatible, err := s.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if done, err := schemaDone(found, minCompatible); done || err != nil {
		return err
	}
	// On its own connection, because a step may take longer than a request.
	limits := dbconn.MigrationLimits
	limits.Lock = migrationLock
	if limit > 0 {
		limits.Statement = limit // the server does not notice that a context has ended
	}
	pools, err := dbconn.Open(s.url, limits)
	if err != nil {
		return err
	}
	defer func() { _ = pools.Close() }()
	for done := false; !done; {
		done, err = s.step(ctx, s.db(pools.Write), limit)
		var locked *lockedError
		if errors.As(err, &locked) {
			return fmt.Errorf("migrate the database: %w: %w", accounts.ErrUnavailable, locked)
		}
		if err != nil {
			return wrap(ctx, "migrate the database", err)
		}
	}
	return nil
}

// checkWritable returns a [*dbconn.SetupError] if the role's transactions are read-only.
func (s *Store) checkWritable(ctx context.Context) error {
	if s.refuses == "" {
		return nil
	}
	refuses := false
	err := s.scan(ctx, "read the settings of the database", s.write.NewRaw(s.refuses), &refuses)
	if err == nil && refuses {
		err = &dbconn.SetupError{
			Problem: "the role of the database URL may only read: run ALTER ROLE … RESET default_transaction_read_only " +
				"(or ALTER DATABASE …, or ALTER ROLE … IN DATABASE …, where it is set)",
			Err: errors.New("default_transaction_read_only is on"),
		}
	}
	return err
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
// would end a wait in the server. While others hold locks of tables, it tries again for
// migrationPatience, or as long as ctx allows. The limit is that of one attempt.
func (s *Store) step(ctx context.Context, db *bun.DB, limit time.Duration) (done bool, err error) {
	var giveUp time.Time
	var blockers []blocker
	defer func() {
		// The deadline has ended a further attempt, or left it too little time to send a statement.
		if err != nil && !giveUp.IsZero() && errors.Is(withContext(ctx, err), context.DeadlineExceeded) {
			err = &lockedError{blockers}
		}
	}()
	for {
		locked := false
		err = db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) (err error) {
			if err := tx.NewRaw(s.migrating).Scan(ctx, &locked); err != nil || !locked {
				return err
			}
			found, err := s.watchBlockers(ctx, tx, func() (err error) {
				done, err = s.migrateNext(ctx, tx, limit)
				return err
			})
			if len(found) > 0 {
				blockers = found
			}
			return err
		})
		pause := migrationPoll
		switch {
		case err == nil && locked:
			return done, nil
		case err == nil:
		case !lostLock(err):
			return false, err
		case giveUp.IsZero():
			giveUp = time.Now().Add(migrationPatience)
			if deadline, ok := ctx.Deadline(); ok && deadline.Before(giveUp) {
				giveUp = deadline
			}
			fallthrough
		default:
			// Readers that have waited behind this attempt get their turn.
			pause = migrationLock + rand.N(migrationLock)
			if time.Now().Add(pause + migrationLock).After(giveUp) {
				return false, &lockedError{blockers}
			}
			s.log.InfoContext(ctx, "the migration waits for locks", slog.Any("blocked_by", blockers))
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// lockedError says that others hold locks that a migration needs.
type lockedError struct{ blockers []blocker }

// Error names the processes that hold the locks, and says what to do.
func (e *lockedError) Error() string {
	who := "another transaction"
	if len(e.blockers) > 0 {
		who = fmt.Sprint("server process ", e.blockers[0])
		for _, b := range e.blockers[1:] {
			who += fmt.Sprint(", ", b)
		}
	}
	return fmt.Sprintf("the migration got no lock on a table; blocked by %s: wait until that ends (a backup, for example), "+
		"or end it with SELECT pg_terminate_backend(PID) (a prepared transaction with ROLLBACK PREPARED), then repeat the start or the swap", who)
}

// blocker is a process of the PostgreSQL server that holds a lock.
type blocker struct {
	PID     int
	Name    string // of the application, as it calls itself
	Seconds int    // since its transaction began; 0: unknown
}

// String returns the process id and what is known about the process.
func (b blocker) String() string {
	if b.PID == 0 {
		return "0 (a prepared transaction, see pg_prepared_xacts)"
	}
	return fmt.Sprintf("%d (application %q, in a transaction for %d s)", b.PID, b.Name, b.Seconds)
}

// watchBlockers runs f in a transaction and returns the processes that the transaction has
// waited for.
func (s *Store) watchBlockers(ctx context.Context, tx bun.Tx, f func() error) (found []blocker, err error) {
	if s.blocking == "" {
		return nil, f()
	}
	var pid int
	if err := tx.NewRaw("SELECT pg_backend_pid()").Scan(ctx, &pid); err != nil {
		return nil, err
	}
	watched, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-watched.Done():
				return
			case <-time.After(migrationLock / 3):
			}
			var now []blocker
			// Who blocks is only for the message.
			if err := s.scan(watched, "look for locks", s.read.NewRaw(s.blocking, pid), &now); err == nil && len(now) > 0 {
				found = now
			}
		}
	})
	err = f()
	stop()
	watching.Wait()
	return found, err
}

func (s *Store) migrateNext(ctx context.Context, tx bun.Tx, limit time.Duration) (done bool, err error) {
	found, minCompatible, err := s.schemaVersion(ctx, tx)
	if err != nil {
		return false, err
	}
	if done, err := schemaDone(found, minCompatible); done || err != nil {
		return done, err
	}
	next := max(found+1, SchemaMinimum)
	statements, err := s.migration(next)
	if err != nil {
		return false, err
	}
	short, cancel, began := ctx, func() {}, time.Now()
	if limit > 0 {
		short, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	// Not through bun, which would look for placeholders in the text.
	if _, err := tx.Tx.ExecContext(short, statements); err != nil {
		if limit > 0 && ctx.Err() == nil && (time.Since(began) >= limit || stateOf(err) == "57014") {
			return false, &dbconn.SetupError{
				Problem: "run `personal migrate` in a quiet hour, with the binary of the new version, and then swap",
				Err:     fmt.Errorf("the migration to schema %d takes longer than %v, in which users may have to wait", next, limit),
			}
		}
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
