package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// runGroup runs a worker over the store, whose mails are a group, until stop is called.
func runGroup(m *memory, g Group, h Handler) (stop func()) {
	g.Kinds = []Kind{"mail"}
	w := &Worker{Store: m, Handlers: map[Kind]Handler{"mail": h}, Log: slog.New(slog.DiscardHandler), Groups: []Group{g}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

func TestWorker_LongRunKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		m.add("mail")
		runs, ended := 0, time.Duration(0)
		began := time.Now()
		stop := runGroup(m, Group{Longest: time.Hour}, func(ctx context.Context, _ Job) error {
			switch runs++; runs {
			case 1:
				time.Sleep(40 * time.Minute)
				return nil
			case 3:
				return nil
			}
			<-ctx.Done() // hangs
			ended = time.Since(began)
			return ctx.Err()
		})
		time.Sleep(41 * time.Minute)
		synctest.Wait()
		if runs != 1 || m.left() != 0 {
			t.Errorf("got %d runs and %d jobs left, want 1 and none", runs, m.left())
		}
		began = time.Now()
		m.add("mail")
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		if ended < time.Hour || ended > time.Hour+2*time.Second { // a poll is a second apart
			t.Errorf("got a run that hangs ended after %v, want after an hour", ended)
		}
		stop()
	})
}

// A relay that is slow for some mails holds up no others.
func TestWorker_SlowRunsLeaveTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		var mu sync.Mutex
		slow := map[int64]bool{}
		running, most := 0, 0
		latest := time.Duration(0)
		defer runGroup(m, Group{Longest: time.Hour, Most: 20}, func(_ context.Context, j Job) error {
			mu.Lock()
			running++
			most = max(most, running)
			isSlow := slow[j.ID]
			if !isSlow {
				latest = max(latest, time.Since(j.Created))
			}
			mu.Unlock()
			if isSlow {
				time.Sleep(30 * time.Minute)
			}
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		})()
		addSlow := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			for range n {
				m.add("mail")
				slow[m.next] = true
			}
		}
		addSlow(15)
		time.Sleep(2*slowAfter + 2*time.Second)
		for range 100 {
			m.add("mail")
			time.Sleep(time.Second)
		}
		left := m.left()
		mu.Lock()
		if left > 16 || latest > 2*time.Second || most < 16 {
			t.Errorf("got %d jobs left, a delay of %v and %d runs at once; want the 15 slow ones to delay no other", left, latest, most)
		}
		mu.Unlock()
		addSlow(20)
		time.Sleep(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if most != 20 {
			t.Errorf("got %d runs at once, want 20 at most", most)
		}
	})
}

func TestWorker_JobThatMayHaveSucceededRunsTwiceMore(t *testing.T) {
	for name, later := range map[string]error{
		"it may have again": &LimitedError{Err: errors.New("no reply"), More: 2},
		"it fails":          errors.New("not now"),
	} {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{}
			m.add("mail")
			var runs []time.Time
			stop := runGroup(m, Group{}, func(context.Context, Job) error {
				runs = append(runs, time.Now())
				switch len(runs) {
				case 1, 2, 3:
					return errors.New("not now")
				case 4:
					return fmt.Errorf("sending: %w", &LimitedError{Err: errors.New("no reply"), More: 2})
				}
				return later
			})
			time.Sleep(3 * time.Hour)
			stop()
			if len(runs) != 6 || m.left() != 0 {
				t.Fatalf("%s: got %d runs and %d jobs left, want 6 and none", name, len(runs), m.left())
			}
			if first, second := runs[4].Sub(runs[3]), runs[5].Sub(runs[4]); first < 30*time.Second || first > 62*time.Second || second < 5*time.Minute {
				t.Errorf("%s: got waits of %v and %v, want up to one and ten minutes", name, first, second)
			}
		})
	}
}

func TestWorker_JobThatIsOverIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		m.add("mail")
		runs := 0
		stop := runGroup(m, Group{}, func(context.Context, Job) error {
			runs++
			return fmt.Errorf("%w: its token has ended", ErrOver)
		})
		time.Sleep(time.Hour)
		m.add("mail") // of a process that was killed in the last attempt
		m.mu.Lock()
		m.jobs[m.next].Attempts, m.jobs[m.next].LastAttempt = 4, 4
		m.mu.Unlock()
		time.Sleep(time.Hour)
		stop()
		if runs != 1 || m.left() != 0 {
			t.Errorf("got %d runs and %d jobs left, want 1 and none", runs, m.left())
		}
	})
}

func TestWorker_RunEndsWhenItsJobIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		m.add("mail")
		began, ended := time.Now(), time.Duration(0)
		stop := runGroup(m, Group{Longest: time.Hour}, func(ctx context.Context, j Job) error {
			m.mu.Lock()
			delete(m.jobs, j.ID) // as with its account
			m.mu.Unlock()
			<-ctx.Done()
			ended = time.Since(began)
			return ctx.Err()
		})
		time.Sleep(2 * time.Minute)
		stop()
		if ended == 0 || ended > time.Minute {
			t.Errorf("got the run ended after %v, want within its lease", ended)
		}
	})
}
