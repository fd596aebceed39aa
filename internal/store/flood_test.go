package store_test

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/internal/throttle"
)

// It counts attempts from 3,000 addresses, twice: they are removed when they no
// longer count, and the second lot reuses their space.
func TestPrune_FloodOfAttemptsLeavesNothing(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		now := time.Now()
		s := migrated(t, url, store.Options{Clock: func() time.Time { return now }})
		var sizes []int64
		for range 2 {
			for lot := range 30 {
				charges := make([]throttle.Charge, 100)
				for i := range charges {
					charges[i].Limit = throttle.Limit{Burst: 1, Every: time.Minute}
					binary.BigEndian.PutUint64(charges[i].Key[:], uint64(lot*len(charges)+i)*0x9e3779b97f4a7c15)
				}
				if err := s.Charge(t.Context(), charges, now); err != nil {
					t.Fatal(err)
				}
			}
			now = now.Add(time.Minute)
			began := time.Now()
			if err := s.Prune(t.Context(), store.PruneOptions{}); err != nil {
				t.Fatal(err)
			}
			t.Logf("3,000 keys are removed within %v", time.Since(began))
			if n := value[int](t, url, "SELECT count(*) FROM personal_throttle"); n != 0 {
				t.Errorf("got %d keys, want none", n)
			}
			if path, isFile := strings.CutPrefix(url, "sqlite://"); isFile {
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				sizes = append(sizes, info.Size())
			}
		}
		if len(sizes) == 2 {
			t.Logf("the file took %d KiB", sizes[0]>>10)
			if sizes[1] > sizes[0]*11/10 {
				t.Errorf("got a file of %d bytes after the second flood, want about the %d of the first", sizes[1], sizes[0])
			}
		}
	})
}

func TestRefund_LeavesNoRow(t *testing.T) {
	testdb.Databases(t, func(t *testing.T, url string) {
		s := migrated(t, url, store.Options{})
		once := throttle.Charge{Limit: throttle.Limit{Burst: 3, Every: time.Minute}}
		for _, charges := range []int{1, 3} {
			for range charges {
				if err := s.Charge(t.Context(), []throttle.Charge{once}, s.Now()); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Refund(t.Context(), []throttle.Charge{once.All()}); err != nil {
				t.Fatal(err)
			}
			if n := value[int](t, url, "SELECT count(*) FROM personal_throttle"); n != 0 {
				t.Errorf("got %d rows after the refund of %d attempts, want none", n, charges)
			}
		}
	})
}
