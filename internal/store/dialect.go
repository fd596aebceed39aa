package store

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/driver/pgdriver"
	"github.com/uptrace/bun/schema"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/cms-personal/personal/internal/store/dbconn"
)

// dialect is all in which the queries for the two databases differ.
type dialect struct {
	bun        func() schema.Dialect
	migrations string   // folder of the migration files
	readClock  string   // query for the time in microseconds; "": ours is the database's
	hasTable   string   // query whether a table, the one argument, exists
	migrating  string   // query that takes the migration lock if it is free
	forUpdate  bun.Safe // locks selected rows until the end of the transaction
	keep       bun.Safe // keeps selected rows from being deleted until then
	skipLocked bun.Safe // like forUpdate, but leaves out rows that others have locked
	pollsLock  bool     // processes look now and then whether they may write, and don't queue
	givenID    bun.Safe // lets an INSERT set the id that else the database gives
	nextID     bun.Safe // in an INSERT: the database gives the id
	raiseID    string   // query that makes the next id of an account at least one above the argument, given twice; "": an INSERT does so itself
	like       bun.Safe // compares with a pattern in any case, of ASCII at least
}

// The lock of a migration is one of the transaction: the server frees it when
// the node dies, and behind PgBouncer no session is needed to hold it.
var postgres = dialect{
	bun:        func() schema.Dialect { return pgdialect.New() },
	migrations: "migrations/postgres",
	readClock:  "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
	hasTable:   "SELECT to_regclass(?) IS NOT NULL",
	migrating:  "SELECT pg_try_advisory_xact_lock(7309453671206911841)",
	forUpdate:  " FOR UPDATE",
	keep:       " FOR KEY SHARE",
	skipLocked: " FOR UPDATE SKIP LOCKED",
	nextID:     "DEFAULT",
	givenID:    "OVERRIDING SYSTEM VALUE",
	raiseID: "SELECT setval(pg_get_serial_sequence('personal_accounts', 'id'), ?) " +
		"WHERE ? >= coalesce(pg_sequence_last_value(pg_get_serial_sequence('personal_accounts', 'id')::regclass), 0)",
	like: "ILIKE",
}

// On SQLite a transaction begins with the lock for writing, see dbconn, and so
// needs no other.
var sqliteDialect = dialect{
	bun:        func() schema.Dialect { return sqlitedialect.New() },
	migrations: "migrations/sqlite",
	hasTable:   "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = ?",
	migrating:  "SELECT 1",
	pollsLock:  true,
	nextID:     "NULL",
	like:       "LIKE",
}

func dialectOf(k dbconn.Kind) dialect {
	if k == dbconn.PostgreSQL {
		return postgres
	}
	return sqliteDialect
}

// isUniqueViolation reports whether err says that a unique value exists already.
func isUniqueViolation(err error) bool {
	var pg pgdriver.Error
	if errors.As(err, &pg) {
		return pg.Field('C') == "23505"
	}
	var lite *sqlite.Error
	return errors.As(err, &lite) &&
		(lite.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || lite.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}

// db puts bun on a pool. Columns that a newer schema has added are no error.
func (d dialect) db(pool *sql.DB) *bun.DB {
	return bun.NewDB(pool, d.bun(), bun.WithDiscardUnknownColumns())
}

// isUnavailable reports whether the database can't be reached or used just now,
// for a reason that is likely to pass.
func isUnavailable(err error) bool {
	var pg pgdriver.Error
	if errors.As(err, &pg) {
		return passes(pg.Field('C'))
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff { // the rest tells the particular kind
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
			return true
		}
		return false
	}
	var network *net.OpError
	return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// passes reports whether the cause of a SQLSTATE is likely to pass: connection
// and resource trouble, a server that is stopping, starting, failing over or
// read-only meanwhile, and transactions that lost to others.
func passes(state string) bool {
	switch state[:min(2, len(state))] {
	case "08", "40", "53", "57", "58":
		return true
	}
	return state == "25006" || state == "25P03" || state == "55P03"
}
