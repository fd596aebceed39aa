package store

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/store/dbconn"
)

// index is an index that only speeds queries up: every query works without it. Indexes of
// tables that a migration has just created, and unique ones, are in that migration.
type index struct {
	name       string // an index with another definition has another name
	definition string // what follows its name in CREATE INDEX
}

// indexes are created once this version is settled, see [Store.ReconcileIndexes].
var indexes = []index{
	{"personal_jobs_account", "ON personal_jobs (account_id, kind, id)"},
	{"personal_jobs_kind", "ON personal_jobs (kind, due, id)"},
	{"personal_accounts_unverified", "ON personal_accounts (unverified_key, created) WHERE unverified_key IS NOT NULL"},
	{"personal_accounts_erase", "ON personal_accounts (erase_at) WHERE erase_at > 0"},
	{"personal_accounts_two_factor", "ON personal_accounts (two_factor_key, id) WHERE two_factor_secret IS NOT NULL"},
	// For lists of users. No sign-in changes these columns.
	{"personal_accounts_disabled", "ON personal_accounts (id) WHERE disabled"},
	{"personal_accounts_waiting", "ON personal_accounts (id) WHERE unverified_key IS NOT NULL"},
	{"personal_accounts_factors", "ON personal_accounts (id) WHERE two_factor_secret IS NOT NULL"},
	{"personal_accounts_created", "ON personal_accounts (created, id)"},
}

// On PostgreSQL a write of a session changes no index (it is HOT) if no index has a column
// that it changes, and if the page has room for another version of the row. Version 0.1.0
// then reads all sessions once a minute, to remove the expired ones.
const (
	writtenIndex  = "personal_sessions_last_seen"
	sessionsFill  = "fillfactor=80"
	sessionsTable = "personal_sessions"
)

// createIndexes creates the indexes of an empty database, which takes no time.
func createIndexes(ctx context.Context, tx bun.Tx) error {
	var used bool
	err := tx.NewRaw("SELECT EXISTS (SELECT 1 FROM personal_accounts) OR EXISTS (SELECT 1 FROM personal_jobs)").Scan(ctx, &used)
	if err != nil || used {
		return err
	}
	for _, i := range indexes {
		if _, err := exec(ctx, tx, "CREATE INDEX IF NOT EXISTS "+i.name+" "+i.definition); err != nil {
			return err
		}
	}
	return nil
}

// ReconcileIndexes creates the indexes of this version that the database lacks, removes
// those that it no longer needs, and reserves room in the pages of sessions. Call it once
// the version is settled. It may take hours, blocks no request on PostgreSQL, and is
// interrupted by ctx. It returns false if it has to be called again later, because another
// node is doing it.
//
// On SQLite it creates one index at a time, each in a transaction of its own, that writers
// wait for: up to a second for each million of rows (0.1 s if they are in memory).
func (s *Store) ReconcileIndexes(ctx context.Context) (done bool, err error) {
	if err := s.allowed(ctx, "change indexes"); err != nil {
		return false, err
	}
	if s.pools.Kind == dbconn.SQLite {
		return true, wrap(ctx, "create indexes", s.createMissing(ctx))
	}
	pools, err := dbconn.Open(s.url, dbconn.IndexLimits)
	if err != nil {
		return false, err
	}
	defer func() { _ = pools.Close() }()
	// The lock's transaction holds no snapshot between its statements, so that CREATE INDEX
	// CONCURRENTLY does not wait for it. The lock ends with the node, or before this returns:
	// the end of ctx would roll back in the background.
	holder, err := pools.Write.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return false, wrap(ctx, "change indexes", err)
	}
	defer func() { _ = holder.Rollback() }()
	var locked bool
	asking, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	if err := holder.QueryRowContext(asking, "SELECT pg_try_advisory_xact_lock(7309453671206911843)").Scan(&locked); err != nil || !locked {
		return false, wrap(ctx, "change indexes", err)
	}
	r := reconciler{Store: s, db: s.db(pools.Write)}
	done, err = r.run(ctx)
	return done, wrap(ctx, "change indexes", err)
}

func (s *Store) createMissing(ctx context.Context) error {
	for _, i := range indexes {
		var exists bool
		err := s.read.NewRaw("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = ?)", i.name).Scan(ctx, &exists)
		if err != nil {
			return err
		}
		if exists {
			continue
		}
		began := time.Now()
		if _, err := exec(ctx, s.write, "CREATE INDEX IF NOT EXISTS "+i.name+" "+i.definition); err != nil {
			return fmt.Errorf("%s: %w", i.name, err)
		}
		s.log.InfoContext(ctx, "created an index", slog.String("index", i.name), slog.Duration("took", time.Since(began)))
	}
	return nil
}

