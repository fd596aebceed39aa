package manager_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugins/manager"
)

// floodCallers is the number of concurrent callers in a flood. Where calls are
// served one at a time, each waits longer than a health check may take.
const floodCallers = 96

func floodHealth(c *manager.Config) {
	c.Limits().HealthInterval, c.Limits().HealthTimeout, c.Limits().ActivateTimeout = 100*time.Millisecond, time.Second, time.Second
	c.CallTimeout = 2 * c.Limits().HealthTimeout
	c.Bake = time.Hour
}

// patientCallers sets a call timeout within which every call gets its turn.
func patientCallers(c *manager.Config) {
	floodHealth(c)
	c.CallTimeout = generous
}

// The old process is healthy throughout, because it gets no calls.
func TestBake_FloodDoesNotRollBack(t *testing.T) {
	t.Parallel()
	failedTwiceTooOften := func(r *swapRig, _ int64) bool {
		failed, _ := strconv.Atoi(r.folder.read(failedChecks))
		return failed >= 6
	}
	for mode, test := range map[string]struct {
		set    func(*manager.Config)
		enough func(r *swapRig, calls int64) bool
		fails  bool // more than half of the calls fail, else none
	}{
		oneByOne:       {patientCallers, failedTwiceTooOften, false},
		oneByOneSilent: {patientCallers, failedTwiceTooOften, false},
		servesFew:      {floodHealth, func(_ *swapRig, calls int64) bool { return calls > 3*floodCallers }, true},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t, test.set)
			r.start(t)
			r.folder.write("mode 2.0.0", mode)
			r.use(t, "2.0.0")
			pid := r.Status().PID
			calls, stop := r.flood(t, floodCallers)
			eventually(t, "enough calls or failed health checks, or a rollback", func() bool {
				return test.enough(r, calls.Load()) || r.Status().PID != pid
			})
			r.wantBaking(t, pid)
			if failed, n := stop(), calls.Load(); test.fails != (2*failed > n) || !test.fails && failed != 0 {
				t.Errorf("got %d failed calls of %d", failed, n)
			}
		})
	}
}

// wantBaking checks that a process has baked since the switch.
func (r *swapRig) wantBaking(t *testing.T, pid int) {
	t.Helper()
	if s := r.Status(); s.State != manager.StateBaking || s.Version != "2.0.0" || s.PID != pid {
		t.Errorf("got status %+v, want that 2.0.0 bakes in process %d", s, pid)
	}
	want := []manager.EventType{manager.EventSwapStarted, manager.EventRehearsed, manager.EventSwitched}
	if got := r.events.types(); !slices.Equal(got, want) {
		t.Errorf("got events %v, want %v", got, want)
	}
}

func TestBake_FloodDoesNotProlongIt(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) {
		patientCallers(c)
		c.Bake = 2 * time.Second
	})
	r.start(t)
	r.folder.write("mode 2.0.0", oneByOne)
	r.use(t, "2.0.0")
	_, stop := r.flood(t, floodCallers)
	eventually(t, "the end of the bake", func() bool { return r.Status().State == manager.StateServing })
	r.wantServing(t, "2.0.0")
	stop()
}

func TestBake_FailingVersionIsRolledBackInAFlood(t *testing.T) {
	t.Parallel()
	for mode, callers := range map[string]int{
		keepsTurn:      floodCallers, // serves no call, responds that it is not healthy
		failsLate:      floodCallers, // fails calls as late as in a flood
		unhealthyLater: 24,           // serves calls without delay, responds that it is not healthy
		silentLater:    24,           // serves calls without delay, and no health check
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t, floodHealth)
			r.folder.write("mode", unhurried) // else it would be busy once calls return to it
			r.start(t)
			old := r.Status().PID
			r.folder.write("mode 2.0.0", mode)
			r.use(t, "2.0.0")
			_, stop := r.flood(t, callers)
			r.wantRolledBack(t, old)
			stop()
		})
	}
}

func TestBake_ProcessThatFreezesInAFloodIsRolledBack(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, patientCallers)
	r.start(t)
	old := r.Status().PID
	r.folder.write("mode 2.0.0", oneByOne)
	r.use(t, "2.0.0")
	_, stop := r.flood(t, floodCallers)
	eventually(t, "a failed health check", func() bool { return r.folder.read(failedChecks) != "" })
	freeze(t, r.Status().PID)
	r.wantRolledBack(t, old)
	stop()
}
