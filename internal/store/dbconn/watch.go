package dbconn

import (
	"context"
	"database/sql/driver"
)

// watch is called before a statement is sent; its error is that of the statement, which is then not
// sent. BEGIN and COMMIT count as statements. It sees no prepared statement: the store has none.
type watch func(ctx context.Context, statement string) error

// Watch returns a wrap that calls watch before each statement.
func Watch(watch func(ctx context.Context, statement string) error) Wrap {
	return func(c driver.Connector) driver.Connector { return watchedConnector{c, watch} }
}

type watchedConnector struct {
	driver.Connector
	watch watch
}

func (c watchedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &watchedConn{conn.(fullConn), c.watch}, nil
}

// fullConn is what both drivers' connections implement.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

type watchedConn struct {
	fullConn
	watch watch
}

func (c *watchedConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if err := c.watch(ctx, "BEGIN"); err != nil {
		return nil, err
	}
	tx, err := c.fullConn.BeginTx(ctx, o)
	return watchedTx{tx, c.watch}, err
}

func (c *watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.watch(ctx, query); err != nil {
		return nil, err
	}
	return c.fullConn.ExecContext(ctx, query, args)
}

func (c *watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.watch(ctx, query); err != nil {
		return nil, err
	}
	return c.fullConn.QueryContext(ctx, query, args)
}

type watchedTx struct {
	driver.Tx
	watch watch
}

func (t watchedTx) Commit() error {
	if err := t.watch(context.Background(), "COMMIT"); err != nil {
		return err
	}
	return t.Tx.Commit()
}
