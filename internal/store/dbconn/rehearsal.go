package dbconn

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"
)

// A rehearsal works on one connection in one open transaction that is never committed. What
// the store sends as BEGIN, COMMIT and ROLLBACK is a savepoint of that transaction, and so is,
// on PostgreSQL, each statement outside a transaction: its failure must not abort the rest.

var (
	// ErrRehearsalOver means that the transaction of a rehearsal has ended.
	ErrRehearsalOver = errors.New("the transaction of the rehearsal is over")
	// ErrWriterNeeded means that a rehearsal would have kept others from writing to the SQLite
	// file for too long, or has not got its only writer in time.
	ErrWriterNeeded = errors.New("others need the writer of the database file")
)

const (
	// rehearsalIdle is how long the server waits for the next statement. A process that is
	// frozen holds its locks for no longer.
	rehearsalIdle = 2 * time.Second
	// maxRehearsal bounds a rehearsal whose context has no deadline.
	maxRehearsal = 5 * time.Second
	// writerWait is how long a rehearsal waits for SQLite's writer.
	writerWait = 250 * time.Millisecond
)

// RehearsalOptions say how to rehearse.
type RehearsalOptions struct {
	// Hold is how long SQLite's writer may be held. When it has passed, the transaction ends
	// with [ErrWriterNeeded]. 0: not limited.
	Hold time.Duration
	// Copy rehearses on a database in memory with the schema of a SQLite file, and no row but
	// those of personal_schema.
	Copy bool
}

// Rehearsal is the transaction of a rehearsal. It ends when its pools are closed, at the
// deadline of the context that it was opened with, or when its connection fails.
type Rehearsal struct {
	rehearsed

	mu     sync.Mutex // held while a statement runs
	over   error      // nil while the transaction is open
	timers []*time.Timer

	pending string // what is sent with the next statement
	given   bool   // the pool has the connection
}

// rehearsed is a connection in a transaction.
type rehearsed interface {
	// exec and query run a statement after others, which have no arguments.
	exec(ctx context.Context, before, statement string, args []driver.NamedValue) (driver.Result, error)
	query(ctx context.Context, before, statement string, args []driver.NamedValue) (driver.Rows, error)
	aborts() bool         // a statement that fails aborts the transaction, if it has no savepoint
	savepoint()           // notes the limits of time that a savepoint restores
	restore()             // notes that it has
	fatal(err error) bool // the transaction cannot go on after the error
	end()                 // rolls back and closes the connection
}

// OpenRehearsal opens pools of one connection in one open transaction, which is rolled back
// in any case. The context limits the rehearsal as a whole.
func OpenRehearsal(ctx context.Context, database string, o RehearsalOptions, wraps ...Wrap) (Pools, error) {
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(maxRehearsal)
	}
	r := &Rehearsal{}
	kind, err := r.connect(ctx, database, until, o)
	if err != nil {
		return Pools{}, err
	}
	r.after(time.Until(until), context.DeadlineExceeded)
	if kind == SQLite && o.Hold > 0 && !o.Copy {
		r.after(o.Hold, ErrWriterNeeded)
	}
	var connector driver.Connector = r
	for _, wrap := range wraps {
		connector = wrap(connector)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1)
	return Pools{Kind: kind, Write: db, Read: db, Rehearsal: r}, nil
}

func (r *Rehearsal) connect(ctx context.Context, database string, until time.Time, o RehearsalOptions) (kind Kind, err error) {
	scheme, rest, _ := strings.Cut(database, "://")
	if scheme == "sqlite" {
		r.rehearsed, err = rehearseSQLite(ctx, rest, o.Copy)
		return SQLite, err
	}
	servers, err := parsePostgres(database)
	if err != nil {
		return "", err
	}
	r.rehearsed, err = rehearsePostgres(ctx, servers, until)
	return PostgreSQL, err
}

func (r *Rehearsal) after(d time.Duration, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timers = append(r.timers, time.AfterFunc(d, func() { r.End(cause) }))
}

// Over returns why the transaction has ended, which wraps [ErrRehearsalOver]; nil while it is
// open.
func (r *Rehearsal) Over() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// End rolls the transaction back and closes the connection. It waits for a running statement.
func (r *Rehearsal) End(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(cause)
}

func (r *Rehearsal) endLocked(cause error) {
	if r.over != nil {
		return
	}
	r.over = ErrRehearsalOver
	if cause != nil {
		r.over = fmt.Errorf("%w: %w", ErrRehearsalOver, cause)
	}
	for _, t := range r.timers {
		t.Stop()
	}
	r.end()
}

// Driver implements [driver.Connector].
func (r *Rehearsal) Driver() driver.Driver { return pgdriver.NewDriver() }

// Connect implements [driver.Connector]. There is no second connection: it would not be in the
// transaction.
func (r *Rehearsal) Connect(context.Context) (driver.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return nil, r.over
	}
	if r.given {
		return nil, ErrRehearsalOver
	}
	r.given = true
	return &rehearsalConn{r: r}, nil
}

