// Package store keeps accounts, sessions, mailed tokens, counted attempts, the
// audit log and jobs in PostgreSQL or SQLite. Both databases run the same
// queries; dialect.go holds all that differs, except for the queries of sessionlookup.go.
//
// Transactions run at READ COMMITTED on PostgreSQL. A value that a transaction
// reads and then decides by is therefore locked first (the account's row always
// before its sessions and tokens) or part of the writing statement's condition.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/schema"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/token"
)

// operationTimeout bounds each statement or transaction, even if the caller's
// context allows more.
const operationTimeout = 10 * time.Second

// Options are settings of a store. The zero value is ready to use.
type Options struct {
	Clock   func() time.Time // of tests and scratch processes, instead of the database's
	Machine Machine          // in tests, the clocks of this machine; zero: the real ones
	Log     *slog.Logger     // nil: slog's default
	Wraps   []dbconn.Wrap    // in tests, to count statements

	Observer Observer // nil: none

	// Scratch counts the statements, see [Store.Work], and lets SQLite not sync.
	Scratch bool
}

// Operation is a kind of work of a store.
type Operation string

// The operations of a store.
const (
	Query        Operation = "query"         // one statement that returns rows
	Statement    Operation = "statement"     // one statement that returns none
	Transaction  Operation = "transaction"   // with all its statements
	FindSession  Operation = "find_session"  // with the wait for a batch, which there is on PostgreSQL
	WriteSession Operation = "write_session" // with the wait for a batch
)

// Observer is told how long operations take, and the sizes of batches. Its methods must be
// fast and safe for concurrent use.
type Observer interface {
	ObserveStore(o Operation, took time.Duration)
	ObserveBatch(o Operation, size int)
}

type noObserver struct{}

func (noObserver) ObserveStore(Operation, time.Duration) {}
func (noObserver) ObserveBatch(Operation, int)           {}

// Store is a database. It is safe for concurrent use.
type Store struct {
	dialect
	url         string // for the connection that migrates
	pools       dbconn.Pools
	write, read *bun.DB
	log         *slog.Logger
	observer    Observer
	clock       *clock
	resumed     atomic.Bool      // the clock was compared with the last round
	fixed       func() time.Time // instead of the clock's; nil: none
	work        *work            // of a scratch process; else nil
	lastYield   atomic.Int64     // when an import last left the write lock to others, in ms since 1970

	writes *batcher[sessionWrite, struct{}]
	finds  [2]*batcher[token.Selector, foundSession] // by account part; on PostgreSQL
}

var (
	_ accounts.Store = (*Store)(nil)
	_ outbox.Store   = (*Store)(nil)
)

