package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/internal/testkit"
)

// importAccounts fills a database, which it creates.
func importAccounts(t *testing.T, url string, n int) {
	t.Helper()
	mustCommand(t, "import", "--database", url, write(t, "users.csv", accountRows(n, importedBcrypt)))
}

func wantOnly(t *testing.T, folder string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got the files %q, want %q", got, want)
	}
}

func TestBackup_CopiesADatabaseInUse(t *testing.T) {
	url := testkit.SQLite(t)
	importAccounts(t, url, 3)
	user, err := databaseFlag{Database: url}.open(t.Context()) // as a host does: what it wrote may be in the -wal only
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	folder := t.TempDir()
	file := filepath.Join(folder, "personal-backup.db")
	out, _ := mustCommand(t, "backup", "--database", url, file)
	if !strings.Contains(out, file) {
		t.Errorf("got %q, want the name of the file", out)
	}
	wantFile(t, file, "")
	wantOnly(t, folder, "personal-backup.db")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = command(t, "backup", "--database", url, file)
	if err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("an existing file: got %v, want that it exists", err)
	}
	wantFile(t, file, string(before))
	if out, _ := mustCommand(t, "status", "--database", "sqlite://"+file); !strings.Contains(out, "accounts  3\n") {
		t.Errorf("the status of the copy: got %s, want 3 accounts", out)
	}
}

func TestBackup_FailureLeavesNothing(t *testing.T) {
	url := testkit.SQLite(t)
	importAccounts(t, url, 200)
	folder := t.TempDir()
	file := filepath.Join(folder, "personal-backup.db")
	if _, _, err := command(t, "backup", "--database", url, filepath.Join(folder, "absent", "f.db")); err == nil {
		t.Error("a missing folder: got no error")
	}
	if _, _, err := command(t, "backup", "--database", "sqlite://"+filepath.Join(folder, "absent.db"), file); err == nil {
		t.Error("a missing database: got no error")
	}
	wantOnly(t, folder)

	// A file system that takes no more than a part of the copy.
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 48 << 10, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	_, _, err := command(t, "backup", "--database", url, file)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if err == nil {
		t.Error("a copy that does not fit: got no error")
	}
	wantOnly(t, folder)
	mustCommand(t, "backup", "--database", url, file) // the database is unharmed
}

func TestBackup_DamagedDatabaseIsRefused(t *testing.T) {
	url := testkit.SQLite(t)
	importAccounts(t, url, 200)
	db, err := databaseFlag{Database: url}.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil { // the last user empties the write-ahead log
		t.Fatal(err)
	}
	path := strings.TrimPrefix(url, "sqlite://")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	const page = 4096
	for at := info.Size() / 2 / page * page; at < info.Size(); at += page {
		if _, err := f.WriteAt([]byte(strings.Repeat("damaged ", page/8)), at); err != nil {
			t.Fatal(err)
		}
	}
	folder := t.TempDir()
	_, _, err = command(t, "backup", "--database", url, filepath.Join(folder, "personal-backup.db"))
	if err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("got %v, want that the database is malformed", err)
	}
	wantOnly(t, folder)
}

func TestBackup_OnPostgreSQLNamesPgDump(t *testing.T) {
	t.Setenv("PERSONAL_DATABASE", testkit.Postgres(t))
	folder := t.TempDir()
	_, _, err := command(t, "backup", filepath.Join(folder, "f.db"))
	if err == nil || !strings.Contains(err.Error(), "pg_dump --format=custom") {
		t.Errorf("got %v, want the command pg_dump", err)
	}
	wantOnly(t, folder)
}
