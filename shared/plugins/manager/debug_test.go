package manager_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugins/manager"
)

// limit is a time limit that a paused process soon exceeds.
const limit = 500 * time.Millisecond

func impatientOnceReady(c *manager.Config) {
	c.Limits().HealthInterval, c.Limits().HealthTimeout, c.CallTimeout, c.Limits().ActivateTimeout = limit/10, limit, limit, limit
}

func impatient(c *manager.Config) {
	impatientOnceReady(c)
	c.Limits().StartTimeout, c.Limits().ConfigureTimeout, c.Limits().PreflightTimeout, c.Limits().MigrateTimeout, c.Limits().CheckTimeout = limit, limit, limit, limit, limit
}

func debugged(c *manager.Config) {
	impatient(c)
	c.Debug = true
}

func TestDebug_PausedProcessSurvivesAndFinishesItsCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, debugged)
	r.start(t)
	pid := r.Status().PID
	under := r.callUnderWay(t)
	freeze(t, pid)

	// Another manager has the same limits, but no debugger: when it has lost two
	// processes, they have passed twice.
	other := newRig(t, good, impatientOnceReady)
	other.start(t)
	for range 2 {
		var before manager.Status
		eventually(t, "a process that serves", func() bool { before = other.Status(); return before.State.Serves() && before.PID > 0 })
		freeze(t, before.PID)
		eventually(t, "a restart", func() bool { return other.Status().Restarts > before.Restarts })
	}

	r.folder.write("go on", "yes")
	signalProcess(t, pid, syscall.SIGCONT)
	if err := <-under; err != nil {
		t.Errorf("got %v from the call under way, want success", err)
	}
	if s := r.Status(); s.PID != pid || s.Restarts != 0 {
		t.Errorf("got status %+v, want process %d without a restart", s, pid)
	}
}

func TestDebug_PausedStartGoesOn(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{hangsBefore, hangsConfiguring, blocksIn + "preflight", blocksIn + "migrate"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r, other := newRig(t, mode, debugged), newRig(t, mode, impatient)
			for _, m := range []*rig{r, other} {
				m.begin(t)
			}
			eventually(t, "a failure without a debugger", func() bool { return other.Status().LastError != "" })
			pid := r.noted(t, "pid")
			eventually(t, "a process that serves", func() bool {
				signalProcess(t, pid, syscall.SIGUSR2) // ends the block
				return r.Status().State.Serves()
			})
			if s := r.Status(); s.PID != pid || s.LastError != "" {
				t.Errorf("got status %+v, want process %d and no failure", s, pid)
			}
		})
	}
}

func TestDebug_ServesWithoutHealthChecks(t *testing.T) {
	t.Parallel()
	r := newRig(t, blocksIn+"check", debugged)
	r.start(t)
	if err := r.Ready(limited(t)); err == nil {
		t.Error("got ready, want that a process without a response is not")
	}
}