// reconciler changes the indexes of a PostgreSQL database, under the lock.
type reconciler struct {
	*Store
	db *bun.DB // without limits for statements
}

// indexState is the state of an index in the database.
type indexState struct {
	Name     string
	Valid    bool
	Building bool // by a server process that goes on, for example of a node that was killed
}

func (r reconciler) run(ctx context.Context) (done bool, err error) {
	states, err := r.states(ctx)
	if err != nil {
		return false, err
	}
	done = true
	for _, i := range indexes {
		state, exists := states[i.name]
		switch {
		case state.Valid:
			continue
		case state.Building:
			done = false
			continue
		case exists: // a build was interrupted
			if err := r.change(ctx, "removed an invalid index", i.name, "DROP INDEX CONCURRENTLY IF EXISTS "+i.name); err != nil {
				return false, err
			}
		}
		err := r.change(ctx, "created an index", i.name, "CREATE INDEX CONCURRENTLY IF NOT EXISTS "+i.name+" "+i.definition)
		if err != nil {
			return false, err
		}
	}
	if _, exists := states[writtenIndex]; exists {
		if err := r.change(ctx, "removed an index", writtenIndex, "DROP INDEX CONCURRENTLY IF EXISTS "+writtenIndex); err != nil {
			return false, err
		}
	}
	return done, r.reserve(ctx)
}

func (r reconciler) states(ctx context.Context) (map[string]indexState, error) {
	names := []string{writtenIndex}
	for _, i := range indexes {
		names = append(names, i.name)
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var rows []indexState
	err := r.db.NewRaw(`SELECT c.relname AS name, i.indisvalid AS valid,
			EXISTS (SELECT 1 FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid) AS building
		FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
		WHERE i.indexrelid IN (SELECT to_regclass(n) FROM unnest(ARRAY[?]) AS n)`, bun.List(names)).Scan(ctx, &rows)
	states := make(map[string]indexState, len(rows))
	for _, row := range rows {
		states[row.Name] = row
	}
	return states, err
}

// change runs a statement that may take hours. pgdriver does not notice that ctx ends, so
// the statement is cancelled in the server, where it is found by its text: behind PgBouncer
// nothing else names the server's process.
func (r reconciler) change(ctx context.Context, did, name, statement string) error {
	mark := fmt.Sprintf("/* %s %d */ ", name, time.Now().UnixNano())
	began := time.Now()
	ended := make(chan error, 1)
	go func() {
		_, err := r.db.ExecContext(context.WithoutCancel(ctx), mark+statement)
		ended <- err
	}()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = r.cancel(context.WithoutCancel(ctx), mark, ended)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.log.InfoContext(ctx, did, slog.String("index", name), slog.Duration("took", time.Since(began)))
	return nil
}

// cancel cancels the statement with the mark until it has ended. If the server cannot be
// reached, it gives the statement up: its end is not awaited.
func (r reconciler) cancel(ctx context.Context, mark string, ended <-chan error) error {
	const tries, pause = 20, 100 * time.Millisecond
	for range tries {
		// A transaction, for its limits.
		err := r.inTx(ctx, "cancel a change of indexes", func(ctx context.Context, tx bun.Tx) error {
			_, err := exec(ctx, tx, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE starts_with(query, ?) AND pid <> pg_backend_pid()",
				mark)
			return err
		})
		if err != nil {
			return err
		}
		select {
		case err := <-ended:
			return err
		case <-time.After(pause): // it may only begin now
		}
	}
	return context.DeadlineExceeded
}

// reserve leaves room in the pages of sessions. The lock that this takes stops neither
// readers nor writers.
func (r reconciler) reserve(ctx context.Context) error {
	var reserved bool
	err := r.db.NewRaw("SELECT coalesce(? = ANY (reloptions), FALSE) FROM pg_class WHERE oid = to_regclass(?)", sessionsFill,
		sessionsTable).Scan(ctx, &reserved)
	if err != nil || reserved {
		return err
	}
	return r.inTx(ctx, "reserve room in the pages of sessions", func(ctx context.Context, tx bun.Tx) error {
		_, err := exec(ctx, tx, "ALTER TABLE "+sessionsTable+" SET ("+sessionsFill+")")
		return err
	})
}
