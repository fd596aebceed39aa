package pluginmanager_test

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

func TestAVersionThatPassesItsTrialIsTheActiveOne(t *testing.T) {
	r := newSwapRig(t, func(c *pluginmanager.Config) { c.Bake = 200 * time.Millisecond })
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	eventually(t, "the end of the swap", func() bool { return r.Status().Swap == nil })
	if s := r.Status(); s.State != pluginmanager.StateServing || s.Version != "2.0.0" || !dead(old) {
		t.Errorf("status: %+v", s)
	}
	r.wantState(t, plugincatalogue.State{Active: "2.0.0", LastGood: "1.0.0"})
	want := []pluginmanager.EventType{pluginmanager.EventSwapStarted, pluginmanager.EventSwitched, pluginmanager.EventSwapCompleted}
	if got := r.records.kinds(); !slices.Equal(got, want) {
		t.Errorf("journal: %v", got)
	}

	if err := r.Rollback(limited(t)); err != nil { // no process is warm
		t.Fatal(err)
	}
	r.wantServing(t, "1.0.0")
	r.wantState(t, plugincatalogue.State{Active: "2.0.0", LastGood: "1.0.0", Baking: "1.0.0"})
	eventually(t, "the end of the swap", func() bool { return r.Status().Swap == nil })
	r.wantState(t, plugincatalogue.State{Active: "1.0.0"})
}

func TestACrashDuringTheTrialSwitchesBackWithoutARestart(t *testing.T) {
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	calls, stop := r.hammer(t, 4)
	eventually(t, "calls", func() bool { return calls.Load() > 20 })
	signalProcess(t, r.Status().PID, syscall.SIGKILL)
	r.wantBack(t, old)
	before := calls.Load()
	eventually(t, "calls", func() bool { return calls.Load() > before+20 })
	if failed := stop(); failed > 8 { // those under way
		t.Errorf("%d calls failed", failed)
	}
	if !r.records.has(pluginmanager.EventProcessLost) {
		t.Errorf("journal: %v", r.records.kinds())
	}
}

func TestAVersionThatIsRemovedDuringItsTrialGivesWay(t *testing.T) {
	r := newSwapRig(t, func(c *pluginmanager.Config) { c.Bake = 500 * time.Millisecond })
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	if err := r.catalogue.Remove("2.0.0"); !errors.Is(err, plugincatalogue.ErrInUse) {
		t.Errorf("removed on trial: %v", err)
	}
	r.vanish(t, "2.0.0")
	r.wantBack(t, old)
}

// vanish removes a version by hand.
func (r *swapRig) vanish(t *testing.T, version string) {
	t.Helper()
	entry, err := r.catalogue.Find(version)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(entry.Dir); err != nil {
		t.Fatal(err)
	}
}

func TestARollbackLeavesAVersionThatVanishedOnTrialWithoutItsOldProcess(t *testing.T) {
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	signalProcess(t, old, syscall.SIGKILL)
	eventually(t, "the end of the old process", func() bool { return r.Status().Previous == nil })
	r.vanish(t, "2.0.0")
	if err := r.Rollback(limited(t)); err != nil {
		t.Fatal(err)
	}
	r.wantServing(t, "1.0.0")
	r.wantState(t, plugincatalogue.State{Active: "1.0.0", Baking: "1.0.0"})
}

func TestARefusedSwapLeavesATrialAsItIs(t *testing.T) {
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	r.folder.write("mode 1.0.0", failsPreflight)
	wantSwapError(t, r.Use(limited(t), "1.0.0"), "preflight")
	r.wantState(t, plugincatalogue.State{Active: "1.0.0", Baking: "2.0.0"})
	if s := r.Status(); s.State != pluginmanager.StateBaking || s.Previous == nil || s.Previous.PID != old {
		t.Errorf("status: %+v", s)
	}
	if err := r.Rollback(limited(t)); err != nil {
		t.Fatal(err)
	}
	r.wantServing(t, "1.0.0")
}

func TestAVersionThatDiesInEveryStartGivesWayToTheLastGoodOne(t *testing.T) {
	for _, mode := range []string{exitsBefore, exitsConfiguring} {
		t.Run(mode, func(t *testing.T) {
			r := newSwapRig(t, nil)
			r.folder.write("mode 2.0.0", mode)
			if err := r.catalogue.SaveState(plugincatalogue.State{Active: "2.0.0", LastGood: "1.0.0"}); err != nil {
				t.Fatal(err)
			}
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the last good version", func() bool { s := r.Status(); return s.Version == "1.0.0" && s.State.Serves() })
			r.wantState(t, plugincatalogue.State{Active: "1.0.0"})
		})
	}
}

