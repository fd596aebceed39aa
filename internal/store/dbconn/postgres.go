package dbconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"
)

const (
	connectTimeout = 5 * time.Second
	// hostTimeout is shorter, because the other hosts wait for it.
	hostTimeout  = 2 * time.Second
	writeTimeout = 5 * time.Second
	keepAlive    = 30 * time.Second
	// maxSilence is how long sent data may remain without acknowledgement, on systems that
	// can limit it, on connections for requests.
	maxSilence = 2 * time.Second
	// freshFor is how long after a response a connection is used without a check.
	freshFor = 250 * time.Millisecond
)

// ErrNoPrimary means that none of the servers of a URL with
// target_session_attrs=read-write accepts writes.
var ErrNoPrimary = errors.New("no server of the database URL accepts writes")

// ErrOutcomeUnknown means that COMMIT was sent, and that no response came: the
// transaction may have been committed, or may be later.
var ErrOutcomeUnknown = errors.New("the outcome of the transaction is unknown")

func openPostgres(s servers, l Limits, open func(driver.Connector) *sql.DB) *sql.DB {
	for _, host := range s.hosts {
		host.ReadTimeout, host.WriteTimeout = l.Read, writeTimeout
	}
	db := open(&connector{servers: s, limits: l, levels: l.levels()})
	size := min(4*runtime.GOMAXPROCS(0), 20)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxIdleTime(5 * time.Minute)
	db.SetConnMaxLifetime(time.Hour) // a changed address or password takes effect within it
	return db
}

// connector opens the connections of a pool.
type connector struct {
	servers
	limits      Limits
	levels      []level
	generations generations
	primary     atomic.Int32 // index of the host that accepted writes last
}

func (c *connector) Driver() driver.Driver { return pgdriver.NewDriver() }

// Connect connects to the first host that responds. If it must accept writes, the host
// that did so last is tried first, because others may be dead and cost their time-out.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	first := 0
	if c.readWrite {
		first = int(c.primary.Load())
	}
	var errs []error
	for i := range c.hosts {
		at := (first + i) % len(c.hosts)
		made, err := c.connect(ctx, c.hosts[at])
		if err == nil {
			c.primary.Store(int32(at))
			return made, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("connect to the database: %w", errors.Join(keepPassing(errs)...))
}

// sessionSettings sets what changes how values are read and written, whatever the server, the
// database or the role has set. What is set already is left alone, so that nothing changes behind
// PgBouncer in transaction mode. It also returns the encoding of the database. Limits of time and the isolation of transactions are set with each, see levels. What
// remains is that of the role: search_path finds the tables, and default_transaction_read_only and
// synchronous_commit are decisions of the operator.
const sessionSettings = `SELECT current_setting('server_encoding'), count(set_config(name, value, false)) FROM (VALUES ('bytea_output', 'hex'), ('DateStyle', 'ISO, MDY'),
	('IntervalStyle', 'postgres'), ('TimeZone', 'UTC'), ('extra_float_digits', '1'), ('transform_null_equals', 'off'),
	('default_transaction_isolation', 'read committed')) AS wanted (name, value)
	WHERE current_setting(name) <> value AND NOT (name = 'DateStyle' AND current_setting(name) LIKE 'ISO%')`

// startupParameters is what pgdriver demands of a connection, in the form of its startup message, which ends each
// text with a zero byte. PgBouncer accepts these parameters there, and keeps them for the client.
const startupParameters = "\x00client_encoding\x00UTF8\x00standard_conforming_strings\x00on"

// connect connects like pgdriver's connector, but closes the socket if TLS or the
// log-in fails.
func (c *connector) connect(ctx context.Context, host *pgdriver.Config) (_ *conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, host.DialTimeout)
	defer cancel()
	below := &socket{generations: &c.generations, generation: c.generations.Load()}
	defer func() {
		if err != nil && below.Conn != nil {
			_ = below.Close()
		}
	}()
	config := *host
	config.Database += startupParameters // pgdriver uses it in that message only
	config.Dialer = func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
		below.Conn, err = (&net.Dialer{KeepAlive: keepAlive}).DialContext(ctx, network, addr)
		if err == nil && c.limits.PerCall {
			err = limitSilence(below.Conn, maxSilence)
		}
		return below, err
	}
	made, err := pgdriver.NewConnector(pgdriver.WithConfig(&config)).Connect(ctx)
	if err != nil {
		return nil, setupError(err, below.heard, host.TLSConfig != nil)
	}
	n := &conn{Conn: made.(*pgdriver.Conn), connector: c, socket: below, responded: time.Now()}
	var set [2]driver.Value
	if err := n.readRow(ctx, sessionSettings, set[:]); err != nil {
		return nil, fmt.Errorf("setting the form of values: %w", err)
	}
	if err := checkEncoding(fmt.Sprint(set[0])); err != nil {
		return nil, err
	}
	if c.readWrite {
		if err := n.mustWrite(ctx); err != nil {
			return nil, err
		}
	}
	below.inUse = true
	return n, nil
}

// conn is a pgdriver connection whose statements are limited, and which is checked
// before reuse.
type conn struct {
	*pgdriver.Conn
	connector *connector
	socket    *socket
	set       *level    // the limits of the transaction; nil outside one
	responded time.Time // when the server has responded last
	used      bool      // the pool has used it
	refused   bool      // the server has reported that it cannot be used
}

