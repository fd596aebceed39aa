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
// alone, and gets its own result when that has ended. A caller that is cancelled leaves;
// its call is dropped if it still waits. In a batch it runs, and the batch is neither
// cancelled nor delayed.
//
// The calls of a failed batch run again, each alone, beside later batches. So run
// must have no effect if it fails, or one that a repetition tolerates.
type batcher[T, R any] struct {
	slots        int            // batches that run at once
	limit        int            // calls in a batch
	batchTimeout time.Duration  // of a batch: how long one that hangs occupies its slot
	timeout      time.Duration  // of a call that runs alone
	key          func(T) int64  // at most one call of a key is in a batch; nil: any number
	observe      func(size int) // is told the size of each batch

	// run runs a batch and returns the result of each call in the same order, or
	// fails as a whole.
	run func(ctx context.Context, calls []T) ([]result[R], error)
	// alone runs a call of a failed batch, or one whose result is errAlone.
	alone func(ctx context.Context, call T) (R, error)

	mu      sync.Mutex
	waiting []*acceptedCall[T, R] // in order of arrival
	running int                   // slots in use
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

// acceptedCall is a call in a batcher, with its result.
type acceptedCall[T, R any] struct {
	ctx  context.Context // the caller's; a batch has its values, but not its end
	call T
	result[R]
	done chan struct{} // closed when result is set
}

func (c *acceptedCall[T, R]) finish(value R, err error) {
	c.value, c.err = value, err
	close(c.done)
}

// do runs a call in a batch and returns its result. If ctx ends first, do returns
// ctx's error, and the call may still take effect.
func (b *batcher[T, R]) do(ctx context.Context, call T) (none R, err error) {
	if err := ctx.Err(); err != nil {
		return none, err
	}
	c := &acceptedCall[T, R]{ctx: ctx, call: call, done: make(chan struct{})}
	if err := b.join(c); err != nil {
		return none, err
	}
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// join adds a call, and starts a goroutine for it if a slot is free.
func (b *batcher[T, R]) join(c *acceptedCall[T, R]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return errClosed
	}
	b.waiting = append(b.waiting, c)
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
func (b *batcher[T, R]) next() []*acceptedCall[T, R] {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch, rest []*acceptedCall[T, R]
	taken := make(map[int64]struct{}, min(len(b.waiting), b.limit))
	for i, c := range b.waiting {
		if len(batch) == b.limit {
			rest = append(rest, b.waiting[i:]...)
			break
		}
		if err := c.ctx.Err(); err != nil { // in an outage such calls would pile up
			c.finish(c.value, err)
			continue
		}
		if b.key != nil {
			key := b.key(c.call)
			if _, twice := taken[key]; twice {
				rest = append(rest, c)
				continue
			}
			taken[key] = struct{}{}
		}
		batch = append(batch, c)
	}
	b.waiting = rest
	if len(batch) == 0 { // then no call waits
		b.running--
	}
	return batch
}

func (b *batcher[T, R]) runBatch(batch []*acceptedCall[T, R]) {
	ctx, cancel := bounded(batch[0].ctx, b.batchTimeout)
	defer cancel()
	calls := make([]T, len(batch))
	for i, c := range batch {
		calls[i] = c.call
	}
	b.observe(len(calls))
	results, err := recovered(func() ([]result[R], error) { return b.run(ctx, calls) })
	// A single call need not be repeated, unless it only lacked the time.
	lackedTime := ctx.Err() != nil || isTimeLimit(err)
	final := err != nil && len(batch) == 1 && (!lackedTime || b.batchTimeout >= b.timeout)
	for i, c := range batch {
		switch {
		case err == nil && !errors.Is(results[i].err, errAlone):
			c.finish(results[i].value, results[i].err)
		case final:
			c.finish(c.value, err)
		default:
			b.open.Go(func() { b.runAlone(c) })
		}
	}
}

// runAlone runs a call until its caller's deadline at most.
func (b *batcher[T, R]) runAlone(c *acceptedCall[T, R]) {
	if err := c.ctx.Err(); err != nil {
		c.finish(c.value, err)
		return
	}
	ctx, cancel := bounded(c.ctx, b.timeout)
	defer cancel()
	if deadline, ok := c.ctx.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	c.finish(recovered(func() (R, error) { return b.alone(ctx, c.call) }))
}

// bounded returns a context with the values of a caller's context and a time limit of
// its own.
func bounded(caller context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(caller), limit)
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
