package manager_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestBake_PassedVersionBecomesActive(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { c.Bake = time.Second })
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	eventually(t, "the end of the swap", func() bool { return r.Status().Swap == nil })
	if s := r.Status(); s.State != manager.StateServing || s.Version != "2.0.0" || !dead(old) {
		t.Errorf("got status %+v, want that only 2.0.0 serves", s)
	}
	r.wantState(t, catalogue.State{Active: "2.0.0", LastGood: "1.0.0"})
	want := []manager.EventType{manager.EventSwapStarted, manager.EventRehearsed, manager.EventSwitched,
		manager.EventSwapSettled}
	if got := r.events.types(); !slices.Equal(got, want) {
		t.Errorf("got events %v, want %v", got, want)
	}

	r.rollBack(t) // no process is warm
	r.wantServing(t, "1.0.0")
	r.wantState(t, catalogue.State{Active: "2.0.0", LastGood: "1.0.0", Baking: "1.0.0"})
	eventually(t, "the end of the swap", func() bool { return r.Status().Swap == nil })
	r.wantState(t, catalogue.State{Active: "1.0.0"})
}

func TestBake_CrashRollsBackWithoutRestart(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	calls, stop := r.hammer(t, 4)
	eventually(t, "calls", func() bool { return calls.Load() > 20 })
	signalProcess(t, r.Status().PID, syscall.SIGKILL)
	r.wantRolledBack(t, old)
	before := calls.Load()
	eventually(t, "calls", func() bool { return calls.Load() > before+20 })
	if failed := stop(); failed > 8 { // only those under way
		t.Errorf("got %d failed calls, want only those under way, 8 at most", failed)
	}
	if !r.events.has(manager.EventProcessLost) {
		t.Errorf("got events %v, want a lost process", r.events.types())
	}
}

func TestBake_RemovedVersionIsRolledBack(t *testing.T) {
	t.Parallel()
	var r *swapRig
	r = newSwapRig(t, func(c *manager.Config) {
		c.Bake = 20 * time.Millisecond
		add := c.OnEvent
		c.OnEvent = func(e manager.Event) {
			add(e)
			if e.Type != manager.EventSwitched { // the bake ends after it
				return
			}
			if err := r.catalogue.Remove("2.0.0"); !errors.Is(err, catalogue.ErrInUse) {
				t.Errorf("removing the version that bakes: got %v, want that it is in use", err)
			}
			r.removeByHand(t, "2.0.0")
		}
	})
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	r.wantRolledBack(t, old)
}

