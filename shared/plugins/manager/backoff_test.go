package manager

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager/internal/process"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestAttempts_FailedStartsBackOffWithinLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := attempts{limits: defaultLimits}
		limit := a.limits.BackoffMin
		for n := range rapid.IntRange(1, 200).Draw(t, "failures") {
			f := a.startFailed(errors.New("away"))
			if f.wait <= 0 || f.wait > limit {
				t.Fatalf("failure %d: got a wait of %v, want up to %v", n+1, f.wait, limit)
			}
			if f.permanent || f.fallBack || f.refuseCalls != (n+1 >= maxWaitingStarts) {
				t.Fatalf("failure %d: got %+v, want a temporary failure that refuses calls from number %d on", n+1, f, maxWaitingStarts)
			}
			limit = min(2*limit, a.limits.BackoffMax)
		}
		a.succeeded()
		if f := a.startFailed(errors.New("away")); f.wait > a.limits.BackoffMin || f.refuseCalls {
			t.Fatalf("after a success: got %+v, want the shortest backoff", f)
		}
	})
}

func TestAttempts_PermanentErrorIsRetriedSlowly(t *testing.T) {
	for _, test := range []struct {
		err      error
		fallBack bool
	}{
		{&rpc.PermanentError{Reason: "bad settings"}, false},
		{&catalogue.RefusedError{Kind: catalogue.ErrTampered}, true},
		{&catalogue.RefusedError{Kind: catalogue.ErrInvalid}, true}, // for another machine, for example
		{&catalogue.RefusedError{Kind: catalogue.ErrNoExec}, false}, // no version can run there
	} {
		a := attempts{limits: defaultLimits}
		f := a.startFailed(fmt.Errorf("starting: %w", &StepError{Step: "configure", Err: test.err}))
		if !f.permanent || !f.refuseCalls || f.wait != a.limits.FailureRetry || f.fallBack != test.fallBack {
			t.Errorf("%v: got %+v, want a permanent failure with fallBack %v", test.err, f, test.fallBack)
		}
	}
}

func TestAttempts_DeathsInEveryStartFallBack(t *testing.T) {
	a := attempts{limits: defaultLimits}
	for n := range a.limits.CrashLimit {
		f := a.startFailed(&StepError{Step: "start", Err: errors.New("exit status 3")})
		if want := n+1 == a.limits.CrashLimit; f.fallBack != want {
			t.Errorf("death %d: got fallBack %v, want %v", n+1, f.fallBack, want)
		}
	}
	if f := a.startFailed(&StepError{Step: "preflight", Err: errors.New("away")}); f.fallBack {
		t.Errorf("after a start that the process survived: got %+v, want no fallBack", f)
	}
}

func TestAttempts_OnlyCrashesInARowAreACrashLoop(t *testing.T) {
	a := attempts{limits: defaultLimits}
	died := errors.New("exit status 1")
	young, old := crashWindow-1, crashWindow
	for i, lived := range []time.Duration{young, young, young, young, old, young, young, young, young} {
		if f := a.died("1.0.0", died, lived); f != nil {
			t.Fatalf("death %d: got %+v, want no failure", i+1, f)
		}
	}
	for range 2 { // the first crash after the wait is one too many again
		f := a.died("1.0.0", died, young)
		if f == nil || !f.permanent || !f.refuseCalls || !f.fallBack || f.wait != a.limits.FailureRetry || !errors.Is(f.cause, died) {
			t.Errorf("got %+v, want a permanent failure", f)
		}
	}
	if f := a.died("2.0.0", died, young); f != nil {
		t.Errorf("another version's first crash: got %+v, want no failure", f)
	}
}

func TestAttempts_FullDiskIsNoPermanentError(t *testing.T) {
	a := attempts{limits: defaultLimits}
	err := &StepError{Step: "stage", Err: &durable.FullError{Dir: "/data", Err: syscall.ENOSPC}}
	for range 2 * a.limits.CrashLimit {
		if f := a.startFailed(err); f.permanent || f.fallBack {
			t.Fatalf("got %+v, want a temporary failure", f)
		}
	}
}

func TestAttempts_ProcessKilledFromOutsideHasNotCrashed(t *testing.T) {
	a := attempts{limits: defaultLimits}
	for range 100 {
		if f := a.died("1.0.0", process.ErrKilled, 0); f != nil {
			t.Fatalf("got %+v, want no failure", f)
		}
	}
}
