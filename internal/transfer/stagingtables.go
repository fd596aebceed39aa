package transfer

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// stagedTable is a table of the temporary database.
type stagedTable struct {
	name    string
	columns int // and before them the line
	rows    []any
}

// stagedRows are rows to insert.
type stagedRows struct {
	table  *stagedTable
	create []string // statements that come first
	values []any
}

// table begins a table of the temporary database.
func (w *stager) table(name string, columns []string) (*stagedTable, error) {
	t := &stagedTable{name: name, columns: len(columns)}
	w.tables = append(w.tables, t)
	text := "CREATE TABLE " + name + " (line INTEGER"
	for _, c := range columns {
		text += ", " + c + " TEXT"
	}
	return t, w.send(stagedRows{create: []string{text + ")"}})
}

func (w *stager) send(rows stagedRows) error {
	select {
	case w.batches <- rows:
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
}

// add adds a row to a table.
func (w *stager) add(t *stagedTable, line int, values ...any) error {
	if t.rows == nil {
		t.rows = make([]any, 0, stagedBatch*(1+t.columns))
	}
	t.rows = append(append(t.rows, line), values...)
	for _, v := range values {
		text, _ := v.(string)
		w.pending += len(text)
	}
	if w.pending > maxPending {
		return w.flushAll()
	}
	if len(t.rows) == cap(t.rows) {
		return w.flush(t)
	}
	return nil
}

func (w *stager) flushAll() error {
	for _, t := range w.tables {
		if err := w.flush(t); err != nil {
			return err
		}
	}
	return nil
}

func (w *stager) flush(t *stagedTable) error {
	rows := t.rows
	if t.rows = nil; len(rows) == 0 {
		return nil
	}
	for _, v := range rows {
		text, _ := v.(string)
		w.pending -= len(text)
	}
	return w.send(stagedRows{table: t, values: rows})
}

// write stores the rows.
func (w *stager) write(ctx context.Context) error {
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("creating a temporary database: %w", err)
	}
	defer tx.Rollback()
	full := map[*stagedTable]*sql.Stmt{}
	for rows := range w.batches {
		for _, text := range rows.create {
			if _, err := tx.ExecContext(ctx, text); err != nil {
				return fmt.Errorf("creating a temporary table: %w", err)
			}
		}
		if rows.table == nil {
			continue
		}
		statement, n := full[rows.table], len(rows.values)/(1+rows.table.columns)
		one := "(?" + strings.Repeat(",?", rows.table.columns) + ")"
		text := "INSERT INTO " + rows.table.name + " VALUES " + one + strings.Repeat(","+one, n-1)
		if n == stagedBatch && statement == nil {
			if statement, err = tx.PrepareContext(ctx, text); err == nil {
				full[rows.table] = statement
			}
		}
		switch {
		case err != nil:
		case n == stagedBatch:
			_, err = statement.ExecContext(ctx, rows.values...)
		default:
			_, err = tx.ExecContext(ctx, text, rows.values...)
		}
		if err != nil {
			return fmt.Errorf("storing rows of the dump in a temporary file: %w", err)
		}
	}
	if err := ctx.Err(); err != nil { // the reader has failed
		return err
	}
	return tx.Commit()
}
