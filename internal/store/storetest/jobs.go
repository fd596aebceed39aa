package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/throttle"
)

var jobCases = []testCase{
	{"a job is claimed as it was stored, byte for byte", func(t *testing.T, w *world) {
		payload := []byte("{\"b\":  1, \"a\": \"it's ? $1 🙂\"}")
		w.must(w.Enqueue(t.Context(), accounts.NewJob{Kind: "mail", Payload: payload}))
		got := w.claim(10)
		if len(got) != 1 {
			t.Fatalf("got %d jobs, want 1", len(got))
		}
		want := outbox.Job{ID: got[0].ID, Kind: "mail", Payload: payload, Created: w.Now(), Due: w.Now().Add(time.Minute), Attempts: 1,
			Lease: got[0].Lease}
		if diff := cmp.Diff(want, got[0]); diff != "" {
			t.Error(diff)
		}
	}},
	{"a claim takes the oldest jobs of the given kinds, up to the number", func(t *testing.T, w *world) {
		for _, kind := range []outbox.Kind{"other", "mail", "event", "mail", "event"} {
			w.must(w.Enqueue(t.Context(), job(kind)))
		}
		claimKinds := func(n int, kinds ...outbox.Kind) (got []outbox.Kind) {
			jobs, err := w.ClaimJobs(t.Context(), outbox.Claim{Kinds: kinds, N: n, Lease: time.Minute})
			w.must(err)
			for i, j := range jobs {
				got = append(got, j.Kind)
				if i > 0 && jobs[i-1].ID >= j.ID {
					t.Error("got jobs out of order")
				}
			}
			return got
		}
		for _, c := range []struct{ want, got []outbox.Kind }{
			{nil, claimKinds(10)},
			{nil, claimKinds(0, "mail")},
			{nil, claimKinds(10, "unknown")},
			{[]outbox.Kind{"mail", "event", "mail"}, claimKinds(3, "event", "mail")},
			{[]outbox.Kind{"event"}, claimKinds(3, "event", "mail")},
			{[]outbox.Kind{"other"}, claimKinds(3, "other")},
		} {
			if diff := cmp.Diff(c.want, c.got); diff != "" {
				t.Error(diff)
			}
		}
	}},
	{"an expired lease makes the job due again, under another lease", func(t *testing.T, w *world) {
		w.must(w.Enqueue(t.Context(), job("mail")))
		first := w.claim(1)[0]
		w.pass(time.Minute - time.Microsecond)
		if again := w.claim(1); len(again) > 0 {
			t.Fatal("got a leased job, want none")
		}
		w.pass(time.Microsecond)
		second := w.claim(1)[0]
		if second.ID != first.ID || second.Lease == first.Lease || second.Attempts != 2 {
			t.Errorf("got %+v after %+v, want the same job under another lease", second, first)
		}
		// The first worker was only slow: it no longer holds the job.
		w.must(w.FinishJobs(t.Context(), first))
		w.must(w.RetryJob(t.Context(), first, w.Now()))
		if again := w.claim(1); len(again) > 0 {
			t.Error("got a job after the retry of an expired lease, want none")
		}
		w.must(w.FinishJobs(t.Context(), second))
		w.pass(time.Hour)
		if again := w.claim(1); len(again) > 0 {
			t.Error("got a finished job, want none")
		}
	}},
	{"several jobs are finished together, except one that was claimed again, and the next ones become due", func(t *testing.T, w *world) {
		w.backlog(2)
		w.must(w.Enqueue(t.Context(), job("mail")))
		w.must(w.Enqueue(t.Context(), job("mail")))
		first := w.claim(10)
		w.pass(time.Minute)
		again := w.claim(3)
		if len(first) != 4 || len(again) != 3 {
			t.Fatalf("got %d and %d jobs, want 4 and 3", len(first), len(again))
		}
		w.must(w.FinishJobs(t.Context()))
		w.must(w.FinishJobs(t.Context(), first...)) // of which only one is still held
		w.pass(time.Minute)
		last := w.claim(10)
		if len(last) != 3 {
			t.Fatalf("got %d jobs after one was finished, want 3", len(last))
		}
		w.must(w.FinishJobs(t.Context(), last...))
		if next := w.claim(10); len(next) != 1 || string(next[0].Payload) != "1" {
			t.Errorf("got jobs %v, want the second of the backlog", next)
		}
	}},
	{"a retry makes the job due at the given time and ends its lease", func(t *testing.T, w *world) {
		w.must(w.Enqueue(t.Context(), job("mail")))
		first := w.claim(1)[0]
		w.must(w.RetryJob(t.Context(), first, w.Now().Add(time.Second)))
		w.must(w.FinishJobs(t.Context(), first)) // too late: no longer leased
		if again := w.claim(1); len(again) > 0 {
			t.Fatal("got the job at once, want none")
		}
		w.pass(time.Second)
		again := w.claim(1)
		if len(again) != 1 || again[0].Attempts != 2 || again[0].Lease == first.Lease {
			t.Errorf("got jobs %v, want the second attempt under another lease", again)
		}
	}},
	{"a held job is claimed when its renewed lease has expired", func(t *testing.T, w *world) {
		w.must(w.Enqueue(t.Context(), job("mail")))
		held := w.claim(1)[0]
		hold := func(want bool) {
			t.Helper()
			if got, err := w.HoldJob(t.Context(), held, time.Minute); err != nil || got != want {
				t.Errorf("got %t (%v), want %t", got, err, want)
			}
		}
		for range 3 {
			w.pass(time.Minute - time.Microsecond)
			hold(true)
			if again := w.claim(1); len(again) > 0 {
				t.Fatal("got a held job, want none")
			}
		}
		w.pass(time.Minute)
		second := w.claim(1)
		if len(second) != 1 {
			t.Fatalf("got jobs %v, want the one that is held no longer", second)
		}
		hold(false)
		w.must(w.FinishJobs(t.Context(), second...))
		hold(false)
	}},
	{"a limit of attempts is kept, also by a claim that nothing ended", func(t *testing.T, w *world) {
		w.must(w.Enqueue(t.Context(), job("mail")))
		first := w.claim(1)[0]
		w.must(w.RetryJob(t.Context(), first, w.Now()))
		second := w.claim(1)[0]
		second.LastAttempt = 4
		w.must(w.RetryJob(t.Context(), second, w.Now()))
		for attempt := 3; attempt <= 5; attempt++ {
			j := w.claim(1)[0]
			if first.LastAttempt != 0 || j.Attempts != attempt || j.LastAttempt != 4 {
				t.Errorf("got attempt %d with the last %d, want %d and 4", j.Attempts, j.LastAttempt, attempt)
			}
			if attempt == 3 {
				w.must(w.RetryJob(t.Context(), j, w.Now()))
			}
			w.pass(time.Minute)
		}
	}},
	{"jobs of one kind and account run one after another, others at once", func(t *testing.T, w *world) {
		ada, _ := w.createAny()
		bob, _ := w.createAny()
		of := func(kind outbox.Kind, account int) accounts.NewJob {
			return accounts.NewJob{Kind: kind, Payload: fmt.Appendf(nil, "%s %d", kind, account), AccountID: []int64{0, ada.ID, bob.ID}[account]}
		}
		for _, j := range []accounts.NewJob{of("event", 1), of("event", 1), of("mail", 1), of("event", 2), of("event", 0), of("event", 0)} {
			w.must(w.Enqueue(t.Context(), j))
		}
		wantClaim := func(want ...string) []outbox.Job {
			t.Helper()
			jobs := w.claim(10)
			var got []string
			for _, j := range jobs {
				got = append(got, string(j.Payload))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal(diff)
			}
			return jobs
		}
		first := wantClaim("event 1", "mail 1", "event 2", "event 0", "event 0")[0]
		wantClaim() // the second waits while the first is leased
		w.must(w.RetryJob(t.Context(), first, w.Now().Add(time.Second)))
		wantClaim() // and while its retry is not due
		w.pass(time.Second)
		w.must(w.FinishJobs(t.Context(), wantClaim("event 1")[0]))
		wantClaim("event 1")
		wantClaim()
	}},
	{"jobs postponed behind a job that was removed become due", func(t *testing.T, w *world) {
		w.backlog(3)
		first := w.claim(10)
		if len(first) != 2 {
			t.Fatalf("got %d jobs, want 2", len(first))
		}
		w.pass(time.Hour)
		w.must(w.Prune(t.Context(), store.PruneOptions{MaxAudit: 3})) // removes the first, which is leased
		again := w.claim(10)
		if len(again) != 2 || string(again[0].Payload) != "1" {
			t.Errorf("got jobs %v, want the second of the backlog and another", again)
		}
	}},
}

