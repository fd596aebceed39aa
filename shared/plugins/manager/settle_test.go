package manager_test

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// settled returns how often the host has called Settle in the live process.
func (r *rig) settled() (n int) {
	pid := strconv.Itoa(r.Status().PID)
	for _, of := range r.folder.all("settled") {
		if of == pid {
			n++
		}
	}
	return n
}

// quickTicks has the supervisor look often whether there is something to do.
func quickTicks(c *manager.Config) { c.Limits().HealthInterval = 10 * time.Millisecond }

func TestSettle_OnceAtStartAfterBakeAndAtRestart(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { quickTicks(c); c.Bake = 3 * time.Second })
	r.start(t)
	eventually(t, "settle after the start", func() bool { return r.settled() == 1 })
	r.use(t, "2.0.0")
	eventually(t, "settle after the bake", func() bool {
		s, n := r.Status(), r.settled()
		if n > 0 && !r.events.has(manager.EventSwapSettled) {
			t.Fatalf("got %d calls with status %+v, want none during the bake", n, s)
		}
		return n == 1
	})
	r.restart(t)
	eventually(t, "settle after the restart", func() bool { return r.settled() == 1 })
	r.use(t, "1.0.0")
	r.rollBack(t)
	r.wantServing(t, "2.0.0")
	if n := r.settled(); n != 1 {
		t.Errorf("got %d calls, want one per process", n)
	}
}

func TestSettle_FailureIsTriedAgain(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { quickTicks(c); c.Limits().FailureRetry = 50 * time.Millisecond })
	r.folder.write("settle", failsSettling)
	r.start(t)
	eventually(t, "three attempts", func() bool { return r.settled() >= 3 })
	if text := r.log.String(); !strings.Contains(text, "the database is read-only") {
		t.Errorf("got log %s, want the failure in it", text)
	}
	if _, err := r.servingPID(limited(t)); err != nil {
		t.Error(err)
	}
	r.folder.write("settle", "")
	n := r.settled()
	eventually(t, "success", func() bool { return r.settled() > n })
}

func TestSettle_FailureIsNoBusyLoop(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { quickTicks(c); c.Limits().FailureRetry = time.Hour })
	r.folder.write("settle", failsSettling)
	r.start(t)
	eventually(t, "an attempt", func() bool { return r.settled() == 1 })
	for range 10 { // events of the supervisor
		wantSwapError(t, r.Use(limited(t), "9.9.9"), "find")
	}
	if n := r.settled(); n != 1 {
		t.Errorf("got %d attempts, want one per FailureRetry", n)
	}
}

func TestRollback_RefusedWhenTheOldProcessRefusesTheDatabase(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	r.folder.write("preflight 1.0.0", refuses)
	calls, stop := r.hammer(t, 2)
	eventually(t, "calls", func() bool { return calls.Load() > 10 })
	err := r.Rollback(limited(t))
	wantSwapError(t, err, "preflight")
	if err == nil || !strings.Contains(err.Error(), "schema: the database needs a newer version") {
		t.Errorf("got %v, want the reason", err)
	}
	if failed := stop(); failed != 0 {
		t.Errorf("got %d failed calls, want none", failed)
	}
	if s := r.Status(); s.State != manager.StateBaking || s.Version != "2.0.0" || s.Previous == nil || s.Previous.PID != old {
		t.Errorf("got status %+v, want that 2.0.0 bakes and process %d is warm", s, old)
	}
	r.wantState(t, catalogue.State{Active: "1.0.0", Baking: "2.0.0"})
	r.folder.write("preflight 1.0.0", "")
	r.rollBack(t)
	r.wantRolledBack(t, old)
}

func TestRollback_RefusedWithoutAResult(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { c.Limits().HealthTimeout = generous })
	r.start(t)
	old := r.Status().PID
	r.use(t, "2.0.0")
	r.folder.write("preflight 1.0.0", noResult)
	result := make(chan error, 1)
	go func() { result <- r.Rollback(limited(t)) }()
	eventually(t, "a preflight under way", func() bool { return r.exists("asked " + strconv.Itoa(old)) })
	if _, err := r.servingPID(limited(t)); err != nil {
		t.Errorf("a call during the preflight: got %v, want success", err)
	}
	select {
	case err := <-result:
		t.Errorf("got %v before the call ended, want that the preflight does not block calls", err)
	default:
	}
	signalProcess(t, old, syscall.SIGKILL)
	wantSwapError(t, <-result, "preflight")
	if s := r.Status(); s.State != manager.StateBaking || s.Version != "2.0.0" {
		t.Errorf("got status %+v, want that 2.0.0 bakes", s)
	}
}

func TestBake_VersionThatFailsIsStartedAgainIfTheOldOneIsRefused(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(t *testing.T, r *swapRig){
		"process lost":  func(t *testing.T, r *swapRig) { signalProcess(t, r.Status().PID, syscall.SIGKILL) },
		"calls failing": func(t *testing.T, r *swapRig) { _, stop := r.hammer(t, 4); t.Cleanup(func() { stop() }) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t, nil)
			r.start(t)
			old := r.Status().PID
			r.folder.write("mode 2.0.0", failsCalls)
			r.use(t, "2.0.0")
			tried := r.Status().PID
			r.folder.write("preflight 1.0.0", refuses)
			r.folder.write("mode 2.0.0", good)
			fail(t, r)
			eventually(t, "another process", func() bool { s := r.Status(); return s.State.Serves() && s.PID != tried })
			r.wantServing(t, "2.0.0")
			eventually(t, "the end of the swap", func() bool { return r.Status().Swap == nil && dead(old) })
			r.wantState(t, catalogue.State{Active: "2.0.0"}) // 1.0.0 cannot run here, and so is not the last good version
			if r.events.has(manager.EventRolledBack) {
				t.Errorf("got events %v, want no rollback", r.events.types())
			}
		})
	}
}

func TestBake_LostWithoutAResultOnTheOldProcess(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ later, want string }{
		"the old version passes later":     {"", "1.0.0"},
		"the old version is refused later": {refuses, "2.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t, func(c *manager.Config) { c.Limits().HealthTimeout = 3 * time.Second })
			r.start(t)
			old := r.Status().PID
			r.use(t, "2.0.0")
			tried := r.Status().PID
			r.folder.write("preflight "+strconv.Itoa(old), noResult)
			r.folder.write("preflight 1.0.0", test.later)
			signalProcess(t, tried, syscall.SIGKILL)
			eventually(t, "another process", func() bool {
				s := r.Status()
				return s.State.Serves() && s.PID != tried && s.PID != old
			})
			r.wantServing(t, test.want)
			eventually(t, "the end of the old process", func() bool { return dead(old) })
			r.wantState(t, catalogue.State{Active: test.want})
			var refused *manager.SwapError
			if err := r.Rollback(limited(t)); !errors.As(err, &refused) {
				t.Errorf("got %v, want that there is no version to roll back to", err)
			}
		})
	}
}
