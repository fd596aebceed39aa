package pluginmanager_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/pluginmanager"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// metric returns a metric of the manager; ok is false if there is none.
func (r *rig) metric(t *testing.T, name string) (m pluginrpc.Metric, ok bool) {
	t.Helper()
	all := r.Metrics(limited(t))
	i := slices.IndexFunc(all, func(m pluginrpc.Metric) bool { return m.Name == name })
	if i < 0 {
		return pluginrpc.Metric{}, false
	}
	return all[i], true
}

// value returns the sum of all series of a metric, or -1 if there is none.
func (r *rig) value(t *testing.T, name string) float64 {
	t.Helper()
	m, ok := r.metric(t, name)
	if !ok {
		return -1
	}
	var sum float64
	for _, s := range m.Series {
		sum += s.Value
	}
	return sum
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

// wantCalls checks how many calls a new reading counts.
func (r *rig) wantCalls(t *testing.T, want float64) {
	t.Helper()
	r.ExpireMetrics()
	if got := r.value(t, callsMetric); got != want {
		t.Errorf("got %v calls, want %v", got, want)
	}
}

func TestMetrics_AddUpOverSwapRollbackAndRestart(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, func(c *pluginmanager.Config) { c.Bake = time.Minute })
	r.start(t)
	r.call(t, 3)
	r.wantCalls(t, 3)

	r.use(t, "2.0.0") // the old process is warm
	r.call(t, 4)
	r.wantCalls(t, 7)
	if pid := r.value(t, pidMetric); int(pid) != r.Status().PID {
		t.Errorf("got gauges of process %v, want those of %d", pid, r.Status().PID)
	}

	r.call(t, 5)
	if err := r.Rollback(limited(t)); err != nil { // the new process is retired after a last reading
		t.Fatal(err)
	}
	eventually(t, "the new process ends", func() bool { return r.Status().Previous == nil })
	r.call(t, 1)
	r.wantCalls(t, 13)

	signalProcess(t, r.Status().PID, syscall.SIGKILL)
	eventually(t, "a restart", func() bool { s := r.Status(); return s.Restarts == 1 && s.State.Serves() })
	r.call(t, 2)
	r.wantCalls(t, 15)
	sizes, _ := r.metric(t, sizesMetric)
	if s := sizes.Series; len(s) != 1 || s[0].Value != 30 || !slices.Equal(s[0].Counts, []uint64{0, 15, 0}) {
		t.Errorf("got histogram %v, want 15 twos", s)
	}
	for name, want := range map[string]float64{
		"personal_plugin_up": 1, "personal_plugin_restarts_total": 1, "personal_plugin_swaps_total": 1, "personal_plugin_generation": 3,
	} {
		if got := r.value(t, name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if info, _ := r.metric(t, "personal_plugin_info"); len(info.Series) != 1 || info.Series[0].LabelValues[0] != "1.0.0" {
		t.Errorf("got info %v, want version 1.0.0", info.Series)
	}
}

func TestMetrics_NeverDecreaseUnderLoad(t *testing.T) {
	r := newSwapRig(t, func(c *pluginmanager.Config) { c.Bake = -1 })
	r.start(t)
	_, stop := r.hammer(t, 4)
	var watching sync.WaitGroup
	done := make(chan struct{})
	readings := 0
	watching.Go(func() {
		var calls, two float64
		for {
			select {
			case <-done:
				return
			default:
			}
			r.ExpireMetrics()
			for _, m := range r.Metrics(t.Context()) {
				switch m.Name {
				case callsMetric:
					calls = notLess(t, m.Name, calls, m.Series[0].Value)
				case sizesMetric:
					two = notLess(t, m.Name, two, float64(m.Series[0].Counts[1]))
				}
			}
			readings++
		}
	})
	for i := range 6 {
		r.use(t, []string{"2.0.0", "1.0.0"}[i%2])
		if i%3 == 2 {
			restarts := r.Status().Restarts
			signalProcess(t, r.Status().PID, syscall.SIGKILL)
			eventually(t, "a restart", func() bool { return r.Status().Restarts > restarts })
		}
	}
	close(done)
	watching.Wait()
	stop()
	if got := r.value(t, callsMetric); got < 100 || readings < 100 {
		t.Errorf("got %v calls in %d readings, want many", got, readings)
	}
	if got := r.value(t, "personal_plugin_swaps_total"); got != 6 {
		t.Errorf("got %v swaps, want 6", got)
	}
}

func notLess(t *testing.T, name string, before, now float64) float64 {
	if now < before {
		t.Errorf("%s: got %v after %v, want no less", name, now, before)
	}
	return max(before, now)
}

func TestMetrics_FrozenProcessKeepsLastValues(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, func(c *pluginmanager.Config) { c.HealthInterval = time.Hour })
	r.start(t)
	r.call(t, 2)
	r.wantCalls(t, 2)
	pid := r.Status().PID
	freeze(t, pid)
	defer signalProcess(t, pid, syscall.SIGCONT)
	r.ExpireMetrics()
	began := time.Now()
	var scrapes sync.WaitGroup
	for range 20 {
		scrapes.Go(func() {
			if got := r.value(t, callsMetric); got != 2 {
				t.Errorf("got %v calls, want the last known 2", got)
			}
		})
	}
	scrapes.Wait()
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("20 collectors at once took %v: each waited for the process", took)
	}
}

