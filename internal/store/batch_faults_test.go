package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// unsteady makes the batches of a probe pause and fail by a seed. A batch that pauses longer
// than its time limit ends with it.
func (r *probe) unsteady(seed uint64) (pick func(n int) int) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	pick = func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	pause := func(ctx context.Context) error {
		longest := 20 * time.Millisecond
		switch pick(10) {
		case 0:
			longest = 30 * time.Second
		case 1, 2:
			longest = time.Second
		case 3:
			return errBatch
		case 4:
			panic("a bug")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(pick(int(longest)))):
			return nil
		}
	}
	r.run = func(ctx context.Context, calls []int) ([]result[int], error) {
		if err := pause(ctx); err != nil {
			return nil, err
		}
		results := make([]result[int], len(calls))
		for i, n := range calls {
			results[i].value = 2 * n
			if pick(10) == 0 {
				results[i] = result[int]{err: errAlone}
			}
		}
		return results, nil
	}
	r.alone = func(ctx context.Context, n int) (int, error) {
		if err := pause(ctx); err != nil {
			return 0, err
		}
		return 2 * n, nil
	}
	r.observe = func(int) {}
	return pick
}

func TestBatcher_CallersGetTheirOwnResultsInTime(t *testing.T) {
	const callers, batch = 200, 2 * time.Second
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			r := newProbe(t)
			r.slots, r.limit, r.batchTimeout, r.timeout = 2, 16, batch, 5*time.Second
			pick := r.unsteady(seed)
			var mu sync.Mutex
			succeeded := 0
			var all sync.WaitGroup
			for n := range callers {
				all.Go(func() {
					limit := time.Duration(1 + pick(int(10*time.Second)))
					ctx, cancel := context.WithTimeout(context.Background(), limit)
					defer cancel()
					began := time.Now()
					value, err := r.do(ctx, n+1)
					if took := time.Since(began); took > limit+batch {
						t.Errorf("seed %d: call %d took %v, want %v and a batch at most", seed, n, took, limit)
					}
					if err == nil && value != 2*(n+1) || err != nil && value != 0 {
						t.Errorf("seed %d: call %d got %d, error %v, want its own result or an error", seed, n, value, err)
					}
					if errors.Is(err, errAlone) {
						t.Errorf("seed %d: call %d got an error that is not its own: %v", seed, n, err)
					}
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						succeeded++
					}
				})
				time.Sleep(time.Duration(pick(int(20 * time.Millisecond))))
			}
			all.Wait()
			r.close()
			if succeeded < callers/10 {
				t.Errorf("seed %d: got %d successful calls of %d, want a tenth at least", seed, succeeded, callers)
			}
			if r.running != 0 || len(r.waiting) != 0 {
				t.Errorf("seed %d: got %d slots in use and %d calls waiting, want none", seed, r.running, len(r.waiting))
			}
		})
	}
}
