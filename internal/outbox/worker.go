package outbox

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
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
	Insist   []Kind        // kinds that are tried for as long as the store keeps them; others for a day

	once sync.Once
	wake chan struct{}
}

func (w *Worker) init() {
	w.once.Do(func() {
		w.wake = make(chan struct{}, 1)
		w.Parallel = orElse(w.Parallel, 4)
		w.Poll = orElse(w.Poll, time.Second)
		w.Lease = orElse(w.Lease, time.Minute)
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
// way, each of which may take as long as its lease: what was begun, a mail say,
// is better finished than done twice.
func (w *Worker) Run(ctx context.Context) {
	w.init()
	var running sync.WaitGroup
	defer running.Wait()
	free := make(chan struct{}, w.Parallel)
	for range w.Parallel {
		free <- struct{}{}
	}
	for {
		slots := takeAll(ctx, free)
		if ctx.Err() != nil {
			return
		}
		jobs, err := w.Store.ClaimJobs(ctx, w.kinds(), w.Store.Now().Add(w.Lease), slots)
		if err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "the outbox could not be read", slog.Any("error", err))
		}
		for _, j := range jobs {
			running.Go(func() {
				w.do(context.WithoutCancel(ctx), j)
				free <- struct{}{}
				w.Wake() // another may have waited for this one
			})
		}
		for range slots - len(jobs) {
			free <- struct{}{}
		}
		if len(jobs) == slots {
			continue // there may be more, as soon as there is room
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-time.After(w.Poll):
		}
	}
}

func (w *Worker) kinds() []Kind { return slices.Collect(maps.Keys(w.Handlers)) }

// takeAll waits until there is room for a job and returns for how many there is.
func takeAll(ctx context.Context, free <-chan struct{}) (slots int) {
	select {
	case <-free:
	case <-ctx.Done():
		return 0
	}
	for slots = 1; ; slots++ {
		select {
		case <-free:
		default:
			return slots
		}
	}
}

// do does one job and settles it.
func (w *Worker) do(ctx context.Context, j Job) {
	err := w.handle(ctx, j)
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if err == nil {
		w.report(ctx, j, "a job that was done could not be removed", w.Store.FinishJob(ctx, j))
		return
	}
	log := w.Log.With(slog.String("kind", string(j.Kind)), slog.Int64("job", j.ID), slog.Int("attempts", j.Attempts), slog.Any("error", err))
	if now := w.Store.Now(); slices.Contains(w.Insist, j.Kind) || now.Sub(j.Created) < giveUp {
		log.WarnContext(ctx, "a job failed and will be tried again")
		w.report(ctx, j, "a failed job could not be put back", w.Store.RetryJob(ctx, j, now.Add(backoff(j.Attempts))))
		return
	}
	log.ErrorContext(ctx, "a job failed too often and was dropped")
	w.report(ctx, j, "a dropped job could not be removed", w.Store.FinishJob(ctx, j))
}

// handle runs the job's handler within its lease. A panic is a failure of this
// job alone.
func (w *Worker) handle(ctx context.Context, j Job) (err error) {
	ctx, cancel := context.WithTimeout(ctx, w.Lease)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic of type %T\n%s", p, debug.Stack()) // its value may hold a secret
		}
	}()
	return w.Handlers[j.Kind](ctx, j)
}

func (w *Worker) report(ctx context.Context, j Job, what string, err error) {
	if err != nil {
		w.Log.WarnContext(ctx, what, slog.Int64("job", j.ID), slog.Any("error", err))
	}
}

const (
	settleTime = 5 * time.Second // what settling a job may take
	giveUp     = 24 * time.Hour  // the age at which a failing job is dropped
)

// backoff is the pause before another try: twice as long after each, from a
// second to ten minutes, and never quite the same, so that jobs which failed
// together do not come back together.
func backoff(attempts int) time.Duration {
	pause := min(time.Second<<min(attempts-1, 20), 10*time.Minute)
	return pause/2 + rand.N(pause/2)
}
