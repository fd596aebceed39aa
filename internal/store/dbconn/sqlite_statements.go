package dbconn

import (
	"context"
	"database/sql/driver"
)

// maxParsed bounds the parsed statements of a connection to SQLite.
const maxParsed = 64

// parsing makes connections that cache parsed statements with arguments.
type parsing struct {
	driver.Connector
}

// Connect implements [driver.Connector].
func (p parsing) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &parsingConn{fullSQLite: made.(fullSQLite), parsed: map[string]driver.Stmt{}}, nil
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
// so it caches the parsed form of statements that have arguments, by text. SQLite itself parses them
// again after a change of the schema. A statement that runs is not among them, because it has one
// result at a time.
type parsingConn struct {
	fullSQLite
	parsed map[string]driver.Stmt
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
	defer c.put(query, stmt)
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
		c.put(query, stmt)
		return nil, err
	}
	return &parsedRows{rows, c, query, stmt}, nil
}

func (c *parsingConn) take(ctx context.Context, query string) (driver.Stmt, error) {
	if stmt, ok := c.parsed[query]; ok {
		delete(c.parsed, query)
		return stmt, nil
	}
	return c.PrepareContext(ctx, query)
}

// put takes a statement back that runs no more. A full connection forgets all others.
func (c *parsingConn) put(query string, stmt driver.Stmt) {
	if len(c.parsed) >= maxParsed {
		c.forget()
	}
	if twin, ok := c.parsed[query]; ok {
		_ = twin.Close()
	}
	c.parsed[query] = stmt
}

func (c *parsingConn) forget() {
	for _, stmt := range c.parsed {
		_ = stmt.Close()
	}
	clear(c.parsed)
}

// Close implements [driver.Conn].
func (c *parsingConn) Close() error {
	c.forget()
	return c.fullSQLite.Close()
}

// parsedRows is the result of a parsed statement.
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
		r.conn.put(r.query, r.stmt)
		r.stmt = nil
	}
	return err
}
