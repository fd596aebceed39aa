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

// As in a swap, where the old and the new plugin have one file open.
func TestTwoStoresWriteToOneFile(t *testing.T) {
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
	jobs, err := stores[0].ClaimJobs(t.Context(), []outbox.Kind{"mail"}, stores[0].Now().Add(time.Minute), 1000)
	if err != nil || len(jobs) != writers*each {
		t.Errorf("%d jobs, error %v, want %d", len(jobs), err, writers*each)
	}
}

// Where SQLite keeps the lock of those who have a database open, in its file
// (SQLite's os.h): as long as somebody holds it, nobody takes himself for the last
// one, who clears the log of writes away.
const (
	sharedFirst = 0x40000000 + 2
	sharedSize  = 510
)

// TestTheDatabaseStaysLockedWhileItIsOpen: the locks are the process's, and are
// lost when it closes any descriptor of the file, as it might when it opens the
// database once more to migrate it. Only another process can tell.
func TestTheDatabaseStaysLockedWhileItIsOpen(t *testing.T) {
	const lookAt = "TEST_LOOK_AT"
	if path := os.Getenv(lookAt); path != "" {
		wantLocked(t, path)
		return
	}
	url := testkit.SQLite(t)
	migrated(t, url, store.Options{})
	look := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	look.Env = append(os.Environ(), lookAt+"="+strings.TrimPrefix(url, "sqlite://"))
	if out, err := look.CombinedOutput(); err != nil {
		t.Errorf("looking at the database: %v\n%s", err, out)
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
		t.Error("nobody has the database locked")
	}
}

// Who reads the database while an account is deleted keeps the log of writes from
// being emptied.
func TestWhatAReaderKeptInTheLogGoesWithTheNextPrune(t *testing.T) {
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
		t.Fatalf("somebody reads, and the log of writes is empty; error %v", err)
	}
	if err := reading.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune(t.Context(), store.PruneOptions{}); err != nil || inLog() {
		t.Errorf("the account is in the log of writes: %v, error %v", inLog(), err)
	}
}
