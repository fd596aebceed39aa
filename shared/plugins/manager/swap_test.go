package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// other returns the version to swap to next.
func other(i int) string { return []string{"2.0.0", "1.0.0"}[i%2] }

func TestSwap_LeaksNothing(t *testing.T) {
	r := newSwapRig(t, func(c *manager.Config) { c.Bake = -1 })
	r.start(t)
	for i := range 2 { // the first ones create what later ones use again
		r.use(t, other(i))
	}
	goroutines, files := baseline(t)
	const swaps = 4
	for i := range swaps {
		r.use(t, other(i))
	}
	eventually(t, "no more goroutines and files than before", func() bool {
		return runtime.NumGoroutine() < goroutines+swaps && openFiles(t) < files+swaps
	})
	r.wantOneCopy(t)
	eventually(t, "no swap in the status", func() bool {
		s := r.Status()
		return s.Previous == nil && s.Swap == nil
	})
}

func TestSwap_BadVersionIsRefusedWithoutFailedCalls(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	for _, test := range []struct{ mode, step string }{
		{garbageLine, "start"},
		{exitsBefore, "start"},
		{killedBefore, "start"},
		{refusesSettings, "configure"},
		{failsPreflight, "preflight"},
		{databaseUnavailable, "preflight"},
		{preventsRollback, "preflight"},
		{failsMigrating, "migrate"},
		{panicsReading, "check"},
		{exitsActive, "workers"},
		{tampered, "stage"}, // the last: 2.0.0 stays so
	} {
		t.Run(test.mode, func(t *testing.T) { r.wantRefused(t, test.mode, test.step) })
	}
}

func TestSwap_SlowVersionIsRefusedWithoutFailedCalls(t *testing.T) {
	t.Parallel()
	for mode, test := range map[string]struct {
		step  string
		limit func(*manager.Config) *time.Duration
	}{
		hangsBefore:      {"start", func(c *manager.Config) *time.Duration { return &c.Limits().StartTimeout }},
		hangsConfiguring: {"configure", func(c *manager.Config) *time.Duration { return &c.Limits().ConfigureTimeout }},
		neverHealthy:     {"check", func(c *manager.Config) *time.Duration { return &c.Limits().CheckTimeout }},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t, func(c *manager.Config) { *test.limit(c) = 5 * time.Second }) // 1.0.0 is in time
			r.start(t)
			r.wantRefused(t, mode, test.step)
		})
	}
}

// tampered is the mode of a version whose program was replaced.
const tampered = "was tampered with"

// wantRefused swaps to 2.0.0, which behaves as the mode says, and checks that this is refused in
// the step, and that 1.0.0 serves throughout.
func (r *swapRig) wantRefused(t *testing.T, mode, step string) {
	t.Helper()
	before, refused := r.Status(), r.events.count(manager.EventSwapRefused, "")
	r.folder.write("mode 2.0.0", mode)
	if mode == tampered {
		r.tamper(t)
	}
	calls, stop := r.hammer(t, 1)
	eventually(t, "calls", func() bool { return calls.Load() > 0 })
	err := r.Use(limited(t), "2.0.0")
	wantSwapError(t, err, step)
	if outside := strings.Contains(fmt.Sprint(err), "killed from outside"); outside != (mode == killedBefore) {
		t.Errorf("got %v, want that it was killed from outside: %v", err, mode == killedBefore)
	}
	failed := stop()
	if mode != exitsActive && failed != 0 || failed > 1 { // a call in the process that died
		t.Errorf("got %d failed calls, want none", failed)
	}
	if s := r.Status(); s.State != manager.StateServing || s.PID != before.PID {
		t.Errorf("got status %+v, want that process %d serves", s, before.PID)
	}
	r.wantState(t, catalogue.State{Active: "1.0.0"})
	if got := r.events.count(manager.EventSwapRefused, ""); got != refused+1 {
		t.Errorf("got %d refused swaps, want one after %d: %v", got, refused, r.events.types())
	}
	eventually(t, "one process", func() bool {
		pid, _ := strconv.Atoi(r.folder.read("pid"))
		return pid == before.PID || dead(pid)
	})
	r.wantOneCopy(t)
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

func TestUse_UnknownVersionIsRefused(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	for _, version := range []string{"3.0.0", "../1.0.0", ""} {
		wantSwapError(t, r.Use(limited(t), version), "find")
	}
	err := r.Rollback(limited(t))
	wantSwapError(t, err, "find")
	if !strings.Contains(err.Error(), "there is no version to roll back to") || strings.Contains(err.Error(), "find") {
		t.Errorf("got %v, want that there is no version, and no step", err)
	}
	r.wantServing(t, "1.0.0")
}

func TestUse_RefusesAVersionOfAnotherProtocol(t *testing.T) {
	t.Parallel()
	versions := linkedCatalogue(t)
	if err := install(versions, otherProtocol); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, good, func(c *manager.Config) { c.Catalogue = versions })
	r.start(t)
	err := r.Use(limited(t), otherProtocol)
	wantSwapError(t, err, "find")
	if want := "it supports the protocols 7 to 8, this host speaks 1: update the host"; !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
}

