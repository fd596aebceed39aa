package store_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// A claim looks at every due job.
func TestClaimJobs_OnlyTheFrontOfABacklogIsDue(t *testing.T) {
	const jobs = 20
	testdb.Databases(t, func(t *testing.T, url string) {
		now := time.Unix(1_000_000, 0)
		s := migrated(t, url, store.Options{Clock: func() time.Time { return now }})
		ada := newAccount(t, s, "ada")
		for i := range jobs {
			if err := s.Enqueue(t.Context(), eventOf(ada, i)); err != nil {
				t.Fatal(err)
			}
		}
		wantDue := func(when string, want int) {
			t.Helper()
			due := value[int](t, url, "SELECT count(*) FROM personal_jobs WHERE due <= 1000000000000")
			if due != want {
				t.Errorf("%s: got %d due jobs, want %d", when, due, want)
			}
		}
		claim := func() outbox.Job {
			t.Helper()
			jobs, err := s.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindEvent}, N: 4, Lease: time.Minute})
			if err != nil || len(jobs) != 1 {
				t.Fatalf("got %d jobs, error %v", len(jobs), err)
			}
			return jobs[0]
		}
		wantDue("before any claim", jobs)
		first := claim()
		wantDue("while one is leased", 0)
		if err := s.RetryJob(t.Context(), first, now); err != nil {
			t.Fatal(err)
		}
		wantDue("when the first is to be retried", 1)
		for range jobs - 1 {
			if err := s.FinishJobs(t.Context(), claim()); err != nil {
				t.Fatal(err)
			}
			wantDue("after a finished job", 1)
		}
	})
}

// PostgreSQL plans by the last statistics of the table, which a backlog has made
// wrong. Walking the table for the front of each queue would take tens of times as
// long.
func TestClaimJobs_IsFastWithOldStatistics(t *testing.T) {
	url := testdb.Postgres(t)
	s := migrated(t, url, store.Options{})
	pools, err := dbconn.Open(url, dbconn.MigrationLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	do := func(statement string) {
		t.Helper()
		if _, err := pools.Write.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	backlogOf := func(login string) {
		do(fmt.Sprintf(`INSERT INTO personal_jobs (kind, payload, created, due, attempts, lease, account_id)
			SELECT 'event', '{}', 1, 1, 0, 0, %d FROM generate_series(1, 5000)`, newAccount(t, s, login)))
	}
	claim := func() time.Duration {
		began := time.Now()
		jobs, err := s.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindEvent}, N: 4, Lease: time.Minute})
		if err != nil || len(jobs) != 2 {
			t.Fatalf("got %d jobs, error %v", len(jobs), err)
		}
		return time.Since(began)
	}
	// fastest is of five claims: the others may have waited for a processor.
	fastest := func() time.Duration {
		took := time.Hour
		for range 5 {
			do("UPDATE personal_jobs SET due = 1")
			took = min(took, claim())
		}
		return took
	}
	do("ALTER TABLE personal_jobs SET (autovacuum_enabled = false)") // it also refreshes statistics
	backlogOf("ada")
	do("ANALYZE personal_jobs")
	backlogOf("bob")
	old := fastest()
	do("ANALYZE personal_jobs")
	if fresh := fastest(); old > 10*fresh {
		t.Errorf("got a claim of %v with old statistics and %v with fresh ones, want at most ten times as long", old, fresh)
	} else {
		t.Logf("a claim takes %v with old statistics, %v with fresh ones", old, fresh)
	}
}

// An erasure changes the jobs of its account in the order of their ids. A claim that held
// some of them and waited for another could wait for the erasure, and the erasure for it.
func TestClaimJobs_WaitsForNoneOfTheJobsThatItPostpones(t *testing.T) {
	url := testdb.Postgres(t)
	var log bytes.Buffer
	s := migrated(t, url, store.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	ada := newAccount(t, s, "ada")
	for i := range 5 {
		if err := s.Enqueue(t.Context(), eventOf(ada, i)); err != nil {
			t.Fatal(err)
		}
	}
	erasing, err := pools(t, url).Write.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer erasing.Rollback()
	if _, err := erasing.ExecContext(t.Context(), "UPDATE personal_jobs SET payload = '{}' WHERE id = 3"); err != nil {
		t.Fatal(err)
	}
	jobs, err := s.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{accounts.KindEvent}, N: 4, Lease: time.Minute})
	if err != nil || len(jobs) != 1 || log.Len() > 0 {
		t.Fatalf("got %d jobs, error %v, log %q, want one", len(jobs), err, &log)
	}
	if postponed := value[int](t, url, fmt.Sprintf("SELECT count(*) FROM personal_jobs WHERE due > %d",
		s.Now().Add(2*time.Minute).UnixMicro())); postponed != 3 {
		t.Errorf("got %d postponed jobs, want all but the first and the locked one", postponed)
	}
}
