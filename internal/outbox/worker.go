// Package outbox runs work that must happen although it can fail: mails and
// events. A job is written in the transaction of what caused it, leased by a
// worker, and retried until it succeeds: for a day, or, for the worker's RetriedWhileStored
// kinds, for as long as the store holds it. When a lease expires because the worker
// died, the job is due again, so no job stays in progress for ever, and jobs of
// RetriedWhileStored kinds run at least once.
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

	LastAttempt int // it is not retried after this one; 0: no such limit
}

// Claim asks for due jobs.
type Claim struct {
	Kinds []Kind        // in no other claim of the call
	N     int           // jobs at most
	Lease time.Duration // no other claim gets the jobs before it has passed
}

// Store keeps jobs. Times are the database clock's.
type Store interface {
	// ClaimJobs leases due jobs, of each claim the oldest first. The leases begin after
	// the call does. A store may hold a job back until another one that comes before it
	// is done.
	ClaimJobs(ctx context.Context, claims ...Claim) ([]Job, error)
	// FinishJobs removes claimed jobs, but none that another claim holds by now. After
	// an error it has removed none, or all of them if only the response was lost.
	FinishJobs(ctx context.Context, jobs ...Job) error
	// HoldJob renews the lease of a claimed job, which begins anew after the call does. It returns
	// false if the job is gone, or another claim holds it by now.
	HoldJob(ctx context.Context, j Job, lease time.Duration) (held bool, err error)
	// RetryJob ends the lease, makes the job due at the given time and stores its LastAttempt.
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

// ErrOver is wrapped by the error of a handler whose job is not to be retried.
var ErrOver = errors.New("the job is over")

// LimitedError is the error of a handler whose job may have succeeded. It is retried More times at most,
// of which the first such error of the job decides, a minute and ten minutes after each other.
type LimitedError struct {
	Err  error
	More int
}

// Error is that of the cause.
func (e *LimitedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *LimitedError) Unwrap() error { return e.Err }

// Handler runs one job. After an error the job is retried.
type Handler func(ctx context.Context, j Job) error

// Group is kinds of jobs that share slots. Jobs that hang hold only slots of their group.
type Group struct {
	Kinds    []Kind
	Parallel int           // jobs at once; 0: 8
	Lease    time.Duration // of a job; 0: 1m. A run has five sixths of it, the claim included

	// Longest is how long a run may take whose lease the worker renews; 0: no lease is renewed. A run
	// of more than ten seconds leaves its slot to another job, until Most run at once; 0: Parallel.
	Longest time.Duration
	Most    int

	// OneReceiver says that all jobs go to the same receiver. After three failures in a row it
	// gets one job at a time until one succeeds.
	OneReceiver bool
}

// Worker claims due jobs and runs them. Several nodes may run workers on one store.
//
// It works in rounds: a round finishes the jobs that have been run, and claims due ones
// for the free slots. Rounds are a moment apart, so that under load one transaction
// serves several jobs; a job that comes after a pause is claimed at once.
type Worker struct {
	Store    Store
	Handlers map[Kind]Handler
	Groups   []Group // the other kinds are their own group
	Log      *slog.Logger

	Poll               time.Duration // interval of looking for jobs without being woken; 0: 1s
	RetriedWhileStored []Kind        // kinds that are retried for as long as the store holds them; others for a day

	TracerProvider trace.TracerProvider // makes spans of jobs with a span, see WithSpan; nil: none

	// Observe is called after each run of a job. It must be fast and safe for concurrent
	// use; nil for none.
	Observe func(k Kind, o Outcome, took time.Duration)

	once sync.Once
	wake chan struct{}
}

const (
	// roundInterval is the time from a round that wrote to the next one. A round that
	// took all slots of a group, or jobs for which others wait, is followed by the next one
	// as soon as the group's jobs have ended.
	roundInterval  = 50 * time.Millisecond
	storeTimeout   = 5 * time.Second
	giveUpAge      = 24 * time.Hour // the age at which a failing job is dropped
	giveUpAttempts = 100            // and so many attempts, which take most of a day: the clock alone may be wrong
	probeAfter     = 3              // failures in a row of a receiver
	slowAfter      = 10 * time.Second
)

func (w *Worker) init() {
	w.once.Do(func() {
		w.wake = make(chan struct{}, 1)
		w.Poll = cmp.Or(w.Poll, time.Second)
	})
}

// group is a group at work. Only [Worker.Run] uses it.
type group struct {
	Group
	running  map[claimID]time.Time // when the runs have started
	full     bool                  // the last claim took all free slots, or a job for which others wait: more jobs may be due
	failures int                   // in a row
}

// claimID names a claim of a job.
type claimID struct{ job, lease int64 }

func (j Job) claim() claimID { return claimID{j.ID, j.Lease} }

// groups returns the groups with the kinds that have a handler.
func (w *Worker) groups() (groups []*group) {
	others := slices.Sorted(maps.Keys(w.Handlers))
	add := func(g Group) {
		g.Parallel = cmp.Or(g.Parallel, 8)
		g.Lease = cmp.Or(g.Lease, time.Minute)
		g.Most = max(g.Most, g.Parallel)
		groups = append(groups, &group{Group: g, running: map[claimID]time.Time{}})
	}
	for _, g := range w.Groups {
		of := func(k Kind) bool { return slices.Contains(g.Kinds, k) }
		kinds := slices.DeleteFunc(slices.Clone(others), func(k Kind) bool { return !of(k) })
		others = slices.DeleteFunc(others, of)
		g.Kinds = kinds
		add(g)
	}
	add(Group{Kinds: others})
	return groups
}

// probing reports whether the group's receiver has failed too often to get several jobs at
// once.
func (g *group) probing() bool { return g.OneReceiver && g.failures >= probeAfter }

// free is the number of jobs that may be claimed.
func (g *group) free() int {
	if g.probing() {
		return max(0, 1-len(g.running))
	}
	slots := g.Parallel
	for _, began := range g.running {
		if g.Longest == 0 || time.Since(began) < slowAfter {
			slots--
		}
	}
	return min(slots, g.Most-len(g.running))
}

// drained reports whether the next round need not wait: more jobs may be due, and nothing of
// the group runs. A receiver that fails is tried after a pause only.
func (g *group) drained() bool { return g.full && len(g.running) == 0 && !g.probing() }

// deadline returns when a run must have ended whose claim began at the given time: its
// result is stored before the lease ends.
func (g *group) deadline(claimed time.Time) time.Time { return claimed.Add(g.Lease - g.Lease/6) }

// Wake makes the worker look for jobs. It never blocks, and may be called whether or
// not the worker runs.
func (w *Worker) Wake() {
	w.init()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// RunDue runs the jobs that are due, instead of [Worker.Run]: one after the other, so that their order is
// always the same. It returns when all results are stored, or when ctx has ended. Jobs that have come
// from jobs are left to the next call.
func (w *Worker) RunDue(ctx context.Context) {
	groups := w.groups()
	for due := true; due && ctx.Err() == nil; {
		claimed := time.Now()
		jobs := w.claim(ctx, groups)
		due = len(jobs) > 0 && slices.ContainsFunc(groups, func(g *group) bool { return g.full })
		var finished []Job
		for _, j := range jobs {
			e := w.run(ctx, j, claimed)
			if e.finished {
				finished = append(finished, e.job)
			}
			delete(j.group.running, j.job.claim())
			due = due || !e.finished && !e.failed // it goes on
		}
		w.finish(ctx, finished)
	}
}

// Run runs jobs until ctx ends. It then claims no more and waits for the running
// ones, each of which may take as long as its lease, or as the Longest of its group: finishing a
// mail is better than sending it twice.
func (w *Worker) Run(ctx context.Context) {
	w.init()
	groups := w.groups()
	ended := make(chan ending)
	running := 0
	var finished []Job // to be removed from the store
	end := func(e ending) {
		running--
		delete(e.group.running, e.job.claim())
		w.judge(ctx, e)
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
	paused, due := false, true
	for ctx.Err() == nil {
		if due && (!paused || slices.ContainsFunc(groups, (*group).drained)) {
			written := len(finished) > 0
			w.finish(ctx, finished)
			finished = nil
			claimed := time.Now()
			jobs := w.claim(ctx, groups)
			for _, j := range jobs {
				running++
				go func() { ended <- w.run(context.WithoutCancel(ctx), j, claimed) }()
			}
			due = slices.ContainsFunc(groups, func(g *group) bool { return g.full })
			paused = written || len(jobs) > 0
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

// claimedJob is a job in a slot of its group.
type claimedJob struct {
	group *group
	job   Job
}

// ending is the end of a run. The job is finished unless a retry is scheduled.
type ending struct {
	claimedJob
	finished, failed bool
}

// claim claims jobs for the free slots and gives them theirs. Failures are only logged.
func (w *Worker) claim(ctx context.Context, groups []*group) []claimedJob {
	var claims []Claim
	for _, g := range groups {
		if n := g.free(); n > 0 && len(g.Kinds) > 0 {
			g.full = false
			claims = append(claims, Claim{Kinds: g.Kinds, N: n, Lease: g.Lease})
		}
	}
	if len(claims) == 0 {
		return nil
	}
	jobs, err := w.Store.ClaimJobs(ctx, claims...)
	if err != nil && ctx.Err() == nil {
		w.Log.WarnContext(ctx, "the outbox could not be read", slog.Any("error", err))
	}
	claimed := make([]claimedJob, len(jobs))
	for i, j := range jobs {
		g := groups[slices.IndexFunc(groups, func(g *group) bool { return slices.Contains(g.Kinds, j.Kind) })]
		claimed[i] = claimedJob{g, j}
		g.running[j.claim()] = time.Now()
		g.full = g.full || g.free() == 0 || j.Followed
	}
	return claimed
}

// judge counts the failures of a group's receiver.
func (w *Worker) judge(ctx context.Context, e ending) {
	g, before := e.group, e.group.probing()
	g.failures++
	if !e.failed {
		g.failures = 0
	}
	switch now := g.probing(); {
	case now && !before:
		w.Log.WarnContext(ctx, "jobs keep failing; one at a time is tried until one succeeds: check what the host does with them",
			slog.Any("kinds", g.Kinds))
	case before && !now:
		w.Log.InfoContext(ctx, "a job has succeeded; several run at once again", slog.Any("kinds", g.Kinds))
	}
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

// run runs one job whose claim began at the given time. It schedules a retry, or reports
// that the job is finished.
func (w *Worker) run(ctx context.Context, c claimedJob, claimed time.Time) ending {
	j := c.job
	ctx, span := w.startSpan(ctx, j)
	began := time.Now()
	err := w.handle(ctx, c, claimed)
	if limited, ok := errors.AsType[*LimitedError](err); ok && j.LastAttempt == 0 {
		j.LastAttempt = j.Attempts + limited.More
	}
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
		return ending{claimedJob: c, finished: true}
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	log := w.Log.With(slog.String("kind", string(j.Kind)), slog.Int64("job", j.ID), slog.Int("attempts", j.Attempts))
	if outcome == Dropped {
		log.ErrorContext(ctx, "a job failed too often and was dropped", slog.Any("error", err))
		return ending{claimedJob: c, finished: true, failed: true}
	}
	due := w.Store.Now()
	if !again {
		log.WarnContext(ctx, "a job failed and will be retried", slog.Any("error", err))
		due = due.Add(backoff(j))
	}
	if err := w.Store.RetryJob(ctx, j, due); err != nil {
		log.WarnContext(ctx, "the result of a job could not be stored; it will run again", slog.Any("error", err))
	}
	return ending{claimedJob: c, failed: !again}
}

// outcome classifies the error of a run.
func (w *Worker) outcome(j Job, err error) Outcome {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, ErrOver), j.LastAttempt != 0 && j.Attempts >= j.LastAttempt:
		return Dropped
	case !slices.Contains(w.RetriedWhileStored, j.Kind) && j.Attempts >= giveUpAttempts && w.Store.Now().Sub(j.Created) >= giveUpAge:
		return Dropped
	}
	return Failed
}

// errLate is the error of a job that was claimed too late to be run.
var errLate = errors.New("claiming the job took as long as its lease allows it to run")

// errCrashed is the error of a job whose last attempt was never stored.
var errCrashed = fmt.Errorf("%w: its last attempt was cut off", ErrOver)

// handle calls the job's handler, unless the deadline has passed. A panic fails only this
// job.
func (w *Worker) handle(ctx context.Context, c claimedJob, claimed time.Time) (err error) {
	j, deadline := c.job, c.group.deadline(claimed)
	if !time.Now().Before(deadline) {
		return errLate
	}
	if j.LastAttempt != 0 && j.Attempts > j.LastAttempt {
		return errCrashed
	}
	if c.group.Longest > 0 {
		var release func()
		ctx, release = w.hold(ctx, c, claimed)
		defer release()
		deadline = claimed.Add(c.group.Longest)
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic of type %T\n%s", p, debug.Stack()) // its value may hold a secret
		}
	}()
	return w.Handlers[j.Kind](ctx, j)
}

// hold renews the lease of a job until release is called. The context ends before the lease does: if
// it cannot be renewed, or the job is gone.
func (w *Worker) hold(ctx context.Context, c claimedJob, claimed time.Time) (_ context.Context, release func()) {
	g := c.group
	ctx, cancel := context.WithCancel(ctx)
	expiry := time.AfterFunc(time.Until(g.deadline(claimed)), cancel)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		renewal := time.NewTicker(g.Lease / 3)
		defer renewal.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-renewal.C:
			}
			began := time.Now()
			attempt, stop := context.WithTimeout(ctx, storeTimeout)
			held, err := w.Store.HoldJob(attempt, c.job, g.Lease)
			stop()
			switch {
			case err == nil && !held:
				cancel()
			case err == nil:
				expiry.Reset(time.Until(g.deadline(began)))
			}
		}
	})
	return ctx, func() {
		cancel()
		expiry.Stop()
		renewing.Wait()
	}
}

// backoff is the delay before a retry: it doubles from a second to ten minutes, and
// is random by half, so that jobs that failed together are not retried together. The few attempts of a
// job that may have succeeded are a minute and ten minutes apart.
func backoff(j Job) time.Duration {
	const longest = 10 * time.Minute
	delay := min(time.Second<<min(j.Attempts-1, 20), longest)
	switch left := j.LastAttempt - j.Attempts; {
	case j.LastAttempt == 0:
	case left == 1:
		delay = longest
	default:
		delay = max(delay, time.Minute)
	}
	return delay/2 + rand.N(delay/2)
}
