package store_test

import (
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/testkit"
)

// TestOfABacklogOnlyTheNextIsInTheWayOfClaims: what is due is what a claim looks at.
func TestOfABacklogOnlyTheNextIsInTheWayOfClaims(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		now := time.Unix(1_000_000, 0)
		s := migrated(t, url, store.Options{Clock: func() time.Time { return now }})
		ada := newAccount(t, s, "ada")
		for i := range 100 {
			if err := s.Enqueue(t.Context(), eventOf(ada, i)); err != nil {
				t.Fatal(err)
			}
		}
		wantDue := func(when string, want int) {
			t.Helper()
			due := value[int](t, url, "SELECT count(*) FROM personal_jobs WHERE due <= 1000000000000")
			if due != want {
				t.Errorf("%s %d are due, want %d", when, due, want)
			}
		}
		claim := func() outbox.Job {
			t.Helper()
			jobs, err := s.ClaimJobs(t.Context(), []outbox.Kind{accounts.KindEvent}, now.Add(time.Minute), 4)
			if err != nil || len(jobs) != 1 {
				t.Fatalf("%d jobs, error %v", len(jobs), err)
			}
			return jobs[0]
		}
		wantDue("before any claim", 100)
		first := claim()
		wantDue("while one is leased", 0)
		if err := s.RetryJob(t.Context(), first, now); err != nil {
			t.Fatal(err)
		}
		wantDue("when the first is to be tried again", 1)
		for range 99 {
			if err := s.FinishJob(t.Context(), claim()); err != nil {
				t.Fatal(err)
			}
			wantDue("when one is done", 1)
		}
	})
}
