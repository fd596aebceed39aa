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
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/tracing"
)

// Kind names what a job is for.
type Kind string

// Job is one piece of work.
type Job struct {
	ID        int64
	Kind      Kind
	Payload   []byte // JSON; holds no secret that could be used by a reader of the database; see WithSpan
	Created   time.Time
	Due       time.Time // when it runs next; while it is leased, the end of the lease
	Attempts  int       // started attempts, including the running one
	Lease     int64     // of this claim; a later claim of the same job has another
	AccountID int64     // the job's account; 0: none
	Followed  bool      // when it was claimed, other jobs of its account and kind waited for it
}

// Store keeps jobs. Times are the database clock's.
type Store interface {
	// ClaimJobs leases up to n due jobs of the given kinds, the oldest first, until
	// the given time. No other claim gets them before. A store may hold a job back
	// until another one that comes before it is done.
	ClaimJobs(ctx context.Context, kinds []Kind, until time.Time, n int) ([]Job, error)
	// FinishJobs removes claimed jobs, but none that another claim holds by now. After
	// an error it has removed none, or all of them if only the response was lost.
	FinishJobs(ctx context.Context, jobs ...Job) error
	// RetryJob ends the lease and makes the job due at the given time.
	RetryJob(ctx context.Context, j Job, due time.Time) error
	// Now is the database's time.
	Now() time.Time
}

// Outcome says how a run of a job ended.
type Outcome string

// The outcomes of runs.
const (
	Done    Outcome = "done"
	Failed  Outcome = "failed"  // it will be retried
	Dropped Outcome = "dropped" // it failed, and is not retried
)

// Backlog describes the jobs of a kind that are not done.
type Backlog struct {
	Jobs   int
	Oldest time.Time // when the oldest was created
}

// ErrAgain is what a handler returns when it has done a part of its job: the job is due
// again at once, without a warning. A long job runs in parts, so that none outlives its
// lease or delays the end of [Worker.Run].
var ErrAgain = errors.New("the job is to be continued")

// Handler runs one job. After an error the job is retried.
type Handler func(ctx context.Context, j Job) error

// Worker claims due jobs and runs them. Several nodes may run workers on one store.
//
// It works in rounds: a round finishes the jobs that have been run, and claims due ones
// for the free slots. Rounds are a moment apart, so that under load one transaction
// serves several jobs; a job that comes after a pause is claimed at once.
type Worker struct {
	Store    Store
	Handlers map[Kind]Handler
	Log      *slog.Logger

	Parallel   int           // jobs at once; 0: 8
	Poll       time.Duration // interval of looking for jobs without being woken; 0: 1s
	Lease      time.Duration // lease and deadline of a job; 0: 1m
	KeepTrying []Kind        // kinds that are retried for as long as the store holds them; others for a day

	TracerProvider trace.TracerProvider // makes spans of jobs with a span, see WithSpan; nil: none

	// Observe is called after each run of a job. It must be fast and safe for concurrent
	// use; nil for none.
	Observe func(k Kind, o Outcome, took time.Duration)

	once sync.Once
	wake chan struct{}
}

const (
	// roundInterval is the time from a round that wrote to the next one. A round that
	// took all slots, or jobs for which others wait, is followed by the next one as soon
	// as its jobs have ended.
	roundInterval = 50 * time.Millisecond
	storeTimeout  = 5 * time.Second
	giveUp        = 24 * time.Hour // the age at which a failing job is dropped
)

