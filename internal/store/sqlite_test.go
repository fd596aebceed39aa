package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
)

// In a swap, the old and the new plugin have the same file open.
func TestSQLite_TwoStoresWriteToOneFile(t *testing.T) {
	const writers, each = 32, 5
	url := testkit.SQLite(t)
	stores := []*store.Store{migrated(t, url, store.Options{}), migrated(t, url, store.Options{})}
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		s := stores[i%len(stores)]
		all.Go(func() {
			for j := range each {
				a := accounts.Account{LoginKey: fmt.Sprint(i, " ", j)}
				session := accounts.Session{Selector: [8]byte{byte(i), byte(j)}}
				_, err := s.CreateAccount(t.Context(), a, session, func(int64) []accounts.NewJob {
					return []accounts.NewJob{{Kind: "mail"}}
				})
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	jobs, err := stores[0].ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{"mail"}, N: 1000, Lease: time.Minute})
	if err != nil || len(jobs) != writers*each {
		t.Errorf("got %d jobs (error %v), want %d", len(jobs), err, writers*each)
	}
}

// The bytes of the database file that SQLite locks while a connection is open (SQLite's
// os.h). As long as they are locked, no other process takes itself for the last one,
// which removes the write-ahead log.
const (
	sharedFirst = 0x40000000 + 2
	sharedSize  = 510
)

// The locks belong to the process, and are lost when it closes any descriptor of the
// file, as it could when it opens the database again to migrate it. Only another
// process can check them.
func TestSQLite_StaysLockedWhileOpen(t *testing.T) {
	const databaseToCheck = "TEST_LOOK_AT"
	if path := os.Getenv(databaseToCheck); path != "" {
		wantLocked(t, path)
		return
	}
	url := testkit.SQLite(t)
	migrated(t, url, store.Options{})
	checker := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	checker.Env = append(os.Environ(), databaseToCheck+"="+strings.TrimPrefix(url, "sqlite://"))
	if out, err := checker.CombinedOutput(); err != nil {
		t.Errorf("checking the locks: %v\n%s", err, out)
	}
}

func wantLocked(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: sharedFirst, Len: sharedSize}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil {
		t.Fatal(err)
	}
	if lock.Type == unix.F_UNLCK {
		t.Error("got an unlocked database, want it locked")
	}
}

// A reader during the deletion of an account keeps the write-ahead log from being
// emptied.
func TestSQLite_PruneEmptiesTheWriteAheadLogAfterReaders(t *testing.T) {
	url := testkit.SQLite(t)
	s := migrated(t, url, store.Options{})
	pools, err := dbconn.Open(url, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	id := newAccount(t, s, "ada_marker")
	reading, err := pools.Read.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Rollback()
	var accountsRead int
	if err := reading.QueryRowContext(t.Context(), "SELECT count(*) FROM personal_accounts").Scan(&accountsRead); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteAccount(t.Context(), id, func(accounts.Account, outbox.Job) []byte { return nil }); err != nil {
		t.Fatal(err)
	}
	inLog := func() bool {
		data, err := os.ReadFile(strings.TrimPrefix(url, "sqlite://") + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(data, []byte("ada_marker"))
	}
	if err := s.Prune(t.Context(), store.PruneOptions{}); err != nil || !inLog() {
		t.Fatalf("got an empty write-ahead log during a read transaction (error %v), want the account in it", err)
	}
	if err := reading.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune(t.Context(), store.PruneOptions{}); err != nil || inLog() {
		t.Errorf("got the account in the write-ahead log: %t (error %v), want false", inLog(), err)
	}
}