func TestSwap_StatusListsSteps(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	r.use(t, "2.0.0")
	eventually(t, "the drain", func() bool {
		swap := r.Status().Swap
		return slices.ContainsFunc(swap.Steps, func(s manager.SwapStep) bool { return s.Name == "drain" })
	})
	s := r.Status()
	var names []string
	for _, step := range s.Swap.Steps {
		if step.Name != "drain" {
			names = append(names, step.Name)
		}
	}
	want := []string{"find", "rehearse", "stage", "start", "configure", "preflight", "migrate", "check", "same_answers", "settle", "switch", "workers", "bake"}
	if !slices.Equal(names, want) || s.Swap.From != "1.0.0" || s.Swap.To != "2.0.0" {
		t.Errorf("got swap %+v, want the steps %v from 1.0.0 to 2.0.0", s.Swap, want)
	}
	if s.State != manager.StateBaking || s.Previous == nil || s.Previous.Version != "1.0.0" || dead(s.Previous.PID) {
		t.Errorf("got status %+v, want that 2.0.0 bakes and 1.0.0 is warm", s)
	}
	for _, step := range s.Swap.Steps {
		if under := step.Name == "bake"; under != (step.Took == 0) {
			t.Errorf("got step %+v, want a duration for each but the bake", step)
		}
	}
	r.wantState(t, catalogue.State{Active: "1.0.0", Baking: "2.0.0"}) // until the bake is over
	if r.folder.read("quiesced") != strconv.Itoa(s.Previous.PID) || r.folder.read("active") != strconv.Itoa(s.PID) {
		t.Error("got no handover of background work, want that the old process quiesced and the new one is active")
	}
}

func TestSwap_SecondIsRefusedAsBusy(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { c.Limits().StartTimeout = time.Hour })
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
		var busy *manager.BusyError
		if err := second(); !errors.As(err, &busy) || busy.Swap.To != "2.0.0" || busy.Swap.Step != "start" {
			t.Errorf("got %v, want the swap under way", err)
		}
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the wait was cancelled", err)
	}
	if r.Status().Swap == nil {
		t.Error("got no swap after the end of the wait, want that it goes on")
	}
	wantStopped(t, r.rig) // during the swap
	if err := r.Use(limited(t), "1.0.0"); !errors.Is(err, manager.ErrStopped) {
		t.Errorf("got %v, want that the manager is stopped", err)
	}
	pid, _ := strconv.Atoi(r.folder.read("pid"))
	if !dead(pid) {
		t.Error("got a living new process, want that it has ended")
	}
}

func TestUse_ActiveVersionRestartsWithFreshSettings(t *testing.T) {
	t.Parallel()
	settings := "old"
	r := newSwapRig(t, func(c *manager.Config) {
		c.Settings = func() ([]byte, error) { return []byte(settings), nil }
	})
	r.start(t)
	before := r.Status().PID
	settings = "fresh"
	r.use(t, "1.0.0")
	r.wantServedByOther(t, before)
	if got := r.folder.read("settings"); got != "fresh" {
		t.Errorf("got settings %q, want fresh ones", got)
	}
	r.wantState(t, catalogue.State{Active: "1.0.0", Baking: "1.0.0"})
}

