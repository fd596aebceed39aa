package dbconn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"

	"modernc.org/sqlite"
)

// OpenScratch opens a temporary SQLite database with mode 0600 in the folder for temporary files.
// Its file has no name any more when OpenScratch returns: the system frees it with the last
// descriptor, also if the process is killed. It has one connection, so that it serves one query at a
// time, and neither a journal nor syncs: after an error its content is worthless.
func OpenScratch(ctx context.Context) (*sql.DB, error) {
	file, err := os.CreateTemp("", "personal-*.db") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("create a temporary database: %w", err)
	}
	defer os.Remove(file.Name()) // an error leaves a file behind, which is empty or private
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("create a temporary database: %w", err)
	}
	name := (&url.URL{Scheme: "file", Path: file.Name()}).String() // mode=rw: a second connection would find no file
	connector, err := sqlite.NewConnector(name + "?mode=rw&_pragma=journal_mode(off)&_pragma=synchronous(off)&_pragma=locking_mode(exclusive)&_pragma=trusted_schema(0)&_pragma=cache_size(-512)")
	if err != nil {
		return nil, fmt.Errorf("open a temporary database: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "CREATE TABLE opened (x); DROP TABLE opened"); err != nil { // opens the file
		return nil, errors.Join(fmt.Errorf("open a temporary database: %w", err), db.Close())
	}
	return db, nil
}