func (w *Worker) init() {
	w.once.Do(func() {
		w.wake = make(chan struct{}, 1)
		w.Parallel = cmp.Or(w.Parallel, 8)
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
	kinds := slices.Collect(maps.Keys(w.Handlers))
	ended := make(chan ending, w.Parallel)
	running := 0
	var finished []Job // to be removed from the store
	end := func(e ending) {
		running--
		if e.finished {
			finished = append(finished, e.job)
		}
	}
	defer func() {
		for running > 0 {
			w.finish(ctx, finished)
			finished = nil
			end(<-ended)
		}
		w.finish(ctx, finished)
	}()
	poll, pause := time.NewTimer(w.Poll), time.NewTimer(0)
	defer poll.Stop()
	defer pause.Stop()
	paused, due, full := false, true, false
	for ctx.Err() == nil {
		if due && (!paused || full && running == 0) {
			free := w.Parallel - running
			written := len(finished) > 0
			w.finish(ctx, finished)
			finished = nil
			jobs := w.claim(ctx, kinds, free)
			for _, j := range jobs {
				running++
				go func() { ended <- ending{j, w.run(context.WithoutCancel(ctx), j)} }()
			}
			// There may be more jobs, or some that wait for these.
			full = free > 0 && len(jobs) == free || slices.ContainsFunc(jobs, func(j Job) bool { return j.Followed })
			due, paused = full, written || len(jobs) > 0
			pause.Reset(roundInterval)
			poll.Reset(w.Poll)
		}
		select {
		case <-ctx.Done():
		case e := <-ended:
			end(e)
			due = true // another job may have waited for this one
		case <-w.wake:
			due = true
		case <-poll.C:
			due = true
		case <-pause.C:
			paused = false
		}
	}
}

// ending is the end of a run. The job is finished unless a retry is scheduled.
type ending struct {
	job      Job
	finished bool
}

// claim claims up to n jobs. Failures are only logged.
func (w *Worker) claim(ctx context.Context, kinds []Kind, n int) []Job {
	if n == 0 {
		return nil
	}
	jobs, err := w.Store.ClaimJobs(ctx, kinds, w.Store.Now().Add(w.Lease), n)
	if err != nil && ctx.Err() == nil {
		w.Log.WarnContext(ctx, "the outbox could not be read", slog.Any("error", err))
	}
	return jobs
}

// finish removes jobs from the store, even if ctx has ended. It tries twice, because the
// first connection may have been lost. Jobs that it cannot remove run again when their
// leases have expired.
func (w *Worker) finish(ctx context.Context, jobs []Job) {
	if len(jobs) == 0 {
		return
	}
	finish := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		return w.Store.FinishJobs(ctx, jobs...)
	}
	err := finish()
	if err != nil {
		err = finish()
	}
	if err != nil {
		w.Log.WarnContext(ctx, "the results of jobs could not be stored; they will run again",
			slog.Int("jobs", len(jobs)), slog.Any("error", err))
	}
}

// run runs one job. It schedules a retry, or reports that the job is finished.
func (w *Worker) run(ctx context.Context, j Job) (finished bool) {
	ctx, span := w.startSpan(ctx, j)
	began := time.Now()
	err := w.handle(ctx, j)
	again := errors.Is(err, ErrAgain)
	if again {
		err = nil
	}
	outcome := w.outcome(j, err)
	if span != nil {
		tracing.End(span, err != nil)
	}
	if w.Observe != nil {
		w.Observe(j.Kind, outcome, time.Since(began))
	}
	if outcome == Done && !again {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	log := w.Log.With(slog.String("kind", string(j.Kind)), slog.Int64("job", j.ID), slog.Int("attempts", j.Attempts))
	if outcome == Dropped {
		log.ErrorContext(ctx, "a job failed too often and was dropped", slog.Any("error", err))
		return true
	}
	due := w.Store.Now()
	if !again {
		log.WarnContext(ctx, "a job failed and will be retried", slog.Any("error", err))
		due = due.Add(backoff(j.Attempts))
	}
	if err := w.Store.RetryJob(ctx, j, due); err != nil {
		log.WarnContext(ctx, "the result of a job could not be stored; it will run again", slog.Any("error", err))
	}
	return false
}

// outcome classifies the error of a run.
func (w *Worker) outcome(j Job, err error) Outcome {
	switch {
	case err == nil:
		return Done
	case !slices.Contains(w.KeepTrying, j.Kind) && w.Store.Now().Sub(j.Created) >= giveUp:
		return Dropped
	}
	return Failed
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
