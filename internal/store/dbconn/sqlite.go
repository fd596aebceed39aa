package dbconn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// busyTimeout is how long a connection waits for other processes that use the file.
// Within this process writers queue for their single connection instead.
const busyTimeout = 5 * time.Second

// sqlitePragmas are set on every connection. With synchronous(full) a commit
// survives a power failure also in WAL mode. With secure_delete(1) deleted content is
// overwritten, so that no data of a deleted user remains in the file; for the WAL see
// [Pools.TruncateWAL].
var sqlitePragmas = []string{
	fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
	"journal_mode(wal)",
	"synchronous(full)",
	"foreign_keys(1)",
	"trusted_schema(0)",
	"secure_delete(1)",
}

// openSQLite opens a pool of one writer and a pool of readers. In WAL mode readers
// neither block the writer nor wait for it. The writer's transactions begin
// IMMEDIATE, so that none fails halfway because it cannot get the write lock.
func openSQLite(path string, open func(driver.Connector) *sql.DB) (Pools, error) {
	switch {
	case path == "":
		return Pools{}, wrong("it names no file: sqlite://PATH")
	case strings.HasPrefix(path, ":memory:"):
		return Pools{}, wrong("each connection would open its own database in memory; name a file")
	case strings.ContainsAny(path, "?#\x00"):
		return Pools{}, wrong("a SQLite path takes no parameters")
	case strings.HasSuffix(path, "/"):
		return Pools{}, wrong("it names a folder, not a file")
	}
	path, err := filepath.Abs(path)
	if err == nil {
		err = makePrivate(path)
	}
	if err != nil {
		return Pools{}, fmt.Errorf("open the database file: %w", err)
	}
	write, err := openFile(path, "_txlock=immediate", open)
	if err != nil {
		return Pools{}, err
	}
	write.SetMaxOpenConns(1)
	read, err := openFile(path, "_pragma=query_only(1)", open)
	if err != nil {
		_ = write.Close()
		return Pools{}, err
	}
	readers := max(2, runtime.GOMAXPROCS(0))
	read.SetMaxOpenConns(readers)
	read.SetMaxIdleConns(readers)
	return Pools{Kind: SQLite, Write: write, Read: read}, nil
}

func openFile(path, option string, open func(driver.Connector) *sql.DB) (*sql.DB, error) {
	name := (&url.URL{Scheme: "file", Path: path}).String()
	name += "?_pragma=" + strings.Join(sqlitePragmas, "&_pragma=") + "&" + option
	connector, err := sqlite.NewConnector(name)
	if err != nil {
		return nil, fmt.Errorf("open the database file: %w", err)
	}
	return open(parsing{connector}), nil
}

// makePrivate creates the database file with mode 0600, or removes the access of
// others from an existing one. A file that is private already is not changed, as it
// may be on a read-only file system. SQLite gives its -wal and -shm files the mode of
// the database.
//
// An existing file must not be opened: this process may already have it open, and
// closing any descriptor of a file drops all locks that the process holds on it
// (fcntl, POSIX.1). The next program to open the database would then find it unlocked,
// and later writes of this process would be lost.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err == nil && info.IsDir() {
			return wrong("it names a folder, not a file")
		}
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = os.Chmod(name, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// walTimeout is how long TruncateWAL waits for other users of the file. All writers
// wait as long.
const walTimeout = 100 * time.Millisecond

// TruncateWAL moves the content of SQLite's write-ahead log (the -wal file) into the
// database and truncates the log. Until then the log holds copies of content that
// was deleted or overwritten in the database. It returns false if a reader prevented
// it. On PostgreSQL it does nothing and returns true.
func (p Pools) TruncateWAL(ctx context.Context) (truncated bool, err error) {
	if p.Kind != SQLite {
		return true, nil
	}
	conn, err := p.Write.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if err := setBusyTimeout(ctx, conn, walTimeout); err != nil {
		return false, err
	}
	var busy bool
	var frames, moved int
	err = conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved)
	return !busy, errors.Join(err, setBusyTimeout(context.WithoutCancel(ctx), conn, busyTimeout))
}

func setBusyTimeout(ctx context.Context, conn *sql.Conn, d time.Duration) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout = %d", d.Milliseconds()))
	return err
}
