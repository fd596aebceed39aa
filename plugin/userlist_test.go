package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// reader takes output, and calls onFirst at its begin, and onUser at each piece with an e-mail.
type reader struct {
	started bool
	onFirst func()
	onUser  func(text string)
}

func (r *reader) Write(p []byte) (int, error) {
	if !r.started {
		r.started = true
		r.onFirst()
	}
	r.onUser(string(p))
	return len(p), nil
}

// TestUserList_KeepsNoMoreThanAPage removes the last account while the first page is written, which a
// list that is read before it is written would still have.
func TestUserList_KeepsNoMoreThanAPage(t *testing.T) {
	const users, maxGrowth = 10_000, 100 << 10
	for _, flags := range [][]string{nil, {"--json"}} {
		url := testdb.SQLite(t)
		mustCommand(t, "migrate", "--database", url)
		testkit.Populate(t, url, users, "'{}'")
		pools, err := dbconn.Open(url, dbconn.RequestLimits)
		if err != nil {
			t.Fatal(err)
		}
		defer pools.Close()
		heap := func() int64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		var before, after int64
		out := &reader{onFirst: func() {
			before = heap()
			if _, err := pools.Write.ExecContext(t.Context(), "DELETE FROM personal_accounts WHERE id = 1"); err != nil {
				t.Error(err)
			}
		}, onUser: func(text string) {
			if strings.Contains(text, "user1@") {
				t.Errorf("%q: got an account that was removed before the last page was read", flags)
			}
			if strings.Contains(text, "user2@") {
				after = heap()
			}
		}}
		if err := run(t.Context(), append([]string{"user", "list", "--database", url}, flags...), out, out); err != nil {
			t.Fatal(err)
		}
		if after == 0 || after-before > maxGrowth {
			t.Errorf("%q: got %d bytes in use at the first page, and %d at the last, want at most %d more", flags, before, after, maxGrowth)
		}
	}
}
