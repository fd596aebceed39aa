package store

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

	"github.com/uptrace/bun"
	bundialect "github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/schema"
)

// raw is NewRaw of bun for what runs often. On SQLite it passes the values as arguments, so that a
// connection parses the text once (see dbconn). On PostgreSQL the text holds the values: poolers
// share sessions, so nothing is prepared there. Write LIMIT ? + 0, because SQLite parses LIMIT ?
// anew for each value. To [execAll] pass a query of NewRaw.
func raw(db bun.IDB, query string, values ...any) *bun.RawQuery {
	if text, conn, ok := placed(db, query, values); ok {
		return db.NewRaw(text).Conn(conn)
	}
	return db.NewRaw(query, values...)
}

// where adds a condition as raw does, to a query that has no other values.
func where(db bun.IDB, query *bun.SelectQuery, condition string, values ...any) *bun.SelectQuery {
	if text, conn, ok := placed(db, condition, values); ok {
		return query.Where(text).Conn(conn)
	}
	return query.Where(condition, values...)
}

// placed returns the text of a query with one placeholder for each argument, and the connection
// that passes them. It is false on PostgreSQL, and if a value is its own query.
func placed(db bun.IDB, query string, values []any) (text string, conn withArgs, ok bool) {
	if db.Dialect().Name() != bundialect.SQLite {
		return "", withArgs{}, false
	}
	var b strings.Builder
	b.Grow(len(query))
	args := make([]any, 0, len(values))
	for next := 0; ; {
		before, after, more := strings.Cut(query, "?")
		b.WriteString(before)
		if !more {
			return b.String(), withArgs{connOf(db), args}, true
		}
		query = strings.TrimLeft(after, "0123456789")
		i := next
		if digits := after[:len(after)-len(query)]; digits != "" { // a place among the values
			i, _ = strconv.Atoi(digits)
		} else {
			next++
		}
		switch value := values[i].(type) {
		case bun.Safe:
			b.WriteString(string(value))
		case keyList:
			b.WriteString("?" + strings.Repeat(", ?", len(value)-1))
			for _, key := range value {
				args = append(args, key)
			}
		case schema.QueryAppender:
			return "", withArgs{}, false
		default:
			b.WriteByte('?')
			args = append(args, value)
		}
	}
}

// keyList is a list of at least one value in parentheses that the query writes.
type keyList [][]byte

// AppendQuery implements [schema.QueryAppender].
func (l keyList) AppendQuery(gen schema.QueryGen, b []byte) ([]byte, error) {
	return bun.List([][]byte(l)).AppendQuery(gen, b)
}

// orNull is a text, or NULL for an empty one.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func connOf(db bun.IDB) bun.IConn {
	if tx, ok := db.(bun.Tx); ok {
		return tx.Tx
	}
	return db.(*bun.DB).DB
}

// withArgs is a connection that runs one query with its arguments.
type withArgs struct {
	bun.IConn
	args []any
}

// QueryContext implements [bun.IConn].
func (c withArgs) QueryContext(ctx context.Context, query string, _ ...any) (*sql.Rows, error) {
	return c.IConn.QueryContext(ctx, query, c.args...)
}

// ExecContext implements [bun.IConn].
func (c withArgs) ExecContext(ctx context.Context, query string, _ ...any) (sql.Result, error) {
	return c.IConn.ExecContext(ctx, query, c.args...)
}
