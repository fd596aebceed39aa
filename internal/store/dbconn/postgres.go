package dbconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"
)

const (
	defaultConnectTimeout = 5 * time.Second
	writeTimeout          = 5 * time.Second
	keepAlive             = 30 * time.Second
)

// Limits bound the time that work on a PostgreSQL connection may take. pgdriver does
// not notice a cancelled context. It waits for a response until the context's
// deadline or for Read, whichever is sooner, and then gives the connection up. The
// server's limits are therefore shorter than Read: a wait for a lock ends with an
// error, and the connection remains usable.
type Limits struct {
	Lock      time.Duration // wait for one lock, in a transaction
	Statement time.Duration // one statement, in a transaction
	Read      time.Duration // wait for a response
}

// The limits for requests, and those for migrations.
var (
	RequestLimits   = Limits{Lock: 5 * time.Second, Statement: 8 * time.Second, Read: 10 * time.Second}
	MigrationLimits = Limits{Lock: 5 * time.Second, Statement: 5 * time.Minute, Read: 6 * time.Minute}
)

func openPostgres(c *pgdriver.Config, l Limits, open func(driver.Connector) *sql.DB) *sql.DB {
	c.ReadTimeout, c.WriteTimeout = l.Read, writeTimeout
	db := open(&connector{config: c, begin: l.begin()})
	size := min(4*runtime.GOMAXPROCS(0), 20)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxIdleTime(5 * time.Minute)
	db.SetConnMaxLifetime(time.Hour) // a changed address or password takes effect within it
	return db
}

// begin returns the statements that begin a transaction with the limits. The limits
// are set for the transaction and not for the session, which behind PgBouncer in
// transaction mode is shared with other clients. The last one releases the locks of a
// node that hangs, or is cut off, within the transaction.
func (l Limits) begin() string {
	return fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = %d; "+
		"SET LOCAL idle_in_transaction_session_timeout = %d",
		l.Lock.Milliseconds(), l.Statement.Milliseconds(), l.Read.Milliseconds())
}

// connector connects like pgdriver's connector, but closes the socket if TLS or the
// log-in fails.
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

// conn is a pgdriver connection with limited transactions and a check of the socket
// before reuse.
type conn struct {
	*pgdriver.Conn
	socket net.Conn
	begin  string
}

// BeginTx begins a transaction with the connection's limits in one round trip. It
// supports the default isolation only, which is READ COMMITTED.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o != (driver.TxOptions{}) {
		return nil, errors.New("begin a transaction: no options are supported")
	}
	if _, err := c.ExecContext(ctx, c.begin, nil); err != nil {
		_ = c.Close() // it may be inside the transaction
		return nil, err
	}
	return tx{c}, nil
}

// ResetSession returns driver.ErrBadConn if the server has closed the connection
// while it was idle, so that a restart of the server fails no request.
func (c *conn) ResetSession(ctx context.Context) error {
	if !isQuiet(c.socket) {
		return driver.ErrBadConn
	}
	return c.Conn.ResetSession(ctx)
}

// isQuiet reports whether an idle socket is open and has nothing to read. A server
// that closes a connection sends its reason, then the end of the stream.
func isQuiet(c net.Conn) bool {
	source, ok := c.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := source.SyscallConn()
	if err != nil {
		return false
	}
	// The deadline of the last use may have passed.
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return false
	}
	var peeked error
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, peeked = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && (errors.Is(peeked, syscall.EAGAIN) || errors.Is(peeked, syscall.EWOULDBLOCK))
}

// tx ends a transaction. Its methods get no context; Limits.Read bounds them.
type tx struct{ c *conn }

func (t tx) Commit() error   { return t.end("COMMIT") }
func (t tx) Rollback() error { return t.end("ROLLBACK") }

func (t tx) end(command string) error {
	_, err := t.c.ExecContext(context.Background(), command, nil)
	return err
}
