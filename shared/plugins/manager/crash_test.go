package manager_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

func TestKill_CallsSucceedOrAreUnavailable(t *testing.T) {
	r := newRig(t, good, nil)
	r.start(t)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var succeeded, unavailable atomic.Int64
	const callers, kills = 4, 3
	for range callers {
		group.Go(func() {
			for ctx.Err() == nil {
				_, err := r.servingPID(ctx)
				switch {
				case err == nil:
					succeeded.Add(1)
				case ctx.Err() == nil:
					unavailable.Add(1)
					wantUnavailable(t, err)
				}
			}
		})
	}
	for range kills {
		before := succeeded.Load()
		eventually(t, "calls that succeed", func() bool { return succeeded.Load() > before+20 })
		r.restart(t)
	}
	stop()
	group.Wait()
	// One call of each caller may be under way in a process that is killed; the
	// next ones wait for the restart.
	if got := unavailable.Load(); got > 2*callers*kills {
		t.Errorf("got %d failed calls in %d kills with %d callers, want at most two per caller and kill", got, kills, callers)
	}
	if got := r.Status().Restarts; got != kills {
		t.Errorf("got %d restarts, want %d", got, kills)
	}
}

// restart kills the live process and waits until another one serves.
func (r *rig) restart(t *testing.T) (pid int) {
	t.Helper()
	pid = r.Status().PID
	signalProcess(t, pid, syscall.SIGKILL)
	return r.awaitRestart(t, pid)
}

// awaitRestart waits until another process than before serves.
func (r *rig) awaitRestart(t *testing.T, before int) int {
	t.Helper()
	eventually(t, "that another process serves", func() bool {
		s := r.Status()
		return s.State == manager.StateServing && s.PID != before
	})
	return r.Status().PID
}

func TestInvoke_LostProcessIsUnavailableAndNotRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, nil)
	r.start(t)
	before := r.Status().PID
	wantUnavailable(t, r.service.Recover(limited(t), personal.RecoverRequest{Login: "exit"}))
	r.wantServedByOther(t, before)
	s := r.Status()
	late := strings.Contains(s.LastError, "connection to the plugin process was lost") // a busy machine learns of the exit later
	if s.Restarts != 1 || !strings.Contains(s.LastError, "exit status 5") && !late {
		t.Errorf("got status %+v, want one restart: the call killed one process", s)
	}
}

func TestHealth_FrozenProcessIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, quickHealth)
	r.start(t)
	before := r.Status().PID
	freeze(t, before)
	wantUnavailable(t, r.service.Recover(limited(t), personal.RecoverRequest{}))
	r.wantServedByOther(t, before)
	if !dead(before) {
		t.Error("got a living frozen process, want that it was killed")
	}
}

func quickHealth(c *manager.Config) {
	c.Limits().HealthInterval = 20 * time.Millisecond
	c.Limits().HealthTimeout = 500 * time.Millisecond
	c.Limits().ActivateTimeout = 500 * time.Millisecond
}

// oftenHealth checks often, and waits for results as long as they take.
func oftenHealth(c *manager.Config) {
	c.Limits().HealthInterval = 20 * time.Millisecond
	c.Limits().HealthTimeout, c.Limits().ActivateTimeout = generous, generous
}

func TestHealth_UnhealthyProcessIsNotReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t, unhealthyLater, oftenHealth)
	r.start(t)
	eventually(t, "more health checks than the failures that prove that a process hangs", func() bool {
		return len(r.folder.all("unhealthy")) >= 5
	})
	if s := r.Status(); s.State != manager.StateServing || s.Restarts != 0 {
		t.Errorf("got status %+v, want that the process serves without restart", s)
	}
	if err := r.Ready(limited(t)); err == nil {
		t.Error("got that the plugin is ready, want an error")
	}
	if _, err := r.servingPID(limited(t)); err != nil {
		t.Error(err)
	}
}

// The database refuses a version once a newer one has migrated it elsewhere.
func TestHealth_ProcessThatStaysUnhealthyIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, refusedLater, oftenHealth)
	r.start(t)
	before := r.Status().PID
	eventually(t, "failure", func() bool { return r.Status().State == manager.StateFailed })
	if s := r.Status(); s.Restarts != 0 || !strings.Contains(s.LastError, "preflight: schema: the database is newer") {
		t.Errorf("got status %+v, want no restart and the refusal", s)
	}
	if !dead(before) {
		t.Error("got a living process, want that it has ended")
	}
	failedStarts := func() int { return strings.Count(r.log.String(), "plugin does not run") }
	eventually(t, "a failed start", func() bool { return failedStarts() > 0 }) // logged after the status has changed
	if n := failedStarts(); n != 1 {                                           // the next start is FailureRetry later
		t.Errorf("got %d failed starts, want 1", n)
	}
	_, err := r.servingPID(limited(t))
	wantUnavailable(t, err)
	r.folder.write("mode", good)
	if err := r.Use(limited(t), "1.0.0"); err != nil { // an administrator need not wait for it
		t.Error(err)
	}
}

func TestCrashLoop_FailsAndIsTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, exitsActive, func(c *manager.Config) { c.Limits().FailureRetry = 2 * time.Second })
	r.begin(t)
	eventually(t, "failure", func() bool { return r.Status().State == manager.StateFailed })
	if s := r.Status(); s.Restarts != 4 || !strings.Contains(s.LastError, "crashed 5 times") {
		t.Errorf("got status %+v, want 4 restarts and a crash loop as the error", s)
	}
	if strings.Contains(r.log.String(), "settling the plugin") {
		t.Error("got a call of Settle in a process that did not begin its work, want none")
	}
	_, err := r.servingPID(limited(t))
	wantUnavailable(t, err)
	r.folder.write("mode", good)
	eventually(t, "another start", func() bool { return r.Status().State == manager.StateServing })
	if _, err := r.servingPID(limited(t)); err != nil {
		t.Error(err)
	}
}