// Open connects to the database of a URL (for the forms see package dbconn) and
// measures its time. It changes nothing in the database, but
// creates a missing SQLite file. An invalid URL is a [*dbconn.URLError].
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	var counted *work
	if o.Scratch {
		counted = newWork()
		o.Wraps = append(slices.Clip(o.Wraps), dbconn.Watch(counted.note))
	}
	pools, err := dbconn.Open(url, dbconn.RequestLimits, o.Wraps...)
	if err != nil {
		return nil, err
	}
	d := dialectOf(pools.Kind)
	s := &Store{
		dialect: d, url: url, pools: pools, write: d.db(pools.Write), read: d.db(pools.Read),
		log: o.Log, observer: o.Observer, fixed: o.Clock, work: counted,
	}
	if s.observer == nil {
		s.observer = noObserver{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.writes = s.newWrites()
	for part := range s.finds {
		s.finds[part] = s.newFinds(accounts.AccountPart(part))
	}
	if o.Machine.Wall == nil {
		o.Machine = thisMachine()
	}
	s.clock = &clock{machine: o.Machine, log: s.log}
	if s.readClock != "" {
		s.clock.read = s.readTime
	}
	if err := s.connect(ctx); err != nil {
		_ = pools.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	if err := s.write.PingContext(ctx); err != nil {
		return wrap(ctx, "open the database", err)
	}
	if s.work != nil {
		if _, err := s.write.ExecContext(ctx, "PRAGMA synchronous = off"); err != nil {
			return wrap(ctx, "prepare a scratch database", err)
		}
	}
	return s.SyncClock(ctx)
}

// Close waits for the batches in progress and closes all connections.
func (s *Store) Close() error {
	s.writes.close()
	for _, finds := range s.finds {
		finds.close()
	}
	if err := s.pools.Close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}

// Health reads, over the connections that requests use, which programs may work on the schema,
// and values of accounts and sessions, as requests do. The error is a [*SchemaError] if this one may
// not (any more).
func (s *Store) Health(ctx context.Context) error {
	const doing = "check the database"
	var found, minCompatible int
	err := s.scan(ctx, doing, s.read.NewRaw("SELECT max(version), max(min_compatible) FROM personal_schema"), &found, &minCompatible)
	if err == nil {
		_, err = schemaDone(found, minCompatible)
	}
	if err != nil {
		return err
	}
	var hash sql.NullString
	var selector []byte
	return s.scan(ctx, doing, s.read.NewRaw(`SELECT (SELECT password_hash FROM personal_accounts LIMIT 1),
		(SELECT selector FROM personal_sessions LIMIT 1)`), &hash, &selector)
}

// observe reports an operation that began at the given time and ends now.
func (s *Store) observe(o Operation, began time.Time) { s.observer.ObserveStore(o, time.Since(began)) }

// scan runs a query on its own and scans the result into dest, or into the
// query's model.
func (s *Store) scan(ctx context.Context, doing string, query interface {
	Scan(ctx context.Context, dest ...any) error
}, dest ...any) error {
	defer s.observe(Query, time.Now())
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	span := s.startSpan(ctx, doing)
	err := wrap(ctx, doing, query.Scan(ctx, dest...))
	endSpan(span, err)
	return err
}

// exec runs a writing statement on its own and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, doing, query string, args ...any) (int64, error) {
	defer s.observe(Statement, time.Now())
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	span := s.startSpan(ctx, doing)
	n, err := exec(ctx, s.write, query, args...)
	err = wrap(ctx, doing, err)
	endSpan(span, err)
	return n, err
}

// inTx runs f in one transaction, which an error rolls back.
func (s *Store) inTx(ctx context.Context, doing string, f func(context.Context, bun.Tx) error) error {
	defer s.observe(Transaction, time.Now())
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	span := s.startSpan(ctx, doing)
	err := wrap(ctx, doing, s.write.RunInTx(ctx, nil, f))
	endSpan(span, err)
	return err
}

// outcomeTimeout bounds the search for the outcome of a transaction.
const outcomeTimeout = 2 * time.Second

// inTxOrFound is inTx for what must not be reported as failed if it has happened. If the
// response to COMMIT is lost, it looks for an effect that this transaction alone can
// have had, on another connection, even if ctx has ended. The query returns whether the effect
// is there; it is made after f has run. If it is not there, or cannot be read, the error
// remains.
func (s *Store) inTxOrFound(
	ctx context.Context, doing string, effect func() *bun.RawQuery, f func(context.Context, bun.Tx) error,
) error {
	err := s.inTx(ctx, doing, f)
	if !errors.Is(err, dbconn.ErrOutcomeUnknown) {
		return err
	}
	looking, cancel := bounded(ctx, outcomeTimeout)
	defer cancel()
	found := false
	if failed := s.scan(looking, "look for the outcome of a transaction", effect(), &found); failed != nil || !found {
		s.log.WarnContext(ctx, "the response to COMMIT is lost; the transaction is reported as failed", "doing", doing, "looked", failed == nil)
		return err
	}
	s.log.InfoContext(ctx, "the response to COMMIT was lost; the transaction was committed", "doing", doing)
	return nil
}

// hasHash is a query whether an account has a password hash, which has its own salt.
func (s *Store) hasHash(accountID int64, hash string) *bun.RawQuery {
	return raw(s.write, "SELECT EXISTS (SELECT 1 FROM personal_accounts WHERE id = ? AND password_hash = ?)", accountID, hash)
}

// hasSession is a query whether a session with this selector exists.
func (s *Store) hasSession(selector token.Selector) func() *bun.RawQuery {
	return func() *bun.RawQuery {
		return raw(s.write, "SELECT EXISTS (SELECT 1 FROM personal_sessions WHERE selector = ?)", selector[:])
	}
}

// exec runs one statement, usually in a transaction, and returns how many rows it
// changed.
func exec(ctx context.Context, db bun.IDB, query string, args ...any) (int64, error) {
	return rowsAffected(raw(db, query, args...).Exec(ctx))
}

// execAll runs several statements of a transaction in one round trip. If one fails, the
// rest does not run.
func execAll(ctx context.Context, tx bun.Tx, statements ...schema.QueryAppender) error {
	if len(statements) == 0 {
		return nil
	}
	args := convert(statements, func(s *schema.QueryAppender) any { return *s })
	_, err := tx.NewRaw(strings.Repeat("; ?", len(args))[2:], args...).Exec(ctx)
	return err
}

// execOne runs one statement and returns otherwise if it changed no row.
func execOne(ctx context.Context, db bun.IDB, otherwise error, query string, args ...any) error {
	n, err := exec(ctx, db, query, args...)
	if err == nil && n == 0 {
		return otherwise
	}
	return err
}

func rowsAffected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// convert returns what each row stands for. It never returns nil.
func convert[R, T any](rows []R, to func(*R) T) []T {
	all := make([]T, len(rows))
	for i := range rows {
		all[i] = to(&rows[i])
	}
	return all
}
