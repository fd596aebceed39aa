package dbconn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrNotSQLite is the error of what works on SQLite only.
var ErrNotSQLite = errors.New("the database is not SQLite")

// CopyTo writes a copy of a SQLite database to a new file with mode 0600: its state at
// one moment, without the content that was deleted. Others can read and write during the copy;
// what they write stays in the write-ahead log until the copy is done. The copy is
// checked before it gets its name, so that the name never stands for an incomplete
// file; after an error nothing is left. It is on disk when CopyTo returns nil.
//
// The error is [fs.ErrExist] if the file exists, and [ErrNotSQLite] on PostgreSQL.
func (p Pools) CopyTo(ctx context.Context, path string) (err error) {
	if p.Kind != SQLite {
		return ErrNotSQLite
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := absent(path); err != nil {
		return err
	}
	dir, name := filepath.Split(path)
	draft, err := os.CreateTemp(dir, "."+name+"-*.incomplete") // mode 0600
	if err != nil {
		return err
	}
	defer draft.Close() // closed again after an error only
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(draft.Name()))
		}
	}()
	conn, err := p.Write.Conn(ctx) // query_only, which the readers have, forbids the copy
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "VACUUM INTO ?", draft.Name()); err != nil {
		return err
	}
	if err := checkCopy(ctx, conn, draft.Name()); err != nil {
		return fmt.Errorf("checking the copy: %w", err)
	}
	if err := errors.Join(draft.Sync(), draft.Close(), absent(path)); err != nil {
		return err
	}
	if err := os.Rename(draft.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// absent returns fs.ErrExist if the path names something.
func absent(path string) error {
	_, err := os.Lstat(path)
	if err == nil {
		return &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// checkCopy lets SQLite read the whole copy.
func checkCopy(ctx context.Context, conn *sql.Conn, path string) (err error) {
	if _, err := conn.ExecContext(ctx, "ATTACH ? AS copied", path); err != nil {
		return err
	}
	defer func() {
		_, detached := conn.ExecContext(context.WithoutCancel(ctx), "DETACH copied")
		err = errors.Join(err, detached)
	}()
	rows, err := conn.QueryContext(ctx, "PRAGMA copied.integrity_check(10)")
	if err != nil {
		return err
	}
	defer rows.Close()
	var problems []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		problems = append(problems, line)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if text := strings.Join(problems, "; "); text != "ok" {
		return fmt.Errorf("the database is damaged: %s", text)
	}
	return nil
}