func TestThereMustBeAWayBackAlsoWhileTheOldVersionIsStartedAnew(t *testing.T) {
	r := newSwapRig(t, nil)
	r.start(t)
	r.folder.write("mode 1.0.0", exitsConfiguring) // it stays on its way
	signalProcess(t, r.Status().PID, syscall.SIGKILL)
	eventually(t, "a restart", func() bool { return r.Status().State == pluginmanager.StateRestarting })
	r.folder.write("mode 2.0.0", leavesNoWayBack)
	wantSwapError(t, r.Use(limited(t), "2.0.0"), "preflight")
}

// wantBack waits until the old process serves again.
func (r *swapRig) wantBack(t *testing.T, old int) {
	t.Helper()
	eventually(t, "the old process serves and works again", func() bool {
		s := r.Status()
		return s.State == pluginmanager.StateServing && s.PID == old && s.Previous == nil && s.Swap == nil
	})
	if !r.records.has(pluginmanager.EventRolledBack) || r.Status().Restarts != 0 {
		t.Errorf("journal: %v, status: %+v", r.records.kinds(), r.Status())
	}
	r.wantState(t, plugincatalogue.State{Active: "1.0.0"})
}

func TestAVersionThatFailsItsCallsGivesWay(t *testing.T) {
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.folder.write("mode 2.0.0", failsCalls)
	r.use(t, "2.0.0")
	_, stop := r.hammer(t, 4)
	r.wantBack(t, old)
	if failed := stop(); failed < 20 {
		t.Errorf("it was judged by %d calls", failed)
	}
}

func TestAVersionThatIsNotHealthyGivesWay(t *testing.T) {
	for _, mode := range []string{unhealthyLater, deafLater} {
		t.Run(mode, func(t *testing.T) {
			r := newSwapRig(t, quickHealth)
			r.start(t)
			old := r.Status().PID
			r.folder.write("mode 2.0.0", mode)
			r.use(t, "2.0.0")
			r.wantBack(t, old)
		})
	}
}

func TestRollbackGoesBackToTheWarmProcess(t *testing.T) {
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	if err := r.Rollback(limited(t)); err != nil {
		t.Fatal(err)
	}
	if s := r.Status(); s.PID != old {
		t.Errorf("status: %+v", s)
	}
	r.wantBack(t, old)
	r.use(t, "2.0.0") // and it keeps nobody from trying again
	r.wantServing(t, "2.0.0")
}

func TestWithoutItsOldProcessATrialGoesOn(t *testing.T) {
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	tried := r.Status().PID
	signalProcess(t, old, syscall.SIGKILL)
	eventually(t, "the end of the old process", func() bool { return r.Status().Previous == nil })
	r.wantServing(t, "2.0.0")
	signalProcess(t, tried, syscall.SIGKILL) // then the version before is started
	eventually(t, "the version before", func() bool { s := r.Status(); return s.Version == "1.0.0" && s.State.Serves() })
	r.wantOneCopy(t)
	r.wantState(t, plugincatalogue.State{Active: "1.0.0"})
}

func TestASwapHelpsWhereTheActiveVersionDoesNotStart(t *testing.T) {
	r := newSwapRig(t, nil)
	r.folder.write("mode 1.0.0", refusesSettings)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "failure", func() bool { return r.Status().State == pluginmanager.StateFailed })
	r.use(t, "2.0.0")
	r.wantServing(t, "2.0.0")
	if _, err := r.answerer(limited(t)); err != nil {
		t.Error(err)
	}
	r.wantState(t, plugincatalogue.State{Active: "2.0.0"}) // there is nothing good to go back to
}

func TestACrashLoopGivesWayToTheLastGoodVersion(t *testing.T) {
	r := newSwapRig(t, nil)
	r.folder.write("mode 2.0.0", exitsActive)
	if err := r.catalogue.SaveState(plugincatalogue.State{Active: "2.0.0", LastGood: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the last good version", func() bool { s := r.Status(); return s.Version == "1.0.0" && s.State.Serves() })
	r.wantState(t, plugincatalogue.State{Active: "1.0.0"})
	if !r.records.has(pluginmanager.EventFellBack) {
		t.Errorf("journal: %v", r.records.kinds())
	}
	r.wantOneCopy(t)
}

func TestStopDuringATrialEndsBothProcessesAndSettlesNothing(t *testing.T) {
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	wantStopped(t, r.rig)
	if !dead(old) {
		t.Error("the old process is still there")
	}
	r.wantState(t, plugincatalogue.State{Active: "1.0.0"})
}