var jobRaces = []testCase{
	{"a backlog of one account is run in order by concurrent claims", func(t *testing.T, w *world) {
		const n = 24
		w.backlog(n)
		var mu sync.Mutex
		var done []string
		errs := atOnce(4, func(int) error {
			for {
				jobs, err := w.ClaimJobs(t.Context(), outbox.Claim{Kinds: []outbox.Kind{"event"}, N: 2, Lease: time.Minute})
				if err != nil {
					return err
				}
				mu.Lock()
				for _, j := range jobs {
					done = append(done, string(j.Payload))
				}
				all := len(done) == n+1
				mu.Unlock()
				if all {
					return nil
				}
				for _, j := range jobs {
					if err := w.FinishJobs(t.Context(), j); err != nil {
						return err
					}
				}
				if t.Context().Err() != nil {
					return t.Context().Err()
				}
			}
		})
		w.must(errors.Join(errs...))
		var got []string
		for _, payload := range done {
			if payload != "other" {
				got = append(got, payload)
			}
		}
		for i, payload := range got {
			if payload != fmt.Sprint(i) {
				t.Fatalf("got the order %v", got)
			}
		}
	}},
}

// backlog stores n events of one account, and one of another.
func (w *world) backlog(n int) {
	w.t.Helper()
	many, _ := w.createAny()
	other, _ := w.createAny()
	var jobs []accounts.NewJob
	for i := range n {
		jobs = append(jobs, accounts.NewJob{Kind: "event", Payload: fmt.Append(nil, i), AccountID: many.ID})
	}
	jobs = append(jobs, accounts.NewJob{Kind: "event", Payload: []byte("other"), AccountID: other.ID})
	w.must(w.Charge(w.t.Context(), nil, w.Now(), jobs...))
}

