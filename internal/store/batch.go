package store

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// batcher runs calls in natural batches: a call that arrives while all slots run a
// batch waits, and all that wait form the next batch. There is no timer, so a call
// that meets a free slot runs at once. While no call is made, no goroutine exists.
//
// Invariant: each accepted call is waiting, or in one running batch, or running
// alone, and gets its own result when that has ended. Nothing that happens to its
// caller changes this: a cancelled caller stops waiting, but its call runs, and
// neither cancels nor delays the batch.
//
// The calls of a failed batch run again, each alone, beside later batches. So run
// must have no effect if it fails, or one that a repetition tolerates.
type batcher[T, R any] struct {
	slots   int           // batches that run at once
	limit   int           // calls in a batch
	timeout time.Duration // of a batch, and of a call that runs alone
	key     func(T) int64 // at most one call of a key is in a batch; nil: any number

	// run runs a batch and returns the result of each call in the same order, or
	// fails as a whole.
	run func(ctx context.Context, calls []T) ([]result[R], error)
	// alone runs a call of a failed batch, or one whose result is errAlone.
	alone func(ctx context.Context, call T) (R, error)

	mu      sync.Mutex
	waiting []*member[T, R] // in order of arrival
	running int             // slots in use
	closed  bool
	open    sync.WaitGroup // goroutines
}

// result is what one call of a batch returns.
type result[R any] struct {
	value R
	err   error
}

// errAlone is the result of a call that its batch did not run, and that runs alone.
var errAlone = errors.New("not run with the batch")

var errClosed = errors.New("the store is closed")

// member is one call in a batcher.
type member[T, R any] struct {
	ctx  context.Context // its values are used for a batch, its end is not
	call T
	result[R]
	done chan struct{} // closed when result is set
}

func (m *member[T, R]) finish(value R, err error) {
	m.value, m.err = value, err
	close(m.done)
}

// do runs a call in a batch and returns its result. If ctx ends first, do returns
// ctx's error, and the call may still take effect.
func (b *batcher[T, R]) do(ctx context.Context, call T) (none R, err error) {
	if err := ctx.Err(); err != nil {
		return none, err
	}
	m := &member[T, R]{ctx: ctx, call: call, done: make(chan struct{})}
	if err := b.join(m); err != nil {
		return none, err
	}
	select {
	case <-m.done:
		return m.value, m.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// join adds a call, and starts a goroutine for it if a slot is free.
func (b *batcher[T, R]) join(m *member[T, R]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	b.waiting = append(b.waiting, m)
	if b.running < b.slots {
		b.running++
		b.open.Go(b.work)
	}
	return nil
}

// work runs batches in one slot until no call waits.
func (b *batcher[T, R]) work() {
	for batch := b.next(); batch != nil; batch = b.next() {
		b.runBatch(batch)
	}
}

// next takes the next batch from the waiting calls, or frees the slot if none waits.
func (b *batcher[T, R]) next() []*member[T, R] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.waiting = nil
		b.running--
		return nil
	}
	if b.key == nil {
		n := min(len(b.waiting), b.limit)
		batch := b.waiting[:n:n]
		b.waiting = b.waiting[n:]
		return batch
	}
	var batch, rest []*member[T, R]
	taken := make(map[int64]struct{}, min(len(b.waiting), b.limit))
	for _, m := range b.waiting {
		key := b.key(m.call)
		if _, twice := taken[key]; twice || len(batch) == b.limit {
			rest = append(rest, m)
			continue
		}
		taken[key] = struct{}{}
		batch = append(batch, m)
	}
	b.waiting = rest
	return batch
}

func (b *batcher[T, R]) runBatch(batch []*member[T, R]) {
	ctx, cancel := b.bounded(batch[0])
	defer cancel()
	calls := make([]T, len(batch))
	for i, m := range batch {
		calls[i] = m.call
	}
	results, err := recovered(func() ([]result[R], error) { return b.run(ctx, calls) })
	for i, m := range batch {
		switch {
		case err == nil && !errors.Is(results[i].err, errAlone):
			m.finish(results[i].value, results[i].err)
		case err != nil && len(batch) == 1: // it has run alone
			m.finish(m.value, err)
		default:
			b.open.Go(func() { b.runAlone(m) })
		}
	}
}

func (b *batcher[T, R]) runAlone(m *member[T, R]) {
	ctx, cancel := b.bounded(m)
	defer cancel()
	m.finish(recovered(func() (R, error) { return b.alone(ctx, m.call) }))
}

// bounded returns a context with m's values and the batcher's own time limit.
func (b *batcher[T, R]) bounded(m *member[T, R]) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(m.ctx), b.timeout)
}

// recovered turns a panic of f into an error: it fails only the calls that f runs.
func recovered[R any](f func() (R, error)) (value R, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic of type %T\n%s", p, debug.Stack()) // its value may hold a secret
		}
	}()
	return f()
}

// close refuses further calls and waits for those that were accepted.
func (b *batcher[T, R]) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.open.Wait()
}
