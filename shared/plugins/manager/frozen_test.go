package manager_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// endless sets time limits under which a test ends only if the manager notices a
// frozen process.
func endless(c *manager.Config) {
	quickHealth(c)
	c.Bake, c.Limits().DrainTimeout, c.CallTimeout = time.Hour, time.Hour, time.Hour
}

func TestBake_FrozenVersionIsRolledBack(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, endless)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	const callers = 4
	calls, stop := r.hammer(t, callers)
	eventually(t, "calls", func() bool { return calls.Load() > 20 })
	freeze(t, r.Status().PID)
	began := time.Now()
	r.wantRolledBack(t, old)
	before := calls.Load()
	eventually(t, "calls", func() bool { return calls.Load() > before+20 })
	t.Logf("rolled back after %v", time.Since(began))
	if failed := stop(); failed > callers { // those under way
		t.Errorf("got %d failed calls, want only those under way, %d at most", failed, callers)
	}
	r.wantLostHung(t, "2.0.0")
}

// wantLostHung checks for the event that a version was lost because it hung.
func (r *swapRig) wantLostHung(t *testing.T, version string) {
	t.Helper()
	r.events.mu.Lock()
	defer r.events.mu.Unlock()
	if !slices.ContainsFunc(r.events.list, func(r manager.Event) bool {
		return r.Type == manager.EventProcessLost && r.Version == version && strings.Contains(r.Reason, "does not respond to health checks")
	}) {
		t.Errorf("got events %+v, want that %s was lost because it hung", r.events.list, version)
	}
}

func TestBake_GoesOnWhenOldProcessFreezes(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, endless)
	r.start(t)
	old := r.Status().PID
	under := r.callUnderWay(t)
	r.use(t, "2.0.0")
	freeze(t, old)
	wantUnavailable(t, <-under)
	eventually(t, "the end of the old process", func() bool { return r.Status().Previous == nil && dead(old) })
	r.wantLostHung(t, "1.0.0")
	if s := r.Status(); s.State != manager.StateBaking || s.Version != "2.0.0" {
		t.Errorf("got status %+v, want that 2.0.0 bakes", s)
	}
	r.wantState(t, catalogue.State{Active: "1.0.0", Baking: "2.0.0"})
}

func TestRollback_FrozenOldProcessIsStartedAnew(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) {
		endless(c)
		c.Limits().HealthInterval = time.Hour // only the rollback checks
	})
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	freeze(t, old)
	calls, stop := r.hammer(t, 4)
	r.rollBack(t)
	r.wantServing(t, "1.0.0")
	before := calls.Load()
	eventually(t, "calls", func() bool { return calls.Load() > before+20 })
	if failed := stop(); failed != 0 {
		t.Errorf("got %d failed calls, want none", failed)
	}
	if r.Status().PID == old || !dead(old) {
		t.Error("got the frozen process alive, want another one")
	}
	r.wantLostHung(t, "1.0.0")
}

func TestFrozenProcess_CallsDoNotBlock(t *testing.T) {
	t.Parallel()
	t.Run("retirement", func(t *testing.T) {
		t.Parallel()
		r := newSwapRig(t, func(c *manager.Config) {
			endless(c)
			c.Bake = -1
		})
		r.start(t)
		old := r.Status().PID
		under := r.callUnderWay(t)
		r.use(t, "2.0.0")
		eventually(t, "a completed bake", func() bool { return r.events.has(manager.EventSwapSettled) })
		freeze(t, old)
		wantUnavailable(t, <-under)
		eventually(t, "the end of the swap", func() bool { return r.Status().Swap == nil && dead(old) })
		r.wantServing(t, "2.0.0")
	})
	t.Run("stop during the bake", func(t *testing.T) {
		t.Parallel()
		r := newSwapRig(t, endless)
		r.start(t)
		old := r.Status().PID
		under := r.callUnderWay(t)
		r.use(t, "2.0.0")
		freeze(t, old)
		freeze(t, r.Status().PID)
		wantStopped(t, r.rig)
		wantUnavailable(t, <-under)
		if !dead(old) {
			t.Error("got a living old process, want that it was killed")
		}
	})
}

func TestBake_VersionThatAnswersNoCallIsRolledBack(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) {
		endless(c)
		c.CallTimeout = 2 * c.Limits().HealthTimeout
	})
	r.start(t)
	old := r.Status().PID
	r.folder.write("mode 2.0.0", hangsCalls)
	r.use(t, "2.0.0")
	_, stop := r.flood(t, 24)
	r.wantRolledBack(t, old)
	stop()
}