func TestLog_FloodDoesNotBlock(t *testing.T) {
	t.Parallel()
	r := newRig(t, floods, nil)
	r.start(t)
	for range 20 {
		if _, err := r.servingPID(limited(t)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a line with its level", func() bool {
		return strings.Contains(r.log.String(), "level=WARN msg=line plugin.version=1.0.0 plugin.generation=1 plugin.pid="+strconv.Itoa(r.Status().PID))
	})
	wantStopped(t, r)
}

// wantStopped stops the manager and checks that its process is gone.
func wantStopped(t *testing.T, r *rig) {
	t.Helper()
	pid := r.Status().PID
	if err := r.Stop(limited(t)); err != nil {
		t.Error(err)
	}
	if !dead(pid) {
		t.Errorf("got living process %d, want that it has ended", pid)
	}
	if strings.Contains(r.log.String(), "left running") {
		t.Error("got a process that was left running, want none")
	}
}

func TestStop_EndsAnyProcess(t *testing.T) {
	t.Parallel()
	quick := func(c *manager.Config) {
		c.Limits().DrainTimeout = 300 * time.Millisecond
		c.Limits().QuiesceTimeout = 300 * time.Millisecond
		c.Limits().ShutdownTimeout = 300 * time.Millisecond
	}
	for _, mode := range []string{ignoresShutdown, quiescesForever, hasGrandchild, hasLostGrandchild, floods} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, mode, quick)
			r.start(t)
			wantStopped(t, r)
			switch mode {
			case hasGrandchild: // Stop sends it SIGKILL, but does not await its end
				eventually(t, "the grandchild was killed", func() bool { return dead(r.noted(t, "grandchild")) })
			case hasLostGrandchild:
				signalProcess(t, r.noted(t, "grandchild"), syscall.SIGKILL)
			}
		})
	}
	t.Run("frozen", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, good, quick)
		r.start(t)
		freeze(t, r.Status().PID)
		result := make(chan error, 1)
		go func() { result <- r.service.Recover(limited(t), personal.RecoverRequest{}) }()
		wantStopped(t, r)
		wantUnavailable(t, <-result)
	})
	t.Run("frozen, cancelled stop", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, good, func(c *manager.Config) {
			c.Limits().DrainTimeout, c.Limits().QuiesceTimeout, c.Limits().ShutdownTimeout = time.Hour, time.Hour, time.Hour
		})
		r.start(t)
		pid := r.Status().PID
		freeze(t, pid)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Stop(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the stop was cut short", err)
		}
		if !dead(pid) {
			t.Error("got a living process, want that it was killed")
		}
	})
	t.Run("starting", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, hangsBefore, func(c *manager.Config) { c.Limits().StartTimeout = time.Hour })
		r.begin(t)
		pid := r.noted(t, "pid")
		if err := r.Stop(limited(t)); err != nil {
			t.Error(err)
		}
		if !dead(pid) {
			t.Error("got a living process, want that it was killed")
		}
	})
}

// noted waits for the note of a process, and returns its id.
func (r *rig) noted(t *testing.T, process string) int {
	t.Helper()
	eventually(t, "a process", func() bool { return r.exists(process) })
	pid, err := strconv.Atoi(r.folder.read(process))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestRestart_GrandchildThatHoldsStderrDoesNotDelay(t *testing.T) {
	t.Parallel()
	r := newRig(t, hasLostGrandchild, nil)
	r.start(t)
	first := r.noted(t, "grandchild")
	r.folder.write("mode", good)
	r.restart(t)
	signalProcess(t, first, syscall.SIGKILL)
}

func TestStop_CallsUnderWayFinish(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, func(c *manager.Config) { c.Limits().DrainTimeout = generous })
	r.start(t)
	result := r.callUnderWay(t)
	stopped := make(chan error, 1)
	go func() { stopped <- r.Stop(limited(t)) }()
	eventually(t, "draining", func() bool { return r.Status().State == manager.StateDraining })
	_, err := r.servingPID(limited(t))
	wantUnavailable(t, err)
	select {
	case err := <-stopped:
		t.Fatalf("got a stop (%v) during a call, want that it waits", err)
	case err := <-result:
		t.Fatalf("got the end of the call (%v), want that it goes on", err)
	default:
	}
	r.folder.write("go on", "yes")
	if err := <-result; err != nil {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestRestart_LeaksNothing(t *testing.T) {
	r := newRig(t, good, func(c *manager.Config) { c.Limits().CrashLimit = 100 })
	r.start(t)
	r.restart(t) // the first one creates what later ones use again
	goroutines, files := baseline(t)
	const restarts = 4
	for range restarts {
		r.restart(t)
	}
	eventually(t, "no more goroutines and files than before", func() bool {
		return runtime.NumGoroutine() < goroutines+restarts && openFiles(t) < files+restarts
	})
	if err := r.Stop(limited(t)); err != nil {
		t.Error(err)
	}
}

// baseline returns the numbers of goroutines and open files once they are steady.
func baseline(t *testing.T) (goroutines, files int) {
	t.Helper()
	same := 0
	eventually(t, "a steady number of goroutines and files", func() bool {
		g, f := runtime.NumGoroutine(), openFiles(t)
		if g == goroutines && f == files {
			same++
		} else {
			same, goroutines, files = 0, g, f
		}
		return same > 300
	})
	return goroutines, files
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
