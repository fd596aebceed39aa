package dbconn

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// busyTimeout is how long a connection waits for other processes at the same file.
// Within this one writers queue for their single connection instead.
const busyTimeout = 5 * time.Second

// The settings of every SQLite connection. FULL makes a commit outlive a power
// cut also in WAL mode. What is deleted is overwritten: a user who is gone is not
// to be found in the file either, see EmptyLog for its log.
var sqlitePragmas = []string{
	fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
	"journal_mode(wal)",
	"synchronous(full)",
	"foreign_keys(1)",
	"trusted_schema(0)",
	"secure_delete(1)",
}

func sqlitePath(path string) (string, error) {
	switch {
	case path == "":
		return "", wrong("it names no file: sqlite://PATH")
	case strings.HasPrefix(path, ":memory:"):
		return "", wrong("a database in memory would be another one on each connection; name a file")
	case strings.ContainsAny(path, "?#\x00"):
		return "", wrong("a SQLite path takes no parameters")
	case strings.HasSuffix(path, "/"):
		return "", wrong("it names a folder, not a file")
	}
	return path, nil
}

// openSQLite opens a pool of one writer, whose transactions begin IMMEDIATE so
// that none has to be given up half-way, and one of readers, which in WAL mode
// neither block the writer nor are blocked.
func openSQLite(path string) (Pools, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Pools{}, fmt.Errorf("open the database file: %w", err)
	}
	if err := keepPrivate(path); err != nil {
		return Pools{}, fmt.Errorf("open the database file: %w", err)
	}
	write, err := openFile(path, "_txlock=immediate")
	if err != nil {
		return Pools{}, err
	}
	write.SetMaxOpenConns(1)
	read, err := openFile(path, "_pragma=query_only(1)")
	if err != nil {
		_ = write.Close()
		return Pools{}, err
	}
	readers := max(2, runtime.GOMAXPROCS(0))
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	return Pools{Kind: SQLite, Write: write, Read: read}, nil
}

// logPatience is how long emptying the log of writes waits for others at the file.
// Nobody can write meanwhile.
const logPatience = 100 * time.Millisecond

// EmptyLog moves what stands in SQLite's log of writes (the -wal file) into the
// database and leaves the log empty: until then it holds what has been deleted
// since, and what is overwritten in the database alone. It is false when somebody
// who reads kept it from that. PostgreSQL has no such file of its users.
func (p Pools) EmptyLog(ctx context.Context) (emptied bool, err error) {
	if p.Kind != SQLite {
		return true, nil
	}
	conn, err := p.Write.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if err := waitForOthers(ctx, conn, logPatience); err != nil {
		return false, err
	}
	var busy bool
	var frames, moved int
	err = conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved)
	return !busy, errors.Join(err, waitForOthers(context.WithoutCancel(ctx), conn, busyTimeout))
}

func waitForOthers(ctx context.Context, conn *sql.Conn, d time.Duration) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", d.Milliseconds()))
	return err
}

func openFile(path, option string) (*sql.DB, error) {
	name := (&url.URL{Scheme: "file", Path: path}).String()
	name += "?_pragma=" + strings.Join(sqlitePragmas, "&_pragma=") + "&" + option
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("open the database file: %w", err)
	}
	return db, nil
}

// keepPrivate creates the file for its owner only, or takes the others' access
// away. What is its owner's alone already is not touched: it may be read only.
// SQLite gives its -wal and -shm files the mode of the database.
//
// A file that is there is not opened: this process may have it open already, and
// to close any descriptor of a file drops all locks that a process has on it
// (fcntl, POSIX.1). The next program to look at the database would take itself for
// the only one, and what is written from then on would be lost.
func keepPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(name, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
