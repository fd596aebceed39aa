package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Handler does one job. A nil error means it is done for good; any other, that
// it is to be tried again.
type Handler func(ctx context.Context, j Job) error

// Worker claims due jobs and does them. It may be run on several nodes at once.
type Worker struct {
	Store    Store
	Handlers map[Kind]Handler
	Log      *slog.Logger

	Parallel int           // jobs at once; 4 if 0
	Poll     time.Duration // how often to look without being woken; 1s if 0
	Lease    time.Duration // what a job may take, also its deadline; 1m if 0
	GiveUp   time.Duration // the age at which a failing job is dropped; 24h if 0

	once sync.Once
	wake chan struct{}
}

func (w *Worker) init() {
	w.once.Do(func() {
		w.wake = make(chan struct{}, 1)
		w.Parallel = orElse(w.Parallel, 4)
		w.Poll = orElse(w.Poll, time.Second)
		w.Lease = orElse(w.Lease, time.Minute)
		w.GiveUp = orElse(w.GiveUp, 24*time.Hour)
	})
}

func orElse[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}

// Wake says that a job was stored. It never blocks, and may be called whether or
// not the worker runs.
func (w *Worker) Wake() {
	w.init()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run does jobs until ctx ends. It then claims no more and waits for those under
// way, whose contexts end with ctx: what is not finished is due again at once.
func (w *Worker) Run(ctx context.Context) {
	w.init()
	for ctx.Err() == nil {
		claimed, err := w.round(ctx)
		if err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "the outbox could not be read", slog.Any("error", err))
		}
		if claimed == w.Parallel {
			continue // there may be more
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-time.After(w.Poll):
		}
	}
}

// round claims as many jobs as may run at once, and does them.
func (w *Worker) round(ctx context.Context) (int, error) {
	until := w.Store.Now().Add(w.Lease)
	jobs, err := w.Store.ClaimJobs(ctx, slices.Collect(maps.Keys(w.Handlers)), until, w.Parallel)
	if err != nil {
		return 0, err
	}
	var running sync.WaitGroup
	for _, j := range jobs {
		running.Go(func() { w.do(ctx, j) })
	}
	running.Wait()
	return len(jobs), nil
}

// do does one job and settles it. Settling outlives ctx: a job that was done
// must not be done again because the worker was told to stop.
func (w *Worker) do(ctx context.Context, j Job) {
	err := w.handle(ctx, j)
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err == nil {
		w.report(ctx, j, "a job that was done could not be removed", w.Store.FinishJob(settle, j))
		return
	}
	if now := w.Store.Now(); now.Sub(j.Created) < w.GiveUp {
		w.Log.WarnContext(ctx, "a job failed and will be tried again",
			slog.String("kind", string(j.Kind)), slog.Int64("job", j.ID), slog.Int("attempts", j.Attempts), slog.Any("error", err))
		due := now
		if ctx.Err() == nil {
			due = now.Add(backoff(j.Attempts))
		}
		w.report(ctx, j, "a failed job could not be put back", w.Store.RetryJob(settle, j, due))
		return
	}
	w.Log.ErrorContext(ctx, "a job failed too often and was dropped",
		slog.String("kind", string(j.Kind)), slog.Int64("job", j.ID), slog.Int("attempts", j.Attempts), slog.Any("error", err))
	w.report(ctx, j, "a dropped job could not be removed", w.Store.FinishJob(settle, j))
}

// handle runs the job's handler within its lease. A panic is a failure of this
// job alone.
func (w *Worker) handle(ctx context.Context, j Job) (err error) {
	ctx, cancel := context.WithTimeout(ctx, w.Lease)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return w.Handlers[j.Kind](ctx, j)
}

func (w *Worker) report(ctx context.Context, j Job, what string, err error) {
	if err != nil {
		w.Log.WarnContext(ctx, what, slog.Int64("job", j.ID), slog.Any("error", err))
	}
}

// What settling a job may take.
const settleTime = 5 * time.Second

// backoff is the pause before another try: twice as long after each, from a
// second to ten minutes, and never quite the same, so that jobs which failed
// together do not come back together.
func backoff(attempts int) time.Duration {
	pause := min(time.Second<<min(attempts-1, 20), 10*time.Minute)
	return pause/2 + rand.N(pause/2)
}