func TestMetrics_PluginWithoutMetricsAddsNothing(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t, nil)
	r.folder.write("mode 2.0.0", hasNoMetrics)
	r.start(t)
	r.call(t, 3)
	r.wantCalls(t, 3)
	r.use(t, "2.0.0")
	r.call(t, 2)
	r.wantCalls(t, 3) // of the version that counts
	if _, ok := r.metric(t, pidMetric); ok {
		t.Error("got a gauge of a process that is not live, want none")
	}
	if got := r.value(t, "personal_plugin_up"); got != 1 {
		t.Errorf("got up %v, want 1", got)
	}
}

func TestMetrics_DefectivePluginIsBounded(t *testing.T) {
	t.Parallel()
	t.Run("new series at every reading", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, newSeries, nil)
		r.start(t)
		for range 3 {
			r.ExpireMetrics()
			r.Metrics(limited(t))
		}
		if m, _ := r.metric(t, callsMetric); len(m.Series) != pluginrpc.MaxMetricSeries {
			t.Errorf("got %d series, want %d", len(m.Series), pluginrpc.MaxMetricSeries)
		}
	})
	t.Run("a label value that could be an address", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, invalidMetrics, nil)
		r.start(t)
		if _, ok := r.metric(t, callsMetric); ok {
			t.Error("got the metric, want none")
		}
		log := r.log.String()
		if strings.Count(log, "plugin metrics are left out") != 1 || strings.Contains(log, "ada@example.com") {
			t.Error("want one warning, without the value")
		}
	})
	t.Run("a panic at every reading", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, panicsInMetrics, nil)
		r.start(t)
		for range 3 {
			r.ExpireMetrics()
			r.Metrics(limited(t))
		}
		if n := strings.Count(r.log.String(), "plugin metrics are left out"); n != 1 {
			t.Errorf("got %d warnings, want one", n)
		}
	})
	t.Run("counters that decrease", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, countsDown, nil)
		r.start(t)
		r.call(t, 5)
		r.wantCalls(t, 4)
		r.wantCalls(t, 4) // not 3
	})
}

func TestMetrics_CallerThatIsGoneSpoilsNoReading(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, nil)
	r.start(t)
	r.call(t, 2)
	r.ExpireMetrics()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r.Metrics(gone)
	if got := r.value(t, callsMetric); got != 2 {
		t.Errorf("got %v calls, want 2", got)
	}
}

func TestMetrics_BeforeStartAndAfterStop(t *testing.T) {
	t.Parallel()
	r := newRig(t, good, nil)
	if got := r.value(t, "personal_plugin_up"); got != 0 {
		t.Errorf("got up %v before the start, want 0", got)
	}
	r.start(t)
	if err := r.Stop(limited(t)); err != nil {
		t.Fatal(err)
	}
	if got := r.value(t, "personal_plugin_up"); got != 0 {
		t.Errorf("got up %v after the stop, want 0", got)
	}
}
