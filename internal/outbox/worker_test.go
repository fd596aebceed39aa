package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// memory is a store with the clock of the synctest bubble.
type memory struct {
	mu   sync.Mutex
	next int64
	jobs map[int64]*stored
	// claims that found jobs, and calls of FinishJobs
	writes int
	// one job is claimed at a time, as of one account
	ordered bool
	// calls of FinishJobs that fail
	failures int
}

type stored struct {
	Job
	due time.Time
}

func (m *memory) Now() time.Time { return time.Now() }

func (m *memory) add(k Kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	if m.jobs == nil {
		m.jobs = map[int64]*stored{}
	}
	m.jobs[m.next] = &stored{Job: Job{ID: m.next, Kind: k, Created: time.Now()}, due: time.Now()}
}

func (m *memory) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.jobs)
}

func (m *memory) ClaimJobs(_ context.Context, claims ...Claim) (claimed []Job, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := int64(1); id <= m.next; id++ {
		j := m.jobs[id]
		if j == nil || j.due.After(time.Now()) {
			continue
		}
		of := slices.IndexFunc(claims, func(c Claim) bool { return c.N > 0 && slices.Contains(c.Kinds, j.Kind) })
		if of < 0 {
			continue
		}
		claims[of].N--
		j.due = time.Now().Add(claims[of].Lease)
		j.Attempts++
		j.Lease++
		claimed = append(claimed, j.Job)
		if m.ordered {
			claimed[0].Followed = len(m.jobs) > 1
			break
		}
	}
	if len(claimed) > 0 {
		m.writes++
	}
	return claimed, nil
}

func (m *memory) FinishJobs(_ context.Context, jobs ...Job) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	if m.failures > 0 {
		m.failures--
		return errors.New("the connection was lost")
	}
	for _, j := range jobs {
		if have := m.jobs[j.ID]; have != nil && have.Lease == j.Lease {
			delete(m.jobs, j.ID)
		}
	}
	return nil
}

func (m *memory) HoldJob(_ context.Context, j Job, lease time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.jobs[j.ID]
	if have == nil || have.Lease != j.Lease {
		return false, nil
	}
	have.due = time.Now().Add(lease)
	return true, nil
}

func (m *memory) RetryJob(_ context.Context, j Job, due time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.jobs[j.ID]; have != nil && have.Lease == j.Lease {
		have.due, have.LastAttempt = due, j.LastAttempt
	}
	return nil
}

// run runs a worker over the store until stop is called.
func run(m *memory, h Handler) (w *Worker, stop func()) {
	w = &Worker{Store: m, Handlers: map[Kind]Handler{"mail": h}, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	return w, func() { cancel(); running.Wait() }
}

func TestWorker_WakeRunsAJobAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		var ran []time.Time
		w, stop := run(m, func(context.Context, Job) error {
			ran = append(ran, time.Now())
			return nil
		})
		defer stop()
		for range 3 {
			time.Sleep(time.Second + 500*time.Millisecond)
			before := time.Now()
			m.add("mail")
			w.Wake()
			synctest.Wait()
			if len(ran) != 1 || !ran[0].Equal(before) {
				t.Fatalf("got runs at %v, want one at %v", ran, before)
			}
			ran = nil
			time.Sleep(roundInterval)
			synctest.Wait()
			if m.left() != 0 {
				t.Fatal("got an unfinished job after a round, want none")
			}
		}
	})
}

// Every write is a transaction, and on SQLite a flush to disk.
func TestWorker_JobsUnderLoadShareRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		var latest time.Duration
		w, stop := run(m, func(_ context.Context, j Job) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			latest = max(latest, time.Since(j.Created))
			return nil
		})
		const jobs, every = 200, 10 * time.Millisecond
		for range jobs {
			m.add("mail")
			w.Wake()
			time.Sleep(every)
		}
		time.Sleep(roundInterval)
		stop()
		if m.left() != 0 || latest > roundInterval {
			t.Errorf("got %d jobs left, delays up to %v, want none and %v at most", m.left(), latest, roundInterval)
		}
		const rounds = int(jobs * every / roundInterval)
		if m.writes > 5*rounds/2 { // two in each, and some more at the beginning and the end
			t.Errorf("got %d writes for %d jobs in %d rounds", m.writes, jobs, rounds)
		}
	})
}

// The interval must not bound the rate at which a backlog is worked off.
func TestWorker_BacklogDoesNotWaitBetweenRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		for range 800 {
			m.add("mail")
		}
		before := time.Now()
		_, stop := run(m, func(context.Context, Job) error { return nil })
		defer stop()
		synctest.Wait()
		if took := time.Since(before); m.left() > 8 || took != 0 {
			t.Errorf("got %d jobs left after %v, want those of the last round at once", m.left(), took)
		}
	})
}

func TestWorker_BacklogOfOneAccountDoesNotWaitBetweenRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{ordered: true}
		for range 100 {
			m.add("mail")
		}
		before := time.Now()
		_, stop := run(m, func(context.Context, Job) error { return nil })
		defer stop()
		synctest.Wait()
		if took := time.Since(before); m.left() > 1 || took != 0 {
			t.Errorf("got %d jobs left after %v, want the last one at once", m.left(), took)
		}
	})
}

func TestWorker_LostConnectionRepeatsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{failures: 1}
		for range 8 {
			m.add("mail")
		}
		var runs atomic.Int32
		_, stop := run(m, func(context.Context, Job) error { runs.Add(1); return nil })
		time.Sleep(2 * time.Minute) // longer than the lease
		stop()
		if runs.Load() != 8 || m.left() != 0 {
			t.Errorf("got %d runs and %d jobs left, want 8 and none", runs.Load(), m.left())
		}
	})
}

