package store

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store/dbconn"
)

// ErrWriterNeeded means that a rehearsal has ended because others need SQLite's only writer.
// Repeat it with [RehearsalOptions].Copy.
var ErrWriterNeeded = dbconn.ErrWriterNeeded

// maxHold is how long a rehearsal may keep others from writing to a SQLite file.
const maxHold = 200 * time.Millisecond

// RehearsalOptions are settings of a store for a rehearsal.
type RehearsalOptions struct {
	Options
	// Copy rehearses on an empty database in memory with the schema of the SQLite file.
	Copy bool
}

// Rehearsal returns a store on one open transaction of the same database, which is rolled
// back when the store is closed, at ctx's deadline, or when the connection fails. Nothing
// that is written there is seen by others or stays, but gaps in sequences. What appears as a
// transaction of the store is a savepoint. Its Clock must be set. It has no more than one
// connection: a transaction must not use the store.
//
// On SQLite others cannot write during that time. After 200 ms of that, or if it does not get the
// writer, the transaction ends with [ErrWriterNeeded].
func (s *Store) Rehearsal(ctx context.Context, o RehearsalOptions) (*Store, error) {
	pools, err := dbconn.OpenRehearsal(ctx, s.url, dbconn.RehearsalOptions{Hold: maxHold, Copy: o.Copy}, o.Wraps...)
	if err != nil {
		return nil, wrap(ctx, "begin a rehearsal", err)
	}
	return openOn(ctx, pools, s.url, o.Options)
}

// RehearsalOver returns why the transaction of a rehearsal has ended; nil while it is open.
func (s *Store) RehearsalOver() error { return s.pools.Rehearsal.Over() }

// LastJob returns the highest id of a job, 0 for none.
func (s *Store) LastJob(ctx context.Context) (id int64, err error) {
	err = s.scan(ctx, "find the last job", s.read.NewRaw("SELECT coalesce(max(id), 0) FROM personal_jobs"), &id)
	return id, err
}

// JobsAfter returns the jobs of the accounts, and those of no account, with an id above
// after, in their order. It claims none.
func (s *Store) JobsAfter(ctx context.Context, after int64, accountIDs ...int64) ([]outbox.Job, error) {
	var rows []jobRow
	query := s.read.NewSelect().Model(&rows).Where("id > ?", after).
		Where("(account_id IS NULL OR account_id IN (?))", bun.List(append(accountIDs, 0))).Order("id")
	err := s.scan(ctx, "find jobs", query)
	return convert(rows, (*jobRow).job), err
}

// TablesWith returns the tables that have rows about an account, in alphabetical order: those
// of the live schema that have a column account_id, and that of accounts.
func (s *Store) TablesWith(ctx context.Context, accountID int64) (tables []string, err error) {
	var all []string
	if err := s.scan(ctx, "find tables about accounts", s.read.NewRaw(s.tablesOf), &all); err != nil {
		return nil, err
	}
	selects := []string{"SELECT 'personal_accounts' AS name WHERE EXISTS (SELECT 1 FROM personal_accounts WHERE id = ?0)"}
	for _, name := range all {
		quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
		selects = append(selects, "SELECT '"+strings.ReplaceAll(name, "'",
			"''")+"' WHERE EXISTS (SELECT 1 FROM "+quoted+" WHERE account_id = ?0)")
	}
	err = s.scan(ctx, "find rows about an account", s.read.NewRaw(strings.Join(selects, " UNION ALL "), accountID), &tables)
	slices.Sort(tables)
	return tables, err
}
