package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// metricsTimeout bounds a reading of all processes: a frozen one must not delay what
// collects the metrics.
const metricsTimeout = time.Second

// Metrics are metrics in the text exposition format of Prometheus.
type Metrics struct {
	Process int // number of the plugin process that counted them, see Status.Generation; 0: the manager did
	Text    []byte

	// Refuse logs, once for each process, why its metrics are left out. It is nil for the
	// manager's own metrics.
	Refuse func(error)
}

// Metrics returns the metrics of the manager, and after them those of the live process and
// of the process before, as long as that runs; docs/observing.md describes them. Package
// metrics reads them for the monitoring of a CMS. Every process counts from its own
// start.
//
// It waits for a second at most, and leaves out a process that does not respond. It may be
// called at any time.
func (m *Manager) Metrics(ctx context.Context) []Metrics {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	all := []Metrics{{Text: m.ownMetrics()}}
	m.mu.Lock()
	processes := []*instance{m.live, m.previous}
	m.mu.Unlock()
	for _, p := range processes {
		if p == nil || p.IsLost() {
			continue
		}
		refuse := func(err error) {
			if !p.badMetrics.Swap(true) {
				p.Log().Warn("plugin metrics are left out", "error", err)
			}
		}
		text, err := p.Metrics(ctx)
		switch {
		case err == nil:
			all = append(all, Metrics{Process: p.generation, Text: text, Refuse: refuse})
		case ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) && !p.IsLost(): // health checks report these
			refuse(err)
		}
	}
	return all
}

// ownMetrics returns what the manager knows without its processes.
func (m *Manager) ownMetrics() []byte {
	m.mu.Lock()
	completed, refused, rolledBack := m.events[EventSwapSettled], m.events[EventSwapRefused], m.events[EventRolledBack]
	rehearsals := maps.Clone(m.rehearsals)
	m.mu.Unlock()
	s := m.Status()
	up := 0
	if s.State.Serves() {
		up = 1
	}
	text := fmt.Appendf(nil, `# HELP personal_plugin_up 1 if a plugin process serves, else 0.
# TYPE personal_plugin_up gauge
personal_plugin_up %d
# HELP personal_plugin_generation Number of the serving plugin process, 0 if there is none.
# TYPE personal_plugin_generation gauge
personal_plugin_generation %d
# HELP personal_plugin_restarts_total Plugin processes started to replace one that died.
# TYPE personal_plugin_restarts_total counter
personal_plugin_restarts_total %d
# HELP personal_plugin_swaps_total Swaps of plugin versions that have ended, by outcome.
# TYPE personal_plugin_swaps_total counter
personal_plugin_swaps_total{outcome="completed"} %d
personal_plugin_swaps_total{outcome="refused"} %d
personal_plugin_swaps_total{outcome="rolled_back"} %d
# HELP personal_plugin_rehearsals_total Rehearsals of plugin versions, by outcome.
# TYPE personal_plugin_rehearsals_total counter
personal_plugin_rehearsals_total{outcome="passed"} %d
personal_plugin_rehearsals_total{outcome="skipped"} %d
personal_plugin_rehearsals_total{outcome="differs"} %d
personal_plugin_rehearsals_total{outcome="failed"} %d
`, up, s.Generation, s.Restarts, completed, refused, rolledBack,
		rehearsals[rpc.RehearsalPassed], rehearsals[rpc.RehearsalSkipped],
		rehearsals[rpc.RehearsalDiffers], rehearsals[rpc.RehearsalFailed])
	if s.Version == "" {
		return text
	}
	return fmt.Appendf(text, `# HELP personal_plugin_info 1, with the version of the serving plugin process; absent if there is none.
# TYPE personal_plugin_info gauge
personal_plugin_info{version=%q} 1
`, s.Version)
}