func TestWorker_FailedJobIsRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		m.add("mail")
		var attempts []time.Time
		_, stop := run(m, func(context.Context, Job) error {
			attempts = append(attempts, time.Now())
			switch len(attempts) {
			case 1, 2, 3:
				return errors.New("no mail server")
			case 4:
				panic("a bug")
			}
			return nil
		})
		time.Sleep(time.Minute) // in the bubble: no time passes outside
		stop()
		if m.left() != 0 || len(attempts) != 5 {
			t.Fatalf("got %d jobs after %d attempts, want none after 5", m.left(), len(attempts))
		}
		for i := 2; i < len(attempts); i++ {
			if first, then := attempts[1].Sub(attempts[0]), attempts[i].Sub(attempts[i-1]); then < first {
				t.Errorf("backoff %d: got %v, want at least the first of %v", i, then, first)
			}
		}
	})
}

func TestWorker_UnfinishedJobGoesOnAtOnceAndLetsTheWorkerStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		m.add("mail")
		var parts atomic.Int64
		_, stop := run(m, func(context.Context, Job) error {
			time.Sleep(time.Second)
			parts.Add(1)
			return ErrAgain
		})
		time.Sleep(100 * time.Second)
		if parts.Load() < 90 { // backoff would allow 6
			t.Errorf("got %d parts in 100 seconds, want about one a second", parts.Load())
		}
		before := time.Now()
		stop()
		if took := time.Since(before); took > time.Second || m.left() != 1 {
			t.Errorf("got %d jobs after stopping in %v, want 1 within one part", m.left(), took)
		}
		jobs, _ := m.ClaimJobs(t.Context(), Claim{Kinds: []Kind{"mail"}, N: 1})
		if len(jobs) != 1 {
			t.Error("got no due job, want it due for the next worker")
		}
	})
}

func TestWorker_FailingJobIsDroppedAfterADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		m.add("mail")
		_, stop := run(m, func(context.Context, Job) error { return errors.New("no mail server") })
		defer stop()
		time.Sleep(23 * time.Hour)
		if m.left() != 1 {
			t.Fatal("got no job after 23 hours, want it retried")
		}
		time.Sleep(2 * time.Hour)
		if m.left() != 0 {
			t.Fatal("got a job after 25 hours, want it dropped")
		}
	})
}

func TestWorker_KindIsRetriedWhileStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		m.add("mail")
		began := time.Now()
		w := &Worker{Store: m, RetriedWhileStored: []Kind{"mail"}, Poll: time.Minute, Log: slog.New(slog.DiscardHandler)}
		w.Handlers = map[Kind]Handler{"mail": func(context.Context, Job) error {
			if time.Since(began) < 60*24*time.Hour {
				return errors.New("the host is unavailable")
			}
			return nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.Run(ctx) })
		defer running.Wait()
		defer cancel()
		time.Sleep(59 * 24 * time.Hour)
		if m.left() != 1 {
			t.Fatal("got no job after 59 days, want it retried")
		}
		time.Sleep(2 * 24 * time.Hour)
		if m.left() != 0 {
			t.Fatal("got a job although its handler succeeds, want none")
		}
	})
}

func TestWorker_StopFinishesRunningJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		m.add("mail")
		began := make(chan struct{})
		_, stop := run(m, func(ctx context.Context, _ Job) error {
			close(began)
			time.Sleep(10 * time.Second)
			return ctx.Err()
		})
		<-began
		m.add("mail")
		stop()
		if m.left() != 1 {
			t.Fatalf("got %d jobs, want the one that was not started", m.left())
		}
	})
}

func TestWorker_KindWithoutHandlerIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		m.add("of a newer version")
		_, stop := run(m, func(context.Context, Job) error { return nil })
		time.Sleep(time.Minute)
		stop()
		if m.left() != 1 {
			t.Fatal("got no job, want the one of an unknown kind")
		}
	})
}

func TestWorker_ObservesEachRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failure error
		var seen []string
		w := &Worker{
			Store: &memory{}, Log: slog.New(slog.DiscardHandler),
			Handlers: map[Kind]Handler{"mail": func(context.Context, Job) error {
				time.Sleep(3 * time.Second)
				return failure
			}},
			Observe: func(k Kind, o Outcome, took time.Duration) { seen = append(seen, fmt.Sprint(k, o, took)) },
		}
		run := func(attempts int, created time.Time) {
			w.run(t.Context(), claimedJob{w.groups()[0], Job{Kind: "mail", Attempts: attempts, Created: created}}, time.Now())
		}
		run(1, time.Now())
		failure = errors.New("no mail server")
		run(giveUpAttempts, time.Now())
		run(1, time.Now().Add(-giveUpAge)) // the database's clock may be wrong
		run(giveUpAttempts, time.Now().Add(-giveUpAge))
		want := []string{"maildone3s", "mailfailed3s", "mailfailed3s", "maildropped3s"}
		if !slices.Equal(seen, want) {
			t.Errorf("got runs %q, want %q", seen, want)
		}
	})
}

func TestRunDue_ReturnsWhenTheResultsOfDueJobsAreStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		var order []int64
		w := Worker{Store: m, Log: slog.New(slog.DiscardHandler), Handlers: map[Kind]Handler{"mail": func(ctx context.Context, j Job) error {
			order = append(order, j.ID)
			time.Sleep(time.Second)
			return ctx.Err()
		}}}
		for range 20 { // more than are claimed at once
			m.add("mail")
		}
		w.RunDue(t.Context())
		if m.left() != 0 || len(order) != 20 || !slices.IsSorted(order) {
			t.Errorf("got %d jobs left, and the order %v", m.left(), order)
		}
		m.add("mail")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if w.RunDue(ctx); m.left() != 1 {
			t.Error("a job whose time has ended was removed")
		}
	})
}
