package manager_test

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/plugins/manager"
)

// wantProcesses checks which processes have metrics, the live one first, and how many calls
// each has counted.
func (r *rig) wantProcesses(t *testing.T, want ...manager.Metrics) {
	t.Helper()
	var got []manager.Metrics
	for _, m := range r.Metrics(limited(t))[1:] {
		m.Refuse = nil
		got = append(got, m)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics of processes (-want +got):\n%s", diff)
	}
}

func counted(process int, text string) manager.Metrics {
	return manager.Metrics{Process: process, Text: []byte(text + "\n")}
}

// own returns the manager's own metrics with their values.
func (r *rig) own(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for line := range strings.Lines(string(r.Metrics(limited(t))[0].Text)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name != "#" {
			values[name] = value
		}
	}
	return values
}

// wantOwn checks some of the manager's own metrics.
func (r *rig) wantOwn(t *testing.T, want map[string]string) {
	t.Helper()
	got := r.own(t)
	maps.DeleteFunc(got, func(name, _ string) bool { _, ok := want[name]; return !ok })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics of the manager (-want +got):\n%s", diff)
	}
}

// call makes calls, which the plugin counts.
func (r *rig) call(t *testing.T, n int) {
	t.Helper()
	for range n {
		if _, err := r.servingPID(limited(t)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMetrics_OfEachProcessThroughSwapRollbackAndRestart(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { c.Bake = time.Minute })
	r.start(t)
	r.call(t, 3)
	r.wantProcesses(t, counted(1, "calls 3"))

	r.use(t, "2.0.0") // the old process is warm
	r.call(t, 4)
	r.wantProcesses(t, counted(2, "calls 4"), counted(1, "calls 3"))

	r.rollBack(t)
	eventually(t, "the new process ends", func() bool { return r.Status().Previous == nil })
	r.call(t, 1)
	r.wantProcesses(t, counted(1, "calls 4"))

	r.restart(t)
	r.call(t, 2)
	r.wantProcesses(t, counted(3, "calls 2"))
	r.wantOwn(t, map[string]string{
		"personal_plugin_up": "1", "personal_plugin_generation": "3", `personal_plugin_info{version="1.0.0"}`: "1",
		"personal_plugin_restarts_total":                     "1",
		`personal_plugin_swaps_total{outcome="completed"}`:   "0",
		`personal_plugin_swaps_total{outcome="refused"}`:     "0",
		`personal_plugin_swaps_total{outcome="rolled_back"}`: "1",
	})
}

func TestMetrics_CountSwaps(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *manager.Config) { c.Bake = -1 })
	r.start(t)
	r.use(t, "2.0.0")
	r.use(t, "1.0.0")
	if err := r.Use(limited(t), "9.9.9"); err == nil {
		t.Fatal("got no error of a swap to a version that is not installed")
	}
	r.wantOwn(t, map[string]string{
		`personal_plugin_swaps_total{outcome="completed"}`:   "2",
		`personal_plugin_swaps_total{outcome="refused"}`:     "1",
		`personal_plugin_swaps_total{outcome="rolled_back"}`: "0",
	})
}

func TestMetrics_FrozenProcessDelaysNoCollector(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, func(c *manager.Config) { c.Limits().HealthInterval = time.Hour })
	r.start(t)
	pid := r.Status().PID
	freeze(t, pid)
	defer signalProcess(t, pid, syscall.SIGCONT)
	took := func(collectors int) time.Duration {
		began := time.Now()
		var scrapes sync.WaitGroup
		for range collectors {
			scrapes.Go(func() {
				r.wantProcesses(t)
				r.wantOwn(t, map[string]string{"personal_plugin_up": "1"})
			})
		}
		scrapes.Wait()
		return time.Since(began)
	}
	if one, all := took(1), took(20); all > 5*one {
		t.Errorf("20 collectors at once took %v, one alone %v: each waited for another", all, one)
	}
	if strings.Contains(r.log.String(), "plugin metrics are left out") {
		t.Error("got a warning about the metrics, want those of the health checks only")
	}
}

func TestMetrics_DefectivePluginIsLoggedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, panicsInMetrics, nil)
	r.start(t)
	for range 3 {
		r.wantProcesses(t)
	}
	if n := strings.Count(r.log.String(), "plugin metrics are left out"); n != 1 {
		t.Errorf("got %d warnings, want one", n)
	}
	r.call(t, 1)
	if s := r.Status(); s.Restarts != 0 || !s.State.Serves() {
		t.Errorf("got status %+v, want that the process goes on", s)
	}
}

func TestMetrics_BeforeStartAndAfterStop(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, nil)
	down := map[string]string{"personal_plugin_up": "0", "personal_plugin_generation": "0"}
	r.wantOwn(t, down)
	r.start(t)
	if err := r.Stop(limited(t)); err != nil {
		t.Fatal(err)
	}
	r.wantOwn(t, down)
	r.wantProcesses(t)
	if names := slices.Collect(maps.Keys(r.own(t))); slices.ContainsFunc(names, func(name string) bool {
		return strings.HasPrefix(name, "personal_plugin_info")
	}) {
		t.Errorf("got metrics %q, want no version of a process", names)
	}
}
