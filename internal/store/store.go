// Package store keeps accounts, sessions, mailed tokens, counted attempts and
// jobs in PostgreSQL or SQLite. There is one set of queries for both; dialect.go
// holds all that differs.
//
// Transactions run at READ COMMITTED on PostgreSQL. What one reads and then
// writes by is therefore either locked first, always the account's row before
// its sessions and tokens, or a condition of the writing statement itself.
package store

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store/dbconn"
)

// operationTimeout bounds each method, whatever its context allows.
const operationTimeout = 10 * time.Second

// Options are settings of a store. The zero value is good.
type Options struct {
	Clock func() time.Time // in tests, instead of the database's
	Log   *slog.Logger     // nil: slog's default
}

// Store is a database. It is safe for concurrent use.
type Store struct {
	dialect
	url         string // for the connection that migrates
	pools       dbconn.Pools
	write, read *bun.DB
	log         *slog.Logger
	clock       func() time.Time              // of this machine, or of a test
	fixed       bool                          // clock is the database's by definition
	offset      atomic.Pointer[time.Duration] // of the database's clock from ours
	auditPruned atomic.Int64                  // up to which entry accounts were looked at, see pruneAccounts
	lastYield   atomic.Int64                  // when an import last left the write lock to others, in ms since 1970
}

var (
	_ accounts.Store = (*Store)(nil)
	_ outbox.Store   = (*Store)(nil)
)

// Open connects to the database of a URL, see dbconn, and measures how far its
// clock is from ours. It changes nothing in it; an SQLite file is created. A URL
// that is no good gives *URLError.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	pools, err := dbconn.Open(url, dbconn.RequestLimits)
	if err != nil {
		return nil, err
	}
	d := dialectOf(pools.Kind)
	s := &Store{
		dialect: d, url: url, pools: pools, write: d.db(pools.Write), read: d.db(pools.Read),
		log: o.Log, clock: o.Clock, fixed: o.Clock != nil || d.readClock == "",
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.clock == nil {
		s.clock = time.Now
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
		return fault(ctx, "open the database", err)
	}
	return s.SyncClock(ctx)
}

// Close closes all connections.
func (s *Store) Close() error {
	if err := s.pools.Close(); err != nil {
		return fmt.Errorf("close the database: %w", err)
	}
	return nil
}

// Health reads a row, as a request would.
func (s *Store) Health(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	var version int
	err := s.read.NewRaw("SELECT max(version) FROM personal_schema").Scan(ctx, &version)
	return fault(ctx, "check the database", err)
}

// inTx runs f in one transaction, which an error rolls back.
func (s *Store) inTx(ctx context.Context, doing string, f func(context.Context, bun.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	return fault(ctx, doing, s.write.RunInTx(ctx, nil, f))
}

// exec runs one statement and returns how many rows it changed.
func exec(ctx context.Context, db bun.IDB, query string, args ...any) (int64, error) {
	result, err := db.NewRaw(query, args...).Exec(ctx)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// execOne runs one statement and returns otherwise if it changed no row.
func execOne(ctx context.Context, db bun.IDB, otherwise error, query string, args ...any) error {
	n, err := exec(ctx, db, query, args...)
	if err == nil && n == 0 {
		return otherwise
	}
	return err
}