// rehearsalConn is the connection as the pool sees it.
type rehearsalConn struct {
	r    *Rehearsal
	inTx bool
}

const (
	setSavepoint = "SAVEPOINT rehearsal; "
	release      = "RELEASE SAVEPOINT rehearsal; "
	undo         = "ROLLBACK TO SAVEPOINT rehearsal; " + release
)

// IsValid implements [driver.Validator].
func (c *rehearsalConn) IsValid() bool { return c.r.Over() == nil }

// ResetSession implements [driver.SessionResetter]. Without it, the pool would close the
// connection after a transaction whose context was cancelled.
func (c *rehearsalConn) ResetSession(context.Context) error {
	if c.r.Over() != nil {
		return driver.ErrBadConn
	}
	return nil
}

// Close implements [driver.Conn].
func (c *rehearsalConn) Close() error {
	c.r.End(nil)
	return nil
}

// Begin implements [driver.Conn].
func (c *rehearsalConn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx implements [driver.ConnBeginTx]. The savepoint is sent with the first statement.
func (c *rehearsalConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o != (driver.TxOptions{}) {
		return nil, errors.New("begin a transaction: no options are supported")
	}
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if err := errors.Join(c.r.over, ctx.Err()); err != nil {
		return nil, err
	}
	c.r.pending += setSavepoint
	c.r.savepoint()
	c.inTx = true
	return rehearsalTx{c}, nil
}

// rehearsalTx ends a savepoint with the next statement.
type rehearsalTx struct{ c *rehearsalConn }

func (t rehearsalTx) Commit() error { return t.end(release) }

func (t rehearsalTx) Rollback() error { return t.end(undo) }

func (t rehearsalTx) end(command string) error {
	r := t.c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	t.c.inTx = false
	if r.over != nil {
		return r.over
	}
	if before, unused := strings.CutSuffix(r.pending, setSavepoint); unused {
		r.pending = before
		return nil
	}
	r.pending += command
	if command == undo {
		r.restore()
	}
	return nil
}

// ExecContext implements [driver.ExecerContext].
func (c *rehearsalConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, err error) {
	err = c.run(ctx, func(before string) error {
		result, err = c.r.exec(ctx, before, query, args)
		return err
	})
	return result, err
}

// QueryContext implements [driver.QueryerContext]. It reads all rows, so that an error of the
// statement is known before the next one.
func (c *rehearsalConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (all driver.Rows, err error) {
	err = c.run(ctx, func(before string) error {
		rows, err := c.r.query(ctx, before, query, args)
		if err == nil {
			all, err = readAll(rows)
		}
		return err
	})
	return all, err
}

// run runs a statement after what is pending.
func (c *rehearsalConn) run(ctx context.Context, statement func(before string) error) error {
	r := c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := errors.Join(r.over, ctx.Err()); err != nil {
		return err
	}
	pending, saved := r.pending, !c.inTx && r.aborts()
	before := pending
	if saved {
		before += setSavepoint
		r.savepoint()
	}
	r.pending = ""
	err := statement(before)
	switch {
	case errors.Is(err, errNotSent):
		r.pending = pending
	case err != nil && r.fatal(err):
		r.endLocked(err)
	case !saved: // in a transaction, its rollback follows an error
	case err != nil:
		r.pending = undo
		r.restore()
	default:
		r.pending = release
	}
	return err
}

// PrepareContext implements [driver.ConnPrepareContext].
func (c *rehearsalConn) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	return rehearsalStmt{c, query}, nil
}

// Prepare implements [driver.Conn].
func (c *rehearsalConn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// rehearsalStmt is a statement that is not prepared: on PostgreSQL a rehearsal runs few statements
// twice, on SQLite its connection keeps them parsed.
type rehearsalStmt struct {
	c     *rehearsalConn
	query string
}

func (s rehearsalStmt) Close() error  { return nil }
func (s rehearsalStmt) NumInput() int { return -1 }

func (s rehearsalStmt) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }
func (s rehearsalStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, driver.ErrSkip }

func (s rehearsalStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.c.ExecContext(ctx, s.query, args)
}

func (s rehearsalStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.QueryContext(ctx, s.query, args)
}

// readRows are rows that were read.
type readRows struct {
	columns []string
	rows    [][]driver.Value
}

func readAll(rows driver.Rows) (*readRows, error) {
	all := &readRows{columns: append([]string{}, rows.Columns()...)}
	for {
		row := make([]driver.Value, len(all.columns))
		if err := rows.Next(row); err != nil {
			if err == io.EOF { //nolint:errorlint // the contract of driver.Rows
				err = nil
			}
			return all, errors.Join(err, rows.Close())
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok {
				row[i] = bytes.Clone(b)
			}
		}
		all.rows = append(all.rows, row)
	}
}

func (r *readRows) Columns() []string { return r.columns }
func (r *readRows) Close() error      { return nil }

func (r *readRows) Next(into []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(into, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}