func TestSwap_EndlessBackgroundWorkCancelsNoCall(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { c.Limits().QuiesceTimeout = 50 * time.Millisecond })
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
		t.Error("got a killed old process, want that it lives")
	}
}

func TestSwap_CallsUnderWayFinishInOldProcess(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { c.Bake, c.Limits().DrainTimeout = -1, generous })
	r.start(t)
	result := r.callUnderWay(t)
	r.use(t, "2.0.0")
	eventually(t, "a completed bake", func() bool { return r.events.has(manager.EventSwapSettled) })
	if s := r.Status(); s.Previous == nil || s.Previous.State != manager.StateDraining {
		t.Errorf("got status %+v, want that the old process drains", s)
	}
	r.folder.write("go on", "yes")
	if err := <-result; err != nil {
		t.Error(err)
	}
	eventually(t, "the end of the old process", func() bool { return r.Status().Previous == nil })
}

func TestStop_AtTheSwitchLeavesNoVersionBaking(t *testing.T) {
	t.Parallel()
	for range 6 { // Stop must fall into the moment between the mark on disk and the switch
		r := newSwapRig(t, nil)
		r.start(t)
		entry, err := r.catalogue.Find("1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		result := make(chan error, 1)
		go func() { result <- r.Use(context.Background(), "2.0.0") }()
		state := filepath.Join(filepath.Dir(entry.Dir), "state.json")
		starting := func() bool { // ends with the start, which takes long
			s := r.Status().Swap
			return s == nil || slices.Contains([]string{"find", "stage", "start"}, s.Step)
		}
		ctx := limited(t)
		for ; starting() && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		}
		marked := func() bool {
			data, _ := os.ReadFile(state)
			return strings.Contains(string(data), "2.0.0")
		}
		for ; !marked() && ctx.Err() == nil; runtime.Gosched() { // without a pause, to find the moment
		}
		if ctx.Err() != nil {
			t.Fatalf("got swap %+v, want that the mark of the new version comes on disk", r.Status().Swap)
		}
		if err := r.Stop(limited(t)); err != nil {
			t.Fatal(err)
		}
		<-result
		r.wantState(t, catalogue.State{Active: "1.0.0"})
	}
}

func TestUse_StoppedManagerIsReportedToCallerWhoHungUp(t *testing.T) {
	t.Parallel()
	m, err := manager.New(configure(folder(t.TempDir()), sharedCatalogue(t)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if err := m.Use(ctx, "1.0.0"); !errors.Is(err, manager.ErrStopped) {
			t.Fatalf("got %v, want ErrStopped", err)
		}
	}
}

func TestSwap_StepsOfItsMigrationAreLimited(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.start(t)
	r.use(t, "2.0.0")
	first, swapped := r.folder.all("step limit 1.0.0"), r.folder.all("step limit 2.0.0")
	if !slices.Equal(first, []string{"0s"}) || !slices.Equal(swapped, []string{"3s"}) {
		t.Errorf("got the limits %q of the start and %q of the swap, want none and 3 s", first, swapped)
	}
}

func TestSwap_MigrationEndsWhenTheServingProcessGetsUnhealthy(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, oftenHealth)
	r.start(t)
	r.folder.write("mode 2.0.0", hangsUnhealthy)
	err := r.Use(limited(t), "2.0.0")
	wantSwapError(t, err, "migrate")
	if !strings.Contains(fmt.Sprint(err), "run `personal migrate` in a quiet hour") || !strings.Contains(fmt.Sprint(err), "the database hangs") {
		t.Errorf("got %v, want why it ended and what to do", err)
	}
}

func TestSwap_RefusesAVersionWithoutRights(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.folder.write("mode", lacksRights)
	r.start(t) // as before: to refuse a start would be an outage
	r.folder.write("mode 1.0.0", good)
	wantSwapError(t, r.Use(limited(t), "2.0.0"), "check")
}
