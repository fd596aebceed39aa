package pluginmanager_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// freezesEndless is for tests that end only if a frozen process is noticed.
func freezesEndless(c *pluginmanager.Config) {
	quickHealth(c)
	c.Bake, c.DrainTimeout, c.CallTimeout = time.Hour, time.Hour, time.Hour
}

func TestAVersionThatFreezesOnTrialGivesWay(t *testing.T) {
	r := newSwapRig(t, freezesEndless)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	const callers = 4
	calls, stop := r.hammer(t, callers)
	eventually(t, "calls", func() bool { return calls.Load() > 20 })
	freeze(t, r.Status().PID)
	began := time.Now()
	r.wantBack(t, old)
	before := calls.Load()
	eventually(t, "calls", func() bool { return calls.Load() > before+20 })
	t.Logf("switched back after %v", time.Since(began))
	if failed := stop(); failed > callers { // those under way
		t.Errorf("%d calls failed", failed)
	}
	r.wantLostHung(t, "2.0.0")
}

// wantLostHung checks that the journal tells of a version that was lost because
// it hung.
func (r *swapRig) wantLostHung(t *testing.T, version string) {
	t.Helper()
	r.records.mu.Lock()
	defer r.records.mu.Unlock()
	if !slices.ContainsFunc(r.records.list, func(r pluginmanager.Event) bool {
		return r.Type == pluginmanager.EventProcessLost && r.Version == version && strings.Contains(r.Reason, "answers no health checks")
	}) {
		t.Errorf("journal: %+v", r.records.list)
	}
}

func TestAWarmProcessThatFreezesIsLostAndTheTrialGoesOn(t *testing.T) {
	r := newSwapRig(t, freezesEndless)
	r.start(t)
	old := r.Status().PID
	under := r.callUnderWay(t)
	r.use(t, "2.0.0")
	freeze(t, old)
	wantUnavailable(t, <-under)
	eventually(t, "the end of the old process", func() bool { return r.Status().Previous == nil && dead(old) })
	r.wantLostHung(t, "1.0.0")
	if s := r.Status(); s.State != pluginmanager.StateBaking || s.Version != "2.0.0" {
		t.Errorf("status: %+v", s)
	}
	r.wantState(t, plugincatalogue.State{Active: "1.0.0", Baking: "2.0.0"})
}

func TestARollbackToAFrozenProcessStartsItsVersionAnew(t *testing.T) {
	r := newSwapRig(t, func(c *pluginmanager.Config) {
		freezesEndless(c)
		c.HealthInterval = time.Hour // only the rollback looks
	})
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	freeze(t, old)
	calls, stop := r.hammer(t, 4)
	if err := r.Rollback(limited(t)); err != nil {
		t.Fatal(err)
	}
	r.wantServing(t, "1.0.0")
	before := calls.Load()
	eventually(t, "calls", func() bool { return calls.Load() > before+20 })
	if failed := stop(); failed != 0 {
		t.Errorf("%d calls failed", failed)
	}
	if r.Status().PID == old || !dead(old) {
		t.Error("the frozen process is still there")
	}
	r.wantLostHung(t, "1.0.0")
}

func TestCallsInAFrozenProcessHoldNothingUp(t *testing.T) {
	t.Run("its retirement", func(t *testing.T) {
		r := newSwapRig(t, func(c *pluginmanager.Config) {
			freezesEndless(c)
			c.Bake = -1
		})
		r.start(t)
		old := r.Status().PID
		under := r.callUnderWay(t)
		r.use(t, "2.0.0")
		eventually(t, "a settled version", func() bool { return r.records.has(pluginmanager.EventSwapCompleted) })
		freeze(t, old)
		wantUnavailable(t, <-under)
		eventually(t, "the end of the swap", func() bool { return r.Status().Swap == nil && dead(old) })
		r.wantServing(t, "2.0.0")
	})
	t.Run("a stop", func(t *testing.T) {
		r := newSwapRig(t, freezesEndless)
		r.start(t)
		under := r.callUnderWay(t)
		freeze(t, r.Status().PID)
		wantStopped(t, r.rig)
		wantUnavailable(t, <-under)
	})
	t.Run("a stop during the trial", func(t *testing.T) {
		r := newSwapRig(t, freezesEndless)
		r.start(t)
		old := r.Status().PID
		under := r.callUnderWay(t)
		r.use(t, "2.0.0")
		freeze(t, old)
		freeze(t, r.Status().PID)
		wantStopped(t, r.rig)
		wantUnavailable(t, <-under)
		if !dead(old) {
			t.Error("the old process is still there")
		}
	})
}

func TestAVersionThatAnswersHealthChecksAndNoCallsGivesWay(t *testing.T) {
	r := newSwapRig(t, func(c *pluginmanager.Config) {
		freezesEndless(c)
		c.CallTimeout = 2 * c.HealthTimeout
	})
	r.start(t)
	old := r.Status().PID
	r.folder.write("mode 2.0.0", hangsCalls)
	r.use(t, "2.0.0")
	_, stop := r.hammer(t, 24)
	r.wantBack(t, old)
	stop()
}
