package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
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
