package dbconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// errNotSent means that too little time was left to send a statement.
var errNotSent = errors.New("the statement was not sent")

// postgresRehearsal is a transaction on PostgreSQL. Savepoints come in the same message as the
// statement after them, so that they need no round trip.
type postgresRehearsal struct {
	*conn
	until time.Time
	set   *level // the limits in force
	saved *level // those at the savepoint
}

func rehearsePostgres(ctx context.Context, s servers, until time.Time) (*postgresRehearsal, error) {
	for _, host := range s.hosts {
		host.ReadTimeout, host.WriteTimeout = RequestLimits.Read, writeTimeout
	}
	made, err := (&connector{servers: s, limits: RequestLimits, levels: RequestLimits.levels()}).Connect(ctx)
	if err != nil {
		return nil, err
	}
	p := &postgresRehearsal{conn: made.(*conn), until: until}
	p.conn.used = true
	set, ctx, err := p.connector.limit(ctx)
	if err == nil {
		// Up to PostgreSQL 16, only the limits of idle time and of each statement end the
		// transaction of a process that is frozen.
		_, err = p.Conn.ExecContext(ctx, fmt.Sprintf("%s; SET LOCAL idle_in_transaction_session_timeout = %d; "+
			"SELECT set_config('transaction_timeout', '%d', TRUE) WHERE current_setting('server_version_num')::int >= 170000",
			set.begin, rehearsalIdle.Milliseconds(), (time.Until(until)+rehearsalIdle).Milliseconds()), nil)
		p.set, p.saved = set, set
	}
	if err != nil {
		_ = p.Conn.Close()
		return nil, err
	}
	return p, nil
}

func (p *postgresRehearsal) aborts() bool { return true }
func (p *postgresRehearsal) savepoint()   { p.saved = p.set }
func (p *postgresRehearsal) restore()     { p.set = p.saved }

func (p *postgresRehearsal) exec(ctx context.Context, before, statement string, args []driver.NamedValue) (driver.Result, error) {
	limits, ctx, err := p.limit(ctx)
	if err != nil {
		return nil, err
	}
	return p.Conn.ExecContext(ctx, before+limits+statement, args)
}

func (p *postgresRehearsal) query(ctx context.Context, before, statement string, args []driver.NamedValue) (driver.Rows, error) {
	limits, ctx, err := p.limit(ctx)
	if err != nil {
		return nil, err
	}
	return p.Conn.QueryContext(ctx, before+limits+statement, args)
}

// limit returns what sets the limits of the call, if they are stricter than those in force.
func (p *postgresRehearsal) limit(ctx context.Context) (string, context.Context, error) {
	if deadline, ok := ctx.Deadline(); !ok || deadline.After(p.until) {
		ctx = waiting{ctx, p.until}
	}
	set, ctx, err := p.connector.limit(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	if set.statement >= p.set.statement {
		return "", ctx, nil
	}
	p.set = set
	return fmt.Sprintf("SET LOCAL statement_timeout = %d; SET LOCAL lock_timeout = %d; ", set.statement.Milliseconds(),
		set.lock.Milliseconds()), ctx, nil
}

// fatal reports all errors but those of the statement itself. Others must not be taken for the
// version's: a wait for the lock of a migration, for example, that has ended.
func (p *postgresRehearsal) fatal(err error) bool {
	var reported pgdriver.Error
	if !errors.As(err, &reported) || reported.Field('V') != "ERROR" || !p.Conn.IsValid() {
		return true
	}
	state := reported.Field('C')
	if state == "25P02" { // the version went on after an error: its savepoint is rolled back
		return false
	}
	switch state[:min(2, len(state))] {
	case "08", "25", "40", "53", "55", "57", "58", "XX":
		return true
	}
	return false
}

func (p *postgresRehearsal) end() {
	if p.Conn.IsValid() {
		_ = p.command("ROLLBACK", checkWait) // else the server does it when the connection is closed
	}
	_ = p.Conn.Close()
}

// sqliteRehearsal is a transaction on SQLite.
type sqliteRehearsal struct {
	conn *parsingConn
}

// rehearseSQLite begins a transaction that holds the writer of the file, or one on a copy in
// memory.
func rehearseSQLite(ctx context.Context, path string, inMemory bool) (_ *sqliteRehearsal, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	name := (&url.URL{Scheme: "file", Path: path}).String() + "?_pragma=" + strings.Join(append([]string{fmt.Sprintf("busy_timeout(%d)",
		writerWait.Milliseconds())}, sqlitePragmas[1:]...), "&_pragma=")
	var schema []string
	if inMemory {
		if schema, err = liveSchema(ctx, path); err != nil {
			return nil, fmt.Errorf("read the schema of the database: %w", err)
		}
		name = ":memory:?_pragma=foreign_keys(1)&_pragma=trusted_schema(0)"
	}
	connector, err := sqlite.NewConnector(name)
	if err != nil {
		return nil, err
	}
	made, err := parsing{connector}.Connect(ctx)
	if err != nil {
		return nil, busy(err)
	}
	conn := made.(*parsingConn)
	s := &sqliteRehearsal{conn}
	// In the transaction, each rollback to a savepoint would make SQLite parse the schema again.
	for _, statement := range append(schema, "BEGIN IMMEDIATE") {
		if _, err := s.conn.ExecContext(context.WithoutCancel(ctx), statement, nil); err != nil {
			s.end()
			return nil, busy(err)
		}
	}
	// SQLite itself ends a transaction after some errors. What came after that would be
	// committed.
	conn.fullSQLite.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 { return 1 })
	return s, nil
}