// mustWrite returns ErrNoPrimary if the server accepts no writes: a standby does not,
// nor does a former primary that was told so.
func (c *conn) mustWrite(ctx context.Context) error {
	var value [1]driver.Value
	if err := c.readRow(ctx, "SHOW transaction_read_only", value[:]); err != nil {
		return err
	}
	if value[0] != "off" {
		return ErrNoPrimary
	}
	return nil
}

// readRow runs a query without limits and reads its row.
func (c *conn) readRow(ctx context.Context, query string, values []driver.Value) error {
	rows, err := c.Conn.QueryContext(ctx, query, nil)
	if err != nil {
		return err
	}
	return errors.Join(rows.Next(values), rows.Close())
}

// ExecContext implements [driver.ExecerContext].
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	query, ctx, err := c.limit(ctx, query)
	if err != nil {
		return nil, err
	}
	result, err := c.Conn.ExecContext(ctx, query, args)
	return result, c.noted(err)
}

// QueryContext implements [driver.QueryerContext]. The rows are those of the statement:
// pgdriver skips results without rows.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	query, ctx, err := c.limit(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := c.Conn.QueryContext(ctx, query, args)
	return rows, c.noted(err)
}

// limit returns the query with what sets the limits, in the same message. In a
// transaction that is needed only when less time is left than at the last time.
func (c *conn) limit(ctx context.Context, query string) (string, context.Context, error) {
	if err := c.firstUse(ctx); err != nil {
		return "", nil, err
	}
	set, ctx, err := c.connector.limit(ctx)
	switch {
	case err != nil:
		return "", nil, err
	case c.set == nil:
		query = set.single + query
	case set.statement < c.set.statement:
		c.set = set
		query = set.again + query
	}
	return query, ctx, nil
}

// noted notes what the server has responded. After some errors the connection is of no
// use: the server stops, starts or recovers (57P01 to 57P03), accepts no writes (25006),
// or is in a transaction that has failed (25P02), after which the pool would hand it out
// within that transaction.
func (c *conn) noted(err error) error {
	c.responded, c.used = time.Now(), true
	reported, ok := errors.AsType[pgdriver.Error](err)
	if !ok {
		return err
	}
	switch reported.Field('C') {
	case "25006": // after a failover all connections lead to the former primary
		c.socket.generations.end(c.socket.generation)
		c.refused = true
	case "57P01", "57P02", "57P03", "25P02":
		c.refused = true
	}
	return err
}

// BeginTx begins a transaction with the connection's limits in one round trip. It
// supports the default isolation only, which is READ COMMITTED.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o != (driver.TxOptions{}) {
		return nil, errors.New("begin a transaction: no options are supported")
	}
	if err := c.firstUse(ctx); err != nil {
		return nil, err
	}
	set, ctx, err := c.connector.limit(ctx)
	if err != nil {
		return nil, err
	}
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(commitWait)
	}
	if err := c.command(set.begin, min(beginWait, time.Until(until))); err != nil {
		_ = c.Close() // it may be inside the transaction
		return nil, err
	}
	c.set = set
	return tx{c, until}, nil
}

// command runs a command that ends within the given time, or else gives the connection up.
// Without PerCall it waits as for any other response.
func (c *conn) command(text string, within time.Duration) error {
	ctx := context.Background()
	if c.connector.limits.PerCall {
		ctx = waiting{ctx, time.Now().Add(within)}
	}
	_, err := c.Conn.ExecContext(ctx, text, nil)
	return c.noted(err)
}

// IsValid reports whether the pool may keep the connection after use.
func (c *conn) IsValid() bool { return !c.refused && c.isCurrent() && c.Conn.IsValid() }

func (c *conn) isCurrent() bool { return c.socket.generation == c.socket.generations.Load() }

// ResetSession returns driver.ErrBadConn if the connection is not to be used again: the
// server has closed it while it was idle, so that a restart of the server fails no
// request; or its generation is over; or it does not respond to a check, which those
// get that have been idle for a while.
func (c *conn) ResetSession(ctx context.Context) error {
	if !c.IsValid() || !c.socket.isQuiet() {
		return driver.ErrBadConn
	}
	if c.connector.limits.PerCall && time.Since(c.responded) > freshFor && c.command("SELECT 1", checkWait) != nil {
		return driver.ErrBadConn
	}
	return c.Conn.ResetSession(ctx)
}

// firstUse does what the pool does before each further use, unless the connection is new:
// the pool may have opened it a while ago, in the place of another one.
func (c *conn) firstUse(ctx context.Context) error {
	if c.used || time.Since(c.responded) <= freshFor {
		return nil
	}
	return c.ResetSession(ctx)
}

// tx ends a transaction. Its methods get no context.
type tx struct {
	c     *conn
	until time.Time // the call's deadline
}

// Commit returns ErrOutcomeUnknown unless the server has responded.
func (t tx) Commit() error {
	err := t.end("COMMIT", min(commitWait, max(time.Until(t.until), checkWait)))
	if err == nil {
		return nil
	}
	if reported, ok := errors.AsType[pgdriver.Error](err); ok && reported.Field('V') == "ERROR" {
		return err
	}
	// The caller may look for the outcome, on a connection that is likely to respond.
	t.c.socket.generations.end(t.c.socket.generation)
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}

// Rollback gives the connection up if the server does not respond.
func (t tx) Rollback() error { return t.end("ROLLBACK", beginWait) }

func (t tx) end(command string, within time.Duration) error {
	t.c.set = nil
	return t.c.command(command, within)
}
