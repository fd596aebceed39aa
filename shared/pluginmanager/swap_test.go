package pluginmanager_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// other returns the version to swap to next.
func other(i int) string { return []string{"2.0.0", "1.0.0"}[i%2] }

func TestSwapsUnderLoadFailNoCallAndLeaveNothingBehind(t *testing.T) {
	r := newSwapRig(t, nil)
	r.start(t)
	const swaps = 20
	calls, stop := r.hammer(t, 16)
	for i := range swaps {
		before := calls.Load()
		r.use(t, other(i))
		r.wantServing(t, other(i))
		eventually(t, "calls after the swap", func() bool { return calls.Load() > before+32 })
	}
	if failed := stop(); failed != 0 {
		t.Errorf("%d of %d calls failed", failed, calls.Load())
	}
	if got := r.Status().Restarts; got != 0 {
		t.Errorf("%d restarts", got)
	}
}

func TestThirtySwapsLeaveNoFilesGoroutinesOrCopies(t *testing.T) {
	r := newSwapRig(t, func(c *pluginmanager.Config) { c.Bake = -1 })
	r.start(t)
	for i := range 2 { // so that what is made once is there
		r.use(t, other(i))
	}
	goroutines, files := settled(t)
	const swaps = 30
	for i := range swaps {
		r.use(t, other(i))
	}
	eventually(t, "no more goroutines and files than before", func() bool {
		return runtime.NumGoroutine() < goroutines+swaps && openFiles(t) < files+swaps
	})
	r.wantOneCopy(t)
	eventually(t, "nothing of a swap in the status", func() bool {
		s := r.Status()
		return s.Previous == nil && s.Swap == nil
	})
}

func TestABadVersionIsRefusedAndTheOldOneMissesNoCall(t *testing.T) {
	for mode, step := range map[string]string{
		wrongCookie:      "start",
		garbageLine:      "start",
		hangsBefore:      "start",
		exitsBefore:      "start",
		hangsConfiguring: "configure",
		refusesSettings:  "configure",
		failsPreflight:   "preflight",
		databaseAway:     "preflight",
		leavesNoWayBack:  "preflight",
		failsMigrating:   "migrate",
		neverHealthy:     "check",
		panicsReading:    "check",
		exitsActive:      "workers",
		"":               "stage", // tampered with
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t, func(c *pluginmanager.Config) {
				c.StartTimeout, c.ConfigureTimeout = 5*time.Second, 3*time.Second
			})
			r.start(t)
			before := r.Status()
			r.folder.write("mode 2.0.0", mode)
			if mode == "" {
				r.tamper(t)
			}
			calls, stop := r.hammer(t, 1)
			eventually(t, "calls", func() bool { return calls.Load() > 0 })
			wantSwapError(t, r.Use(limited(t), "2.0.0"), step)
			failed := stop()
			if mode != exitsActive && failed != 0 || failed > 1 { // who was in a process that died
				t.Errorf("%d calls failed", failed)
			}
			if s := r.Status(); s.State != pluginmanager.StateServing || s.PID != before.PID {
				t.Errorf("status: %+v", s)
			}
			r.wantState(t, plugincatalogue.State{Active: "1.0.0"})
			if !r.records.has(pluginmanager.EventSwapRefused) {
				t.Errorf("journal: %v", r.records.kinds())
			}
			eventually(t, "one process", func() bool {
				pid, _ := strconv.Atoi(r.folder.read("pid"))
				return pid == before.PID || dead(pid)
			})
			r.wantOneCopy(t)
		})
	}
}