// busy returns ErrWriterNeeded for the error of a file that others use.
func busy(err error) error {
	var lite *sqlite.Error
	if errors.As(err, &lite) && lite.Code()&0xff == sqlite3.SQLITE_BUSY {
		return ErrWriterNeeded
	}
	return err
}

// liveSchema returns the statements that make an empty database like that of a file.
func liveSchema(ctx context.Context, path string) (statements []string, err error) {
	db, err := openFile(path, "_pragma=query_only(1)", func(c driver.Connector) *sql.DB { return sql.OpenDB(c) })
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, `SELECT sql FROM (
			SELECT sql, type <> 'table' AS place, rowid AS number FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name LIKE 'personal!_%' ESCAPE '!'
			UNION ALL SELECT format('INSERT INTO personal_schema (version, min_compatible, applied_at) VALUES (%d, %d, %d)',
				version, min_compatible, applied_at), 2, version FROM personal_schema)
		ORDER BY place, number`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var statement string
		if err := rows.Scan(&statement); err != nil {
			return nil, err
		}
		statements = append(statements, statement)
	}
	return statements, rows.Err()
}

func (s *sqliteRehearsal) aborts() bool { return false }
func (s *sqliteRehearsal) savepoint()   {}
func (s *sqliteRehearsal) restore()     {}

// exec does not pass the end of ctx on: SQLite rolls the whole transaction back when it
// interrupts a statement that writes. The statements are short.
func (s *sqliteRehearsal) exec(ctx context.Context, before, statement string, args []driver.NamedValue) (driver.Result, error) {
	ctx = context.WithoutCancel(ctx)
	if err := s.run(ctx, before); err != nil {
		return nil, err
	}
	return s.conn.ExecContext(ctx, statement, args)
}

func (s *sqliteRehearsal) query(ctx context.Context, before, statement string, args []driver.NamedValue) (driver.Rows, error) {
	ctx = context.WithoutCancel(ctx)
	if err := s.run(ctx, before); err != nil {
		return nil, err
	}
	return s.conn.QueryContext(ctx, statement, args)
}

func (s *sqliteRehearsal) run(ctx context.Context, statements string) error {
	if statements == "" {
		return nil
	}
	_, err := s.conn.ExecContext(ctx, statements, nil)
	return err
}

// fatal reports the errors after which SQLite may have rolled the whole transaction back.
func (s *sqliteRehearsal) fatal(err error) bool {
	var lite *sqlite.Error
	if !errors.As(err, &lite) {
		return true
	}
	code := lite.Code() & 0xff
	return code != sqlite3.SQLITE_ERROR && code != sqlite3.SQLITE_CONSTRAINT && code != sqlite3.SQLITE_MISMATCH && code != sqlite3.SQLITE_RANGE
}

func (s *sqliteRehearsal) end() {
	_, _ = s.conn.ExecContext(context.Background(), "ROLLBACK", nil) // fails if SQLite has done so
	_ = s.conn.Close()
}
