package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a store whose calls pause and fail by a seed, before or after their effect, until
// it is calm. It records the end of each lease.
type slow struct {
	*memory
	mu     sync.Mutex
	random *rand.Rand
	calm   bool
	leases map[string]time.Time // by job and lease
}

func claimName(j Job) string { return fmt.Sprint(j.ID, "/", j.Lease) }

// pick returns a number below n.
func (s *slow) pick(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.random.IntN(n)
}

// pause takes up to 50 ms, nine seconds, or longer than a lease, and fails now and then.
func (s *slow) pause(ctx context.Context) error {
	s.mu.Lock()
	calm := s.calm
	s.mu.Unlock()
	if calm {
		return nil
	}
	longest := 50 * time.Millisecond
	switch s.pick(20) {
	case 0:
		longest = 90 * time.Second
	case 1, 2, 3:
		longest = 9 * time.Second
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(s.pick(int(longest)))):
	}
	if s.pick(20) == 0 {
		return errors.New("the connection was lost")
	}
	return nil
}

func (s *slow) ClaimJobs(ctx context.Context, claims ...Claim) ([]Job, error) {
	if err := s.pause(ctx); err != nil {
		return nil, err
	}
	jobs, _ := s.memory.ClaimJobs(ctx, claims...)
	s.mu.Lock()
	for _, j := range jobs {
		for _, c := range claims {
			if c.Kinds[0] == j.Kind {
				s.leases[claimName(j)] = time.Now().Add(c.Lease)
			}
		}
	}
	s.mu.Unlock()
	if err := s.pause(ctx); err != nil {
		return nil, err // they run when their leases have expired
	}
	return jobs, nil
}

func (s *slow) FinishJobs(ctx context.Context, jobs ...Job) error {
	if err := s.pause(ctx); err != nil {
		return err
	}
	return errors.Join(s.memory.FinishJobs(ctx, jobs...), s.pause(ctx))
}

func (s *slow) HoldJob(ctx context.Context, j Job, lease time.Duration) (bool, error) {
	if err := s.pause(ctx); err != nil {
		return false, err
	}
	held, _ := s.memory.HoldJob(ctx, j, lease)
	s.mu.Lock()
	if held {
		s.leases[claimName(j)] = time.Now().Add(lease)
	}
	s.mu.Unlock()
	return held, s.pause(ctx)
}

func (s *slow) RetryJob(ctx context.Context, j Job, due time.Time) error {
	if err := s.pause(ctx); err != nil {
		return err
	}
	return errors.Join(s.memory.RetryJob(ctx, j, due), s.pause(ctx))
}

func TestWorker_LeasesHoldOnASlowStore(t *testing.T) {
	const jobs, nodes = 100, 2
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{memory: &memory{}, random: rand.New(rand.NewPCG(seed, 0)), leases: map[string]time.Time{}}
			var mu sync.Mutex
			ran, running, done := map[string]bool{}, map[int64]bool{}, map[int64]bool{}
			check := func(j Job, when string) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if end := s.leases[claimName(j)]; !time.Now().Before(end) {
					t.Errorf("seed %d: job %d %s %v after the end of its lease", seed, j.ID, when, time.Since(end))
				}
			}
			handle := func(ctx context.Context, j Job) error {
				mu.Lock()
				check(j, "begins")
				if ran[claimName(j)] || running[j.ID] {
					t.Errorf("seed %d: job %d runs twice within its lease", seed, j.ID)
				}
				ran[claimName(j)], running[j.ID] = true, true
				mu.Unlock()
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					check(j, "ends")
					running[j.ID] = false
				}()
				switch s.pick(5) {
				case 0:
					<-ctx.Done() // hangs; a mail until its lease cannot be renewed, or for ten minutes
					return ctx.Err()
				case 1:
					return errors.New("no mail server")
				case 2:
					return ErrAgain
				case 3:
					select {
					case <-ctx.Done():
					case <-time.After(time.Duration(s.pick(int(20 * time.Second)))):
					}
				}
				mu.Lock()
				done[j.ID] = true
				mu.Unlock()
				return nil
			}
			ctx, cancel := context.WithCancel(context.Background())
			var workers sync.WaitGroup
			var all []*Worker
			for range nodes {
				w := &Worker{
					Store: s, Handlers: map[Kind]Handler{"mail": handle, "event": handle, "fill": handle}, Log: slog.New(slog.DiscardHandler),
					Groups: []Group{{Kinds: []Kind{"event"}, OneReceiver: true}, {Kinds: []Kind{"fill"}, Parallel: 1, Lease: 10 * time.Second},
						{Kinds: []Kind{"mail"}, Longest: 10 * time.Minute, Most: 20}},
					RetriedWhileStored: []Kind{"mail", "event", "fill"},
				}
				all = append(all, w)
				workers.Go(func() { w.Run(ctx) })
			}
			for i := range jobs {
				s.add([]Kind{"mail", "event", "fill"}[i%3])
				all[i%nodes].Wake()
				time.Sleep(time.Duration(s.pick(int(time.Second))))
			}
			time.Sleep(5 * time.Minute)
			s.mu.Lock()
			s.calm = true
			s.mu.Unlock()
			for started := time.Now(); s.left() > 0 && time.Since(started) < 3*time.Hour; { // the longest backoff is ten minutes
				time.Sleep(time.Minute)
			}
			cancel()
			workers.Wait()
			if s.left() != 0 || len(done) != jobs {
				t.Errorf("seed %d: got %d jobs left and %d done, want none and %d", seed, s.left(), len(done), jobs)
			}
		})
	}
}