func (r *swapRig) tamper(t *testing.T) {
	t.Helper()
	entry, err := r.catalogue.Find("2.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(entry.Binary()), os.WriteFile(entry.Binary(), []byte("#!/bin/sh\n"), 0o500)); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsNoInstalledVersionIsRefused(t *testing.T) {
	r := newSwapRig(t, nil)
	r.start(t)
	for _, version := range []string{"3.0.0", "../1.0.0", ""} {
		wantSwapError(t, r.Use(limited(t), version), "find")
	}
	err := r.Rollback(limited(t))
	wantSwapError(t, err, "find")
	if !strings.Contains(err.Error(), "there is no version to roll back to") || strings.Contains(err.Error(), "find") {
		t.Errorf("the error says %v", err)
	}
	r.wantServing(t, "1.0.0")
}

func TestTheStepsOfASwapAreTold(t *testing.T) {
	r := newSwapRig(t, nil)
	r.start(t)
	r.use(t, "2.0.0")
	eventually(t, "the drain", func() bool {
		swap := r.Status().Swap
		return slices.ContainsFunc(swap.Steps, func(s pluginmanager.SwapStep) bool { return s.Name == "drain" })
	})
	s := r.Status()
	var names []string
	for _, step := range s.Swap.Steps {
		if step.Name != "drain" {
			names = append(names, step.Name)
		}
	}
	want := []string{"find", "stage", "start", "configure", "preflight", "migrate", "check", "settle", "switch", "workers", "bake"}
	if !slices.Equal(names, want) || s.Swap.From != "1.0.0" || s.Swap.To != "2.0.0" {
		t.Errorf("swap: %+v", s.Swap)
	}
	if s.State != pluginmanager.StateBaking || s.Previous == nil || s.Previous.Version != "1.0.0" || dead(s.Previous.PID) {
		t.Errorf("status: %+v", s)
	}
	for _, step := range s.Swap.Steps {
		if under := step.Name == "bake"; under != (step.Took == 0) {
			t.Errorf("step %+v", step)
		}
	}
	r.wantState(t, plugincatalogue.State{Active: "1.0.0", Baking: "2.0.0"}) // until it is settled
	if r.folder.read("quiesced") != strconv.Itoa(s.Previous.PID) || r.folder.read("active") != strconv.Itoa(s.PID) {
		t.Error("background work was not handed over")
	}
}

func TestASecondSwapIsToldWhoIsSwapping(t *testing.T) {
	r := newSwapRig(t, func(c *pluginmanager.Config) { c.StartTimeout = time.Hour })
	r.start(t)
	r.folder.write("mode 2.0.0", hangsBefore)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- r.Use(ctx, "2.0.0") }()
	eventually(t, "a start", func() bool { s := r.Status().Swap; return s != nil && s.Step == "start" })
	for _, second := range []func() error{
		func() error { return r.Use(limited(t), "1.0.0") },
		func() error { return r.Rollback(limited(t)) },
	} {
		var busy *pluginmanager.BusyError
		if err := second(); !errors.As(err, &busy) || busy.Swap.To != "2.0.0" || busy.Swap.Step != "start" {
			t.Errorf("got %v, want who is swapping", err)
		}
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if r.Status().Swap == nil {
		t.Error("the swap ended with its caller's patience")
	}
	wantStopped(t, r.rig) // in the middle of it
	if err := r.Use(limited(t), "1.0.0"); !errors.Is(err, pluginmanager.ErrStopped) {
		t.Errorf("got %v", err)
	}
	pid, _ := strconv.Atoi(r.folder.read("pid"))
	if !dead(pid) {
		t.Error("the new process is still there")
	}
}

func TestUseOfTheActiveVersionIsARestartWithFreshSettings(t *testing.T) {
	settings := "old"
	r := newSwapRig(t, func(c *pluginmanager.Config) {
		c.Settings = func() ([]byte, error) { return []byte(settings), nil }
	})
	r.start(t)
	before := r.Status().PID
	settings = "fresh"
	r.use(t, "1.0.0")
	r.wantServed(t, before)
	if got := r.folder.read("settings"); got != "fresh" {
		t.Errorf("settings %q", got)
	}
	r.wantState(t, plugincatalogue.State{Active: "1.0.0", Baking: "1.0.0"})
}

func TestBackgroundWorkThatDoesNotEndCutsNoCallOff(t *testing.T) {
	r := newSwapRig(t, func(c *pluginmanager.Config) { c.QuiesceTimeout = 50 * time.Millisecond })
	r.folder.write("mode 1.0.0", quiescesForever)
	r.start(t)
	old := r.Status().PID
	under := r.callUnderWay(t)
	r.use(t, "2.0.0")
	r.folder.write("go on", "yes")
	if err := <-under; err != nil {
		t.Error(err)
	}
	if dead(old) {
		t.Error("the old process was killed")
	}
}

func TestCallsUnderWayInTheOldProcessFinishThere(t *testing.T) {
	r := newSwapRig(t, func(c *pluginmanager.Config) { c.Bake, c.DrainTimeout = -1, generous })
	r.start(t)
	result := r.callUnderWay(t)
	r.use(t, "2.0.0")
	eventually(t, "settled", func() bool { return r.records.has(pluginmanager.EventSwapCompleted) })
	if s := r.Status(); s.Previous == nil || s.Previous.State != pluginmanager.StateDraining {
		t.Errorf("status: %+v", s)
	}
	r.folder.write("go on", "yes")
	if err := <-result; err != nil {
		t.Error(err)
	}
	eventually(t, "the end of the old process", func() bool { return r.Status().Previous == nil })
}