var pruneCases = []testCase{
	{"pruning removes what has expired, in batches of any size, and nothing else", func(t *testing.T, w *world) {
		a, idle := w.createAny()
		old := w.newSession(a.ID)
		old.Created = w.Now().Add(-100 * time.Hour)
		w.must(w.OpenSession(t.Context(), accounts.OpenSession{Session: old, CredentialVersion: 1, MaxSessions: 100}))
		for i := range 7 {
			w.addToken(a, accounts.PurposeRecovery, i)
			w.open(a)
		}
		w.reserve(reservation("1", 1, 1))
		slow, quick := limited(1, 1, 3*time.Hour), limited(2, 1, time.Hour)
		w.wantWait(0, []throttle.Charge{slow, quick})
		w.pass(2 * time.Hour)
		w.reserve(reservation("2", 1, 1))
		w.must(w.TouchSession(t.Context(), w.session(old).ID, old.Current, false))
		living := w.open(a)
		w.addToken(a, accounts.PurposeRecovery, 100)

		w.must(w.Prune(t.Context(), store.PruneOptions{
			Lifetimes:   accounts.Lifetimes{SeenAfter: idle.LastSeen, CreatedAfter: old.Created},
			MailsBefore: w.Now().Add(-time.Hour), Batch: 2,
		}))
		w.wantSessions(a.ID, living)
		_, err := w.FindMailToken(t.Context(), accounts.PurposeRecovery, digest("token", 100))
		w.must(err)
		w.wantWait(time.Hour, []throttle.Charge{slow})
		w.wantWait(0, []throttle.Charge{quick})
		// The first reservation is removed: its mail would be a new one, for which it is too early.
		if w.reserve(reservation("1", 1, 1)) || !w.reserve(reservation("2", 1, 1)) {
			t.Error("got the old reservation again, or not the fresh one, want the opposite")
		}
	}},
}

func (w *world) claim(n int) []outbox.Job {
	w.t.Helper()
	jobs, err := w.ClaimJobs(w.t.Context(), outbox.Claim{Kinds: []outbox.Kind{"mail", "event"}, N: n, Lease: time.Minute})
	w.must(err)
	return jobs
}
