package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// probe is a batcher whose batches take a second, and its callers. A call is a
// number, and its result is the double. Numbers that end in the same digit have the
// same key.
type probe struct {
	*batcher[int, int]
	t        *testing.T
	began    time.Time
	batches  [][]int // in the order of their start
	ranAlone []int
	sizes    []int // that the observer got
}

var errBatch = errors.New("the batch failed")

func newProbe(t *testing.T) *probe {
	r := &probe{t: t, began: time.Now()}
	r.batcher = &batcher[int, int]{
		slots: 1, limit: 100, batchTimeout: 10 * time.Second, timeout: 10 * time.Second,
		key: func(n int) int64 { return int64(n % 10) },
		run: func(ctx context.Context, calls []int) ([]result[int], error) {
			r.batches = append(r.batches, slices.Clone(calls))
			time.Sleep(time.Second)
			results := make([]result[int], len(calls))
			for i, n := range calls {
				results[i].value = 2 * n
			}
			return results, ctx.Err()
		},
		alone: func(ctx context.Context, n int) (int, error) {
			r.ranAlone = append(r.ranAlone, n)
			return 2 * n, ctx.Err()
		},
		observe: func(size int) { r.sizes = append(r.sizes, size) },
	}
	return r
}

// outcome is what a caller got, and when.
type outcome struct {
	value int
	err   error
	after time.Duration
}

// call makes calls that arrive in this order, and returns what they get.
func (r *probe) call(ctx context.Context, calls ...int) []chan outcome {
	var got []chan outcome
	for _, n := range calls {
		one := make(chan outcome, 1)
		got = append(got, one)
		go func() {
			value, err := r.do(ctx, n)
			one <- outcome{value, err, time.Since(r.began)}
		}()
		synctest.Wait()
	}
	return got
}

func (r *probe) want(what string, got chan outcome, want outcome) {
	r.t.Helper()
	if o := <-got; o.value != want.value || !errors.Is(o.err, want.err) || o.after != want.after {
		r.t.Errorf("%s: got %d, error %v, after %v; want %d, error %v, after %v",
			what, o.value, o.err, o.after, want.value, want.err, want.after)
	}
}

func (r *probe) wantBatches(want ...[]int) {
	r.t.Helper()
	if !slices.EqualFunc(r.batches, want, slices.Equal) {
		r.t.Errorf("got batches %v, want %v", r.batches, want)
	}
}

// The bubble of each test also proves that no goroutine remains.

func TestBatcher_WaitingCallsFormTheNextBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProbe(t)
		r.limit = 3
		got := r.call(t.Context(), 1, 2, 3, 4, 5, 6)
		for i, after := range []time.Duration{1, 2, 2, 2, 3, 3} {
			r.want(fmt.Sprint("call ", i+1), got[i], outcome{value: 2 * (i + 1), after: after * time.Second})
		}
		r.wantBatches([]int{1}, []int{2, 3, 4}, []int{5, 6})
		if want := []int{1, 3, 2}; !slices.Equal(r.sizes, want) {
			t.Errorf("the observer got sizes %v, want %v", r.sizes, want)
		}
	})
}

func TestBatcher_LimitHoldsWithoutKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProbe(t)
		r.limit, r.key = 2, nil
		for _, got := range r.call(t.Context(), 1, 1, 1, 1) {
			<-got
		}
		r.wantBatches([]int{1}, []int{1, 1}, []int{1})
	})
}

func TestBatcher_EachSlotRunsABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProbe(t)
		r.slots = 2
		got := r.call(t.Context(), 1, 2, 3, 4)
		r.want("second call", got[1], outcome{value: 4, after: time.Second})
		r.want("last call", got[3], outcome{value: 8, after: 2 * time.Second})
	})
}

func TestBatcher_CallsOfOneKeyAreInDifferentBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProbe(t)
		for _, got := range r.call(t.Context(), 1, 7, 17, 8, 27) {
			<-got
		}
		r.wantBatches([]int{1}, []int{7, 8}, []int{17}, []int{27})
	})
}

func TestBatcher_CancelledCallersNeitherCancelNorDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProbe(t)
		ctx, cancel := context.WithCancel(t.Context())
		running := r.call(ctx, 1)[0]
		cancelled := r.call(ctx, 2)[0]
		other := r.call(t.Context(), 3)[0]
		time.Sleep(time.Second / 2)
		cancel()
		r.want("caller in the running batch", running, outcome{err: context.Canceled, after: time.Second / 2})
		r.want("waiting caller", cancelled, outcome{err: context.Canceled, after: time.Second / 2})
		r.want("caller that was cancelled before", r.call(ctx, 4)[0], outcome{err: context.Canceled, after: time.Second / 2})
		r.want("other caller", other, outcome{value: 6, after: 2 * time.Second})
		r.wantBatches([]int{1}, []int{3}) // the call of a cancelled caller is dropped
	})
}

