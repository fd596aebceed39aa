// Package outbox runs work that must happen although it can fail: mails and
// events. A job is written in the transaction of what caused it, leased by a
// worker, and retried until it succeeds: for a day, or, for the worker's KeepTrying
// kinds, for as long as the store holds it. When a lease expires because the worker
// died, the job is due again, so no job stays in progress for ever, and jobs of
// KeepTrying kinds run at least once.
package outbox

import (
	"cmp"
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

// Kind names what a job is for.
type Kind string

// Job is one piece of work.
type Job struct {
	ID        int64
	Kind      Kind
	Payload   []byte // JSON; holds no secret that could be used by a reader of the database
	Created   time.Time
	Attempts  int   // started attempts, including the running one
	Lease     int64 // of this claim; a later claim of the same job has another
	AccountID int64 // the job's account; 0: none
}

// Store keeps jobs. Times are the database clock's.
type Store interface {
	// ClaimJobs leases up to n due jobs of the given kinds, the oldest first, until
	// the given time. No other claim gets them before. A store may hold a job back
	// until another one that comes before it is done.
	ClaimJobs(ctx context.Context, kinds []Kind, until time.Time, n int) ([]Job, error)
	// FinishJob removes a job, unless another claim holds it by now.
	FinishJob(ctx context.Context, j Job) error
	// RetryJob ends the lease and makes the job due at the given time.
	RetryJob(ctx context.Context, j Job, due time.Time) error
	// Now is the database's time.
	Now() time.Time
}

// Handler runs one job. After an error the job is retried.
type Handler func(ctx context.Context, j Job) error

// Worker claims due jobs and runs them. Several nodes may run workers on one store.
type Worker struct {
	Store    Store
	Handlers map[Kind]Handler
	Log      *slog.Logger

	Parallel   int           // jobs at once; 0: 4
	Poll       time.Duration // interval of looking for jobs without being woken; 0: 1s
	Lease      time.Duration // lease and deadline of a job; 0: 1m
	KeepTrying []Kind        // kinds that are retried for as long as the store holds them; others for a day

	once sync.Once
	wake chan struct{}
}

func (w *Worker) init() {
	w.once.Do(func() {
		w.wake = make(chan struct{}, 1)
		w.Parallel = cmp.Or(w.Parallel, 4)
		w.Poll = cmp.Or(w.Poll, time.Second)
		w.Lease = cmp.Or(w.Lease, time.Minute)
	})
}

// Wake makes the worker look for jobs. It never blocks, and may be called whether or
// not the worker runs.
func (w *Worker) Wake() {
	w.init()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run runs jobs until ctx ends. It then claims no more and waits for the running
// ones, each of which may take as long as its lease: finishing a mail is better than
// sending it twice.
func (w *Worker) Run(ctx context.Context) {
	w.init()
	var running sync.WaitGroup
	defer running.Wait()
	kinds := slices.Collect(maps.Keys(w.Handlers))
	free := make(chan struct{}, w.Parallel)
	for range w.Parallel {
		free <- struct{}{}
	}
	for {
		slots := takeAll(ctx, free)
		if ctx.Err() != nil {
			return
		}
		jobs, err := w.Store.ClaimJobs(ctx, kinds, w.Store.Now().Add(w.Lease), slots)
		if err != nil && ctx.Err() == nil {
			w.Log.WarnContext(ctx, "the outbox could not be read", slog.Any("error", err))
		}
		for _, j := range jobs {
			running.Go(func() {
				w.run(context.WithoutCancel(ctx), j)
				free <- struct{}{}
				w.Wake() // another job may have waited for this one
			})
		}
		for range slots - len(jobs) {
			free <- struct{}{}
		}
		if len(jobs) == slots {
			continue // there may be more jobs
		}
		select {
		case <-ctx.Done():
		case <-w.wake:
		case <-time.After(w.Poll):
		}
	}
}

// takeAll waits for a free slot and takes all that are free.
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

// run runs one job and finishes it or schedules its retry.
func (w *Worker) run(ctx context.Context, j Job) {
	const (
		storeTimeout = 5 * time.Second
		giveUp       = 24 * time.Hour // the age at which a failing job is dropped
	)
	err := w.handle(ctx, j)
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	log := w.Log.With(slog.String("kind", string(j.Kind)), slog.Int64("job", j.ID), slog.Int("attempts", j.Attempts))
	now := w.Store.Now()
	var stored error
	switch {
	case err == nil:
		stored = w.Store.FinishJob(ctx, j)
	case slices.Contains(w.KeepTrying, j.Kind) || now.Sub(j.Created) < giveUp:
		log.WarnContext(ctx, "a job failed and will be retried", slog.Any("error", err))
		stored = w.Store.RetryJob(ctx, j, now.Add(backoff(j.Attempts)))
	default:
		log.ErrorContext(ctx, "a job failed too often and was dropped", slog.Any("error", err))
		stored = w.Store.FinishJob(ctx, j)
	}
	if stored != nil {
		log.WarnContext(ctx, "the result of a job could not be stored; it will run again", slog.Any("error", stored))
	}
}

// handle calls the job's handler with the lease as its deadline. A panic fails only
// this job.
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

// backoff is the delay before a retry: it doubles from a second to ten minutes, and
// is random by half, so that jobs that failed together are not retried together.
func backoff(attempts int) time.Duration {
	delay := min(time.Second<<min(attempts-1, 20), 10*time.Minute)
	return delay/2 + rand.N(delay/2)
}