// A receiver that takes nothing holds its own slots only.
func TestWorker_HangingReceiverDelaysNoMail(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			m, random := &memory{}, rand.New(rand.NewPCG(seed, 0))
			hanging, slowest := 0, time.Duration(0)
			w := &Worker{
				Store: m, Log: slog.New(slog.DiscardHandler), RetriedWhileStored: []Kind{"event"},
				Groups: []Group{{Kinds: []Kind{"event"}, OneReceiver: true}},
				Handlers: map[Kind]Handler{
					"event": func(ctx context.Context, _ Job) error {
						m.mu.Lock()
						hanging++
						m.mu.Unlock()
						<-ctx.Done()
						return ctx.Err()
					},
					"mail": func(_ context.Context, j Job) error {
						m.mu.Lock()
						defer m.mu.Unlock()
						slowest = max(slowest, time.Since(j.Created))
						return nil
					},
				},
			}
			for range 100 {
				m.add("event")
			}
			ctx, cancel := context.WithCancel(context.Background())
			var running sync.WaitGroup
			running.Go(func() { w.Run(ctx) })
			synctest.Wait()
			if hanging != 8 {
				t.Errorf("got %d hanging events, want all 8 slots taken", hanging)
			}
			for range 50 {
				time.Sleep(time.Duration(random.IntN(int(10 * time.Second))))
				m.add("mail")
				w.Wake()
			}
			time.Sleep(time.Second)
			cancel()
			running.Wait()
			if m.left() != 100 || slowest > roundInterval {
				t.Errorf("seed %d: got %d jobs left, a mail delayed by %v, want 100 events and %v at most", seed, m.left(), slowest, roundInterval)
			}
		})
	}
}

func TestWorker_FailingReceiverIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		for range 200 {
			m.add("event")
		}
		var mu sync.Mutex
		works := false
		running, most, calls := 0, 0, 0
		handle := func(context.Context, Job) error {
			mu.Lock()
			running++
			calls++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			running--
			if works {
				return nil
			}
			return errors.New("the host takes no events")
		}
		w := &Worker{
			Store: m, Log: slog.New(slog.DiscardHandler), RetriedWhileStored: []Kind{"event"}, Handlers: map[Kind]Handler{"event": handle},
			Groups: []Group{{Kinds: []Kind{"event"}, OneReceiver: true}},
		}
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() { w.Run(ctx) })
		defer all.Wait()
		defer cancel()
		take := func(after time.Duration) (atOnce, n int) {
			time.Sleep(after)
			mu.Lock()
			defer mu.Unlock()
			atOnce, n = most, calls
			most, calls = running, 0
			return atOnce, n
		}
		if atOnce, _ := take(time.Second + time.Millisecond); atOnce != 8 {
			t.Errorf("at first: got %d calls at once, want 8", atOnce)
		}
		if atOnce, n := take(time.Minute); atOnce != 1 || n < 50 || n > 60 {
			t.Errorf("while the receiver fails: got %d calls, %d at once, want one after another", n, atOnce)
		}
		mu.Lock()
		works = true
		mu.Unlock()
		if atOnce, _ := take(20 * time.Second); atOnce != 8 {
			t.Errorf("when the receiver works again: got %d calls at once, want 8", atOnce)
		}
	})
}

func TestWorker_RefusingReceiverIsProbedOnceInARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		for range 1000 {
			m.add("event")
		}
		var calls atomic.Int64
		w := &Worker{
			Store: m, Log: slog.New(slog.DiscardHandler), RetriedWhileStored: []Kind{"event"},
			Groups: []Group{{Kinds: []Kind{"event"}, OneReceiver: true}},
			Handlers: map[Kind]Handler{"event": func(context.Context, Job) error {
				calls.Add(1)
				return errors.New("the host takes no events")
			}},
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		w.Run(ctx)
		if n, rounds := calls.Load(), int64(10*time.Second/roundInterval); n > rounds+8 {
			t.Errorf("got %d calls in %d rounds, want one in each, and eight at first", n, rounds)
		}
	})
}