func TestBatcher_DropsAllWaitingCallsWhoseCallersAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProbe(t)
		ctx, cancel := context.WithCancel(t.Context())
		r.call(t.Context(), 1)
		r.call(ctx, 2, 3)
		cancel()
		time.Sleep(2 * time.Second)
		r.want("call after the slot was freed", r.call(t.Context(), 4)[0], outcome{value: 8, after: 3 * time.Second})
		r.wantBatches([]int{1}, []int{4})
	})
}

func TestBatcher_SingleCallThatExceedsTheBatchTimeoutRunsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProbe(t)
		r.batchTimeout = 2 * time.Second
		r.run = func(ctx context.Context, _ []int) ([]result[int], error) { <-ctx.Done(); return nil, ctx.Err() }
		r.want("call", r.call(t.Context(), 1)[0], outcome{value: 2, after: 2 * time.Second})
	})
}

func TestBatcher_CallsOfAFailedBatchRunAloneBesideLaterBatches(t *testing.T) {
	fails := map[string]func(context.Context) ([]result[int], error){
		"error": func(context.Context) ([]result[int], error) { return nil, errBatch },
		"panic": func(context.Context) ([]result[int], error) { panic("a bug") },
		"hang":  func(ctx context.Context) ([]result[int], error) { <-ctx.Done(); return nil, ctx.Err() },
		"calls not run": func(context.Context) ([]result[int], error) {
			return []result[int]{{err: errAlone}, {err: errAlone}}, nil
		},
	}
	for name, fail := range fails {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newProbe(t)
				works, hangs := r.run, make(chan struct{})
				r.run = func(ctx context.Context, calls []int) ([]result[int], error) {
					if slices.Contains(calls, 3) {
						r.batches = append(r.batches, calls)
						return fail(ctx)
					}
					return works(ctx, calls)
				}
				alone := r.alone
				r.alone = func(ctx context.Context, n int) (int, error) {
					if n == 3 {
						<-hangs
						return 0, errBatch
					}
					return alone(ctx, n)
				}
				<-r.call(t.Context(), 1)[0]
				got := r.call(t.Context(), 2)
				got = append(got, r.call(t.Context(), 3, 4)...)
				if o := <-got[2]; o.value != 8 || o.err != nil {
					t.Errorf("the other call: got %d, error %v, want 8", o.value, o.err)
				}
				if o := <-r.call(t.Context(), 5)[0]; o.value != 10 || o.err != nil {
					t.Errorf("a later batch, while a call runs alone: got %d, error %v, want 10", o.value, o.err)
				}
				close(hangs)
				if o := <-got[1]; !errors.Is(o.err, errBatch) {
					t.Errorf("the bad call: got error %v, want its own", o.err)
				}
				r.wantBatches([]int{1}, []int{2}, []int{3, 4}, []int{5})
			})
		})
	}
}

func TestBatcher_FailedBatchOfOneIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProbe(t)
		r.run = func(context.Context, []int) ([]result[int], error) { return nil, errBatch }
		if o := <-r.call(t.Context(), 1)[0]; !errors.Is(o.err, errBatch) || len(r.ranAlone) > 0 {
			t.Errorf("got error %v and calls %v alone, want the batch's error and none", o.err, r.ranAlone)
		}
	})
}

func TestBatcher_PanicOfACallIsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProbe(t)
		r.run = func(context.Context, []int) ([]result[int], error) { panic("a bug") }
		r.alone = func(context.Context, int) (int, error) { panic("a bug") }
		for _, got := range r.call(t.Context(), 1, 2, 3) {
			if o := <-got; o.err == nil {
				t.Error("got no error")
			}
		}
	})
}

func TestBatcher_CloseWaitsForAcceptedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProbe(t)
		got := r.call(t.Context(), 1, 2)
		r.close()
		r.want("call after the close", r.call(t.Context(), 3)[0], outcome{err: errClosed, after: 2 * time.Second})
		r.want("running call", got[0], outcome{value: 2, after: time.Second})
		r.want("waiting call", got[1], outcome{value: 4, after: 2 * time.Second})
	})
}