// removeByHand removes a version from the disk, not through the catalogue.
func (r *swapRig) removeByHand(t *testing.T, version string) {
	t.Helper()
	entry, err := r.catalogue.Find(version)
	if err == nil {
		err = os.RemoveAll(entry.Dir)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestRollback_FromRemovedVersionWithoutOldProcess(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	signalProcess(t, old, syscall.SIGKILL)
	eventually(t, "the end of the old process", func() bool { return r.Status().Previous == nil })
	r.removeByHand(t, "2.0.0")
	r.rollBack(t)
	r.wantServing(t, "1.0.0")
	r.wantState(t, catalogue.State{Active: "1.0.0", Baking: "1.0.0"})
}

// TestBake_FailureAtItsEndIsInTheStatus lets the state of the catalogue not be stored, as on a full disk.
func TestBake_FailureAtItsEndIsInTheStatus(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newSwapRig(t, func(c *manager.Config) {
		c.Catalogue, c.Bake = linkedCatalogueIn(t, dir), 2*time.Second
	})
	r.start(t)
	r.use(t, "2.0.0")
	state := filepath.Join(dir, "state.json")
	if err := errors.Join(os.Rename(state, state+".old"), os.MkdirAll(filepath.Join(state, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "that the status says why the bake goes on", func() bool { return strings.Contains(r.detail("bake"), "the bake cannot end: ") })
	if s := r.Status().State; s != manager.StateBaking {
		t.Errorf("got the state %s, want baking", s)
	}
	if err := errors.Join(os.RemoveAll(state), os.Rename(state+".old", state)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the bake", func() bool { return r.Status().State == manager.StateServing && r.detail("bake") == "" })
}

func TestBake_GoesOnAfterRefusedSwap(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	r.folder.write("mode 1.0.0", failsPreflight)
	wantSwapError(t, r.Use(limited(t), "1.0.0"), "preflight")
	r.wantState(t, catalogue.State{Active: "1.0.0", Baking: "2.0.0"})
	if s := r.Status(); s.State != manager.StateBaking || s.Previous == nil || s.Previous.PID != old {
		t.Errorf("got status %+v, want that 2.0.0 bakes and process %d is warm", s, old)
	}
	r.rollBack(t)
	r.wantServing(t, "1.0.0")
}

// wantFallBack starts with 2.0.0, which fails in the given mode, and waits until
// 1.0.0, the last good version, has replaced it.
func (r *swapRig) wantFallBack(t *testing.T, mode string) {
	t.Helper()
	r.folder.write("mode 2.0.0", mode)
	if err := r.catalogue.SaveState(catalogue.State{Active: "2.0.0", LastGood: "1.0.0"}); err != nil {
		t.Fatal(err)
	}
	r.begin(t)
	eventually(t, "that the last good version serves", func() bool { s := r.Status(); return s.Version == "1.0.0" && s.State.Serves() })
	r.wantState(t, catalogue.State{Active: "1.0.0"})
}

// atSecondCrash makes a version fail at its second crash in a row.
func atSecondCrash(c *manager.Config) { c.Limits().CrashLimit = 2 }

func TestPreflight_RefusesSchemaThatPreventsRollbackDuringRestart(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	r.folder.write("mode 1.0.0", exitsConfiguring) // so that the restart does not succeed
	signalProcess(t, r.Status().PID, syscall.SIGKILL)
	eventually(t, "a restart", func() bool { return r.Status().State == manager.StateRestarting })
	r.folder.write("mode 2.0.0", preventsRollback)
	wantSwapError(t, r.Use(limited(t), "2.0.0"), "preflight")
}

// wantRolledBack waits until the old process serves again.
func (r *swapRig) wantRolledBack(t *testing.T, old int) {
	t.Helper()
	eventually(t, "that the old process serves again", func() bool {
		s := r.Status()
		return s.State == manager.StateServing && s.PID == old && s.Previous == nil && s.Swap == nil
	})
	if !r.events.has(manager.EventRolledBack) || r.Status().Restarts != 0 {
		t.Errorf("got events %v and status %+v, want a rollback without restart", r.events.types(), r.Status())
	}
	r.wantState(t, catalogue.State{Active: "1.0.0"})
}

func TestBake_VersionThatFailsCallsIsRolledBack(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.folder.write("mode 2.0.0", failsCalls)
	r.use(t, "2.0.0")
	_, stop := r.hammer(t, 4)
	r.wantRolledBack(t, old)
	if failed := stop(); failed < 20 {
		t.Errorf("got a rollback after %d failed calls, want at least 20", failed)
	}
}

func TestBake_UnhealthyVersionIsRolledBack(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, quickHealth)
	r.start(t)
	old := r.Status().PID
	r.folder.write("mode 2.0.0", unhealthyLater)
	r.use(t, "2.0.0")
	r.wantRolledBack(t, old)
}

func TestRollback_ReturnsToWarmProcess(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	before := r.Switches()
	r.use(t, "2.0.0")
	during := r.Switches()
	r.rollBack(t)
	if s := r.Status(); s.PID != old {
		t.Errorf("got status %+v, want that process %d serves", s, old)
	}
	if after := r.Switches(); before != 1 || during != 2 || after != 3 {
		t.Errorf("got %d, %d, %d switches, want 1, 2, 3: a call that waited in a swap is not the old process's", before, during, after)
	}
	r.wantRolledBack(t, old)
	r.use(t, "2.0.0") // a rollback does not prevent another attempt
	r.wantServing(t, "2.0.0")
}

func TestBake_GoesOnWithoutOldProcess(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	tried := r.Status().PID
	signalProcess(t, old, syscall.SIGKILL)
	eventually(t, "the end of the old process", func() bool { return r.Status().Previous == nil })
	r.wantServing(t, "2.0.0")
	signalProcess(t, tried, syscall.SIGKILL) // the previous version is started then
	eventually(t, "that the previous version serves", func() bool { s := r.Status(); return s.Version == "1.0.0" && s.State.Serves() })
	if s := r.Status(); s.Swap != nil {
		t.Errorf("got swap %+v, want none", s.Swap)
	}
	r.wantOneCopy(t)
	r.wantState(t, catalogue.State{Active: "1.0.0"})
}

func TestUse_WorksWhileActiveVersionFails(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.folder.write("accounts", users)
	r.folder.write("mode 1.0.0", refusesSettings)
	r.begin(t)
	eventually(t, "failure", func() bool { return r.Status().State == manager.StateFailed })
	r.use(t, "2.0.0")
	r.wantServing(t, "2.0.0")
	if got := r.wantCheck(t, "same_answers", rpc.RehearsalSkipped); got.Reason != "no process serves" {
		t.Errorf("got %+v, want that none serves", got)
	}
	if _, err := r.servingPID(limited(t)); err != nil {
		t.Error(err)
	}
	r.wantState(t, catalogue.State{Active: "2.0.0"}) // 1.0.0 did not work, and so is not the last good version
}

func TestFallBack_CrashLoop(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, atSecondCrash)
	r.wantFallBack(t, exitsActive)
	if !r.events.has(manager.EventFellBack) {
		t.Errorf("got events %v, want a fallback", r.events.types())
	}
	r.wantOneCopy(t)
}

func TestStop_DuringBakeCompletesNothing(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	wantStopped(t, r.rig)
	if !dead(old) {
		t.Error("got a living old process, want that it has ended")
	}
	r.wantState(t, catalogue.State{Active: "1.0.0"})
}
