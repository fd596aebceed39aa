package dbconn

import (
	"context"
	"database/sql/driver"
)

// keptStatements bounds how many parsed statements a connection to SQLite keeps.
const keptStatements = 64

// parsing makes connections that keep statements with arguments parsed.
type parsing struct {
	driver.Connector
}

// Connect implements [driver.Connector].
func (p parsing) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &parsingConn{fullSQLite: made.(fullSQLite), kept: map[string]driver.Stmt{}}, nil
}

type fullSQLite interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// parsingConn is a connection to SQLite. Parsing a statement often takes longer than running it,
// so it keeps the parsed form of statements that have arguments, by text. SQLite itself parses them
// again after a change of the schema. A statement that runs is not among them, because it has one
// result at a time.
type parsingConn struct {
	fullSQLite
	kept map[string]driver.Stmt
}

// ExecContext implements [driver.ExecerContext].
func (c *parsingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) == 0 {
		return c.fullSQLite.ExecContext(ctx, query, args)
	}
	stmt, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	defer c.keep(query, stmt)
	return stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

// QueryContext implements [driver.QueryerContext].
func (c *parsingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if len(args) == 0 {
		return c.fullSQLite.QueryContext(ctx, query, args)
	}
	stmt, err := c.take(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		c.keep(query, stmt)
		return nil, err
	}
	return &parsedRows{rows, c, query, stmt}, nil
}

func (c *parsingConn) take(ctx context.Context, query string) (driver.Stmt, error) {
	if stmt, ok := c.kept[query]; ok {
		delete(c.kept, query)
		return stmt, nil
	}
	return c.PrepareContext(ctx, query)
}

// keep takes a statement back that runs no more. A full connection forgets all others.
func (c *parsingConn) keep(query string, stmt driver.Stmt) {
	if len(c.kept) >= keptStatements {
		c.forget()
	}
	if twin, ok := c.kept[query]; ok {
		_ = twin.Close()
	}
	c.kept[query] = stmt
}

func (c *parsingConn) forget() {
	for _, stmt := range c.kept {
		_ = stmt.Close()
	}
	clear(c.kept)
}

// Close implements [driver.Conn].
func (c *parsingConn) Close() error {
	c.forget()
	return c.fullSQLite.Close()
}

// parsedRows is the result of a kept statement.
type parsedRows struct {
	driver.Rows
	conn  *parsingConn
	query string
	stmt  driver.Stmt
}

// Close implements [driver.Rows].
func (r *parsedRows) Close() error {
	err := r.Rows.Close()
	if r.stmt != nil {
		r.conn.keep(r.query, r.stmt)
		r.stmt = nil
	}
	return err
}
