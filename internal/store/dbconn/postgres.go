package dbconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"
)

const (
	defaultConnectTimeout = 5 * time.Second
	writeTimeout          = 5 * time.Second
	keepAlive             = 30 * time.Second
)

// Limits bound what a PostgreSQL connection may take. pgdriver does not notice a
// cancelled context; it applies a context's deadline, or Read if that is sooner,
// to reading an answer, and gives the connection up when it passes. So the
// server's own limits are shorter than Read: a wait for a lock then ends with an
// error on a connection that can be used again.
type Limits struct {
	Lock      time.Duration // wait for one lock, in a transaction
	Statement time.Duration // one statement, in a transaction
	Read      time.Duration // wait for an answer
}

// The limits for requests, and those for migrations.
var (
	RequestLimits   = Limits{Lock: 5 * time.Second, Statement: 8 * time.Second, Read: 10 * time.Second}
	MigrationLimits = Limits{Lock: 5 * time.Second, Statement: 5 * time.Minute, Read: 6 * time.Minute}
)

func openPostgres(c *pgdriver.Config, l Limits) *sql.DB {
	c.ReadTimeout, c.WriteTimeout = l.Read, writeTimeout
	db := sql.OpenDB(&connector{config: c, begin: l.begin()})
	size := min(4*runtime.GOMAXPROCS(0), 20)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxIdleTime(5 * time.Minute)
	db.SetConnMaxLifetime(time.Hour) // so that a changed address or password takes hold
	return db
}

// begin opens a transaction with the limits in force until its end. They are
// set with the transaction, not with the session, which behind PgBouncer in
// transaction mode belongs to others. The last one frees the locks of a node
// that was frozen, or cut off, in the middle.
func (l Limits) begin() string {
	return fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = %d; "+
		"SET LOCAL idle_in_transaction_session_timeout = %d",
		l.Lock.Milliseconds(), l.Statement.Milliseconds(), l.Read.Milliseconds())
}

// connector connects like pgdriver's, which leaves the socket open when TLS or
// the log-in fails.
type connector struct {
	config *pgdriver.Config
	begin  string
}

func (c *connector) Driver() driver.Driver { return pgdriver.NewDriver() }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.DialTimeout)
	defer cancel()
	var socket net.Conn
	config := *c.config
	config.Dialer = func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
		socket, err = (&net.Dialer{KeepAlive: keepAlive}).DialContext(ctx, network, addr)
		return socket, err
	}
	made, err := pgdriver.NewConnector(pgdriver.WithConfig(&config)).Connect(ctx)
	if err != nil {
		if socket != nil {
			_ = socket.Close()
		}
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return &conn{Conn: made.(*pgdriver.Conn), socket: socket, begin: c.begin}, nil
}

// conn is pgdriver's with limited transactions and a look at the socket before
// it is used again.
type conn struct {
	*pgdriver.Conn
	socket net.Conn
	begin  string
}

// BeginTx begins a transaction in one round trip. Only the default isolation,
// READ COMMITTED, is in use.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o != (driver.TxOptions{}) {
		return nil, errors.New("begin a transaction: no options are supported")
	}
	if _, err := c.ExecContext(ctx, c.begin, nil); err != nil {
		_ = c.Close() // it may stand inside the transaction
		return nil, err
	}
	return tx{c}, nil
}

// ResetSession refuses a connection that the server has closed while it lay
// idle, so that a restarted server costs no request.
func (c *conn) ResetSession(ctx context.Context) error {
	if !quiet(c.socket) {
		return driver.ErrBadConn
	}
	return c.Conn.ResetSession(ctx)
}

// tx ends a transaction. Its methods have no context; Limits.Read bounds them.
type tx struct{ c *conn }

func (t tx) Commit() error   { return t.end("COMMIT") }
func (t tx) Rollback() error { return t.end("ROLLBACK") }

func (t tx) end(command string) error {
	_, err := t.c.ExecContext(context.Background(), command, nil)
	return err
}
