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

// dialect holds every difference between the queries for the two databases.
type dialect struct {
	bun         func() schema.Dialect
	migrations  string   // folder of the migration files
	readClock   string   // query for the time in microseconds; "": the database uses this machine's clock
	refuses     string   // query whether a setting of the database or the role makes transactions read-only; "": there is none
	lacking     string   // query for the rights that the role lacks on the tables of a list with commas, as texts; "": there are none
	hasTable    string   // query whether the table named by the argument exists
	migrating   string   // query that takes the migration lock if it is free, and returns whether it did
	pruning     string   // query that takes the lock of Prune if it is free, and returns whether it did
	blocking    string   // query for the processes that a server process waits for; "": there are none
	forUpdate   bun.Safe // locks selected rows until the end of the transaction
	forKeyShare bun.Safe // keeps selected rows from being deleted until then
	skipLocked  bun.Safe // like forUpdate, but skips rows that others have locked
	eachKind    string   // format of what a table is cross-joined with, to run a subquery of jobs for each of its rows; its alias is due
	pollsLock   bool     // processes that wait to write poll for the lock instead of queueing
	givenID     bun.Safe // lets an INSERT set the id that the database would generate
	nextID      bun.Safe // in an INSERT: the database generates the id
	raiseID     string   // query that raises the next account id above the argument, which is given twice; "": an INSERT does so itself
	codes       bun.Safe // in a query of accounts, as a: the digests of the recovery codes in hexadecimal, without separators, as text or NULL
}

// The advisory locks belong to the transaction: the server frees them when the node
// dies, and they work behind PgBouncer, which shares sessions.
var postgres = dialect{
	bun:        func() schema.Dialect { return pgdialect.New() },
	migrations: "migrations/postgres",
	readClock:  "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
	refuses: "SELECT EXISTS (SELECT 1 FROM pg_settings WHERE name = 'default_transaction_read_only' AND setting = 'on' " +
		"AND source IN ('database', 'user', 'database user'))", // of the server: it may be a former primary
	lacking: "SELECT p.can || ' on ' || t.name FROM unnest(string_to_array(?, ',')) AS t (name), unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p (can) " +
		"WHERE has_table_privilege(to_regclass(t.name), p.can) IS NOT TRUE AND (p.can = 'SELECT' OR t.name <> 'personal_schema') ORDER BY t.name, p.can",
	hasTable:  "SELECT to_regclass(?) IS NOT NULL",
	migrating: "SELECT pg_try_advisory_xact_lock(7309453671206911841)",
	pruning:   "SELECT pg_try_advisory_xact_lock(7309453671206911842)",
	blocking: "SELECT b.pid, coalesce(a.application_name, '') AS name, coalesce(extract(epoch FROM clock_timestamp() - a.xact_start)::bigint, 0) AS seconds " +
		"FROM unnest(pg_blocking_pids(?)) AS b (pid) LEFT JOIN pg_stat_activity a ON a.pid = b.pid ORDER BY b.pid",
	forUpdate:   " FOR UPDATE",
	forKeyShare: " FOR KEY SHARE",
	skipLocked:  " FOR UPDATE SKIP LOCKED",
	nextID:      "DEFAULT",
	givenID:     "OVERRIDING SYSTEM VALUE",
	raiseID: "SELECT setval(pg_get_serial_sequence('personal_accounts', 'id'), ?) " +
		"WHERE ? >= coalesce(pg_sequence_last_value(pg_get_serial_sequence('personal_accounts', 'id')::regclass), 0)",
	codes: "(SELECT string_agg(encode(digest, 'hex'), '') FROM personal_recovery_codes WHERE account_id = a.id)",

	eachKind: "LATERAL (%s) AS due",
}

// On SQLite a transaction takes the write lock when it begins (see dbconn) and
// needs no other lock.
var sqliteDialect = dialect{
	bun:        func() schema.Dialect { return sqlitedialect.New() },
	migrations: "migrations/sqlite",
	hasTable:   "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = ?",
	migrating:  "SELECT 1",
	pruning:    "SELECT 1",
	pollsLock:  true,
	nextID:     "NULL",
	codes:      "(SELECT group_concat(hex(digest), '') FROM personal_recovery_codes WHERE account_id = a.id)",

	eachKind: "personal_jobs AS due ON due.id IN (SELECT id FROM (%s))",
}

func dialectOf(k dbconn.Kind) dialect {
	if k == dbconn.PostgreSQL {
		return postgres
	}
	return sqliteDialect
}

// isUniqueViolation reports whether a unique value exists already.
func isUniqueViolation(err error) bool {
	if pg, ok := errors.AsType[pgdriver.Error](err); ok {
		return pg.Field('C') == "23505"
	}
	lite, ok := errors.AsType[*sqlite.Error](err)
	return ok &&
		(lite.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || lite.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}

// db puts bun on a pool. It ignores columns that a newer schema has added.
func (d dialect) db(pool *sql.DB) *bun.DB {
	return bun.NewDB(pool, d.bun(), bun.WithDiscardUnknownColumns())
}

// isUnavailable reports whether the database cannot be reached or used for a
// reason that is likely to pass.
func isUnavailable(err error) bool {
	if pg, ok := errors.AsType[pgdriver.Error](err); ok {
		return isTransient(pg.Field('C'))
	}
	if lite, ok := errors.AsType[*sqlite.Error](err); ok {
		switch lite.Code() & 0xff { // the higher bits are the extended code
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
			return true
		}
		return false
	}
	_, network := errors.AsType[*net.OpError](err)
	return network || errors.Is(err, dbconn.ErrNoPrimary) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// isTimeLimit reports whether the server has ended a statement because of a limit of time
// that dbconn sets.
func isTimeLimit(err error) bool {
	state := stateOf(err)
	return state == "57014" || state == "55P03"
}

// isTransient reports whether the cause of a SQLSTATE is likely to pass: failed
// connections, exhausted resources, a server that is stopping, starting, failing
// over or read-only, and transactions that lost against others.
func isTransient(state string) bool {
	switch state[:min(2, len(state))] {
	case "08", "40", "53", "57", "58":
		return true
	}
	return state == "25006" || state == "25P03" || state == "55P03"
}
