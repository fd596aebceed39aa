package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/token"
)

// recorder counts what an observer is told.
type recorder struct {
	mu                  sync.Mutex
	operations, batches map[store.Operation]int
}

func (r *recorder) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operations, r.batches = map[store.Operation]int{}, map[store.Operation]int{}
}

func (r *recorder) ObserveStore(o store.Operation, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if took > 0 {
		r.operations[o]++
	}
}

func (r *recorder) ObserveBatch(o store.Operation, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches[o] += size
}

func TestObserver_IsToldEachOperation(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		seen := &recorder{}
		seen.reset()
		s := migrated(t, url, store.Options{Observer: seen})
		ada := newAccount(t, s, "ada")
		seen.reset()
		if err := s.Enqueue(t.Context(), eventOf(ada, 1)); err != nil { // a transaction
			t.Fatal(err)
		}
		var jobs []outbox.Job
		queries := 0
		for ; len(jobs) == 0; queries++ { // the time that a claim measures may be a moment behind the job's
			var err error
			jobs, err = s.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindEvent}, N: 1, Lease: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := s.FinishJobs(t.Context(), jobs...); err != nil { // a statement
			t.Fatal(err)
		}
		_, _, _ = s.FindSession(t.Context(), token.Selector{}, accounts.AccountState) // there is none
		if err := s.TouchSession(t.Context(), accounts.SessionTouch{ID: 1, Used: true}); err != nil {
			t.Fatal(err)
		}
		batches := map[store.Operation]int{store.WriteSession: 1}
		if strings.HasPrefix(url, "postgres") {
			batches[store.FindSession] = 1
		}
		seen.mu.Lock()
		defer seen.mu.Unlock()
		want := map[store.Operation]int{store.Transaction: 1, store.Query: queries, store.Statement: 1,
			store.FindSession: 1, store.WriteSession: 1}
		if diff := cmp.Diff(want, seen.operations); diff != "" {
			t.Errorf("operations (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(batches, seen.batches); diff != "" {
			t.Errorf("calls in batches (-want +got):\n%s", diff)
		}
	})
}

func TestJobBacklog_CountsByKind(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		now := time.Unix(1_000_000, 0)
		s := migrated(t, url, store.Options{Clock: func() time.Time { return now }})
		if got, err := s.JobBacklog(t.Context()); err != nil || len(got) != 0 {
			t.Fatalf("got %v (%v), want no jobs", got, err)
		}
		ada := newAccount(t, s, "ada")
		first := now
		for i := range 3 {
			if err := s.Enqueue(t.Context(), eventOf(ada, i)); err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Minute)
		}
		if err := s.Enqueue(t.Context(), accounts.NewJob{Kind: accounts.KindRecovery, Payload: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		for login, erase := range map[string]time.Time{"bob": first, "carol": now, "dan": now.Add(time.Second)} {
			execute(t, url, fmt.Sprintf("UPDATE personal_accounts SET disabled = TRUE, erase_at = %d WHERE id = %d", erase.UnixMicro(), newAccount(t, s, login)))
		}
		got, err := s.JobBacklog(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := map[outbox.Kind]outbox.Backlog{
			accounts.DueErasure:   {Jobs: 2, Oldest: first.UTC()},
			accounts.KindEvent:    {Jobs: 3, Oldest: first.UTC()},
			accounts.KindRecovery: {Jobs: 1, Oldest: now.UTC()},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("backlog (-want +got):\n%s", diff)
		}
	})
}
