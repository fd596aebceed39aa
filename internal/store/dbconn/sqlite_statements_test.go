package dbconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"testing"

	"modernc.org/sqlite"
)

// parses counts the statements that connections parse and close.
type parses struct {
	driver.Connector
	parsed, closed int
}

func (p *parses) Connect(ctx context.Context) (driver.Conn, error) {
	made, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countedConn{made.(fullSQLite), p}, nil
}

type countedConn struct {
	fullSQLite
	count *parses
}

type fullStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func (c countedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.fullSQLite.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.count.parsed++
	return countedStmt{stmt.(fullStmt), c.count}, nil
}

type countedStmt struct {
	fullStmt
	count *parses
}

func (s countedStmt) Close() error {
	s.count.closed++
	return s.fullStmt.Close()
}

func TestSQLite_KeepsStatementsParsed(t *testing.T) {
	connector, err := sqlite.NewConnector(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	count := &parses{Connector: connector}
	db := sql.OpenDB(parsing{count})
	db.SetMaxOpenConns(1)
	defer db.Close()
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	parsed := func(want int) {
		t.Helper()
		if count.parsed != want {
			t.Errorf("%d statements were parsed, want %d", count.parsed, want)
		}
		count.parsed = 0
	}
	exec("CREATE TABLE numbers (n INTEGER)")
	for n := range 3 {
		exec("INSERT INTO numbers VALUES (?)", n)
	}
	parsed(1)

	// A transaction has the connection's statements. A text may run while it still has a result.
	const above = "SELECT * FROM numbers WHERE n > ? ORDER BY n"
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO numbers VALUES (?)", 3); err != nil {
		t.Fatal(err)
	}
	parsed(0)
	outer, err := tx.QueryContext(t.Context(), above, 0)
	if err != nil {
		t.Fatal(err)
	}
	var pairs string
	for outer.Next() {
		var n, larger int
		if err := outer.Scan(&n); err != nil {
			t.Fatal(err)
		}
		err := tx.QueryRowContext(t.Context(), above, n).Scan(&larger)
		if err != nil && err != sql.ErrNoRows {
			t.Fatal(err)
		}
		pairs += fmt.Sprint(n, larger, " ")
	}
	if want := "1 2 2 3 3 0 "; outer.Err() != nil || pairs != want {
		t.Errorf("got %q and %v, want %q", pairs, outer.Err(), want)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	parsed(2)

	exec("ALTER TABLE numbers ADD COLUMN name TEXT DEFAULT 'new'")
	var n int
	var name string
	if err := db.QueryRowContext(t.Context(), above, 2).Scan(&n, &name); err != nil || n != 3 || name != "new" {
		t.Errorf("after a change of the schema: got %d, %q and %v, want 3 and new", n, name, err)
	}
	parsed(0)

	for i := range 3 * maxParsed {
		exec(fmt.Sprintf("UPDATE numbers SET n = n + ? WHERE n = %d", i), 0)
	}
	if kept := count.parsed + 3 - count.closed; kept > maxParsed {
		t.Errorf("%d statements are kept, want %d at most", kept, maxParsed)
	}
	all := count.parsed + 3
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if count.closed != all {
		t.Errorf("%d of %d statements are closed with the connection", count.closed, all)
	}
}
