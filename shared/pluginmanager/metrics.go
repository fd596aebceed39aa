package pluginmanager

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/pluginrpc"
)

const (
	// metricsTimeout bounds a reading of one process: a frozen one must not delay what
	// collects the metrics.
	metricsTimeout = time.Second
	// metricsFresh is how long a reading is used: collectors that ask at once cause one.
	metricsFresh = time.Second
	// maxSeries bounds the series that are kept of one process, and of all that have ended.
	maxSeries = pluginrpc.MaxMetricSeries
)

// Metrics returns the metrics of the manager and of its plugin processes, for the
// monitoring of a CMS, sorted by name; docs/operations.md describes them. Counters and
// histograms are sums over all processes that have served since [Manager.Start]: they
// never decrease at a swap, a rollback or a restart. For a process that died, they contain
// its last reading. Gauges are those of the live process.
//
// It asks the processes at most once a second, and waits for a second at most. Between two
// readings, and for a process that does not respond, it returns the last known values. A
// version without metrics adds nothing. It may be called at any time.
func (m *Manager) Metrics(ctx context.Context) []pluginrpc.Metric {
	m.readMetrics(ctx)
	m.mu.Lock()
	live := m.live
	m.mu.Unlock()
	metrics := m.ownMetrics()
	for _, metric := range m.ledger.total(live) {
		if !slices.ContainsFunc(metrics, func(own pluginrpc.Metric) bool { return own.Name == metric.Name }) {
			metrics = append(metrics, metric)
		}
	}
	slices.SortFunc(metrics, func(a, b pluginrpc.Metric) int { return strings.Compare(a.Name, b.Name) })
	return metrics
}

// ownMetrics returns what the manager knows without its processes.
func (m *Manager) ownMetrics() []pluginrpc.Metric {
	s := m.Status()
	up := 0.0
	if s.State.Serves() {
		up = 1
	}
	single := func(name string, t pluginrpc.MetricType, value float64, help string) pluginrpc.Metric {
		return pluginrpc.Metric{Name: name, Help: help, Type: t, Series: []pluginrpc.MetricSeries{{Value: value}}}
	}
	info := pluginrpc.Metric{
		Name: "personal_plugin_info", Type: pluginrpc.MetricGauge, Labels: []string{"version"},
		Help: "1, with the version of the serving plugin process; absent if there is none.",
	}
	if s.Version != "" {
		info.Series = []pluginrpc.MetricSeries{{LabelValues: []string{s.Version}, Value: 1}}
	}
	return []pluginrpc.Metric{
		single("personal_plugin_up", pluginrpc.MetricGauge, up, "1 if a plugin process serves, else 0."),
		single("personal_plugin_generation", pluginrpc.MetricGauge, float64(s.Generation), "Number of the serving plugin process, 0 if there is none."),
		single("personal_plugin_restarts_total", pluginrpc.MetricCounter, float64(s.Restarts), "Plugin processes started to replace one that died."),
		info,
		m.ledger.swapsMetric(),
	}
}

// readMetrics reads the metrics of all processes that serve or still may have calls,
// unless another call did so a moment ago.
func (m *Manager) readMetrics(ctx context.Context) {
	m.ledger.reading.Lock()
	defer m.ledger.reading.Unlock()
	if time.Since(m.ledger.read) < metricsFresh {
		return
	}
	ctx = context.WithoutCancel(ctx) // other callers rely on this reading, too
	var readings sync.WaitGroup
	for _, p := range m.ledger.list() {
		readings.Go(func() { m.readProcess(ctx, p) })
	}
	readings.Wait()
	m.ledger.read = time.Now()
}

// readProcess records the metrics of a process. After an error, the last known ones remain.
func (m *Manager) readProcess(ctx context.Context, p *instance) {
	if p.IsLost() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	metrics, err := p.Metrics(ctx)
	switch {
	case err == nil:
		m.ledger.record(p, metrics)
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || p.IsLost(): // health checks report it
	case !p.badMetrics.Swap(true): // once a process
		p.Log().Warn("plugin metrics are left out", "error", err)
	}
}

// settleMetrics takes a last reading of a process that served and is about to end. While
// the manager stops, it takes none: its metrics end with it.
func (m *Manager) settleMetrics(p *instance) {
	if m.ledger.has(p) && !p.silent.Load() && m.work.Err() == nil {
		m.readProcess(m.work, p)
	}
	m.ledger.settle(p)
}

// ledger adds up the metrics of processes that have served. A process is in it from the
// moment it gets calls until its counters are added to those of the ended ones, which is
// one step: so no sum decreases.
type ledger struct {
	reading sync.Mutex // held while processes are read
	read    time.Time  // when that ended

	mu        sync.Mutex // guards what follows
	ended     counters
	processes map[*instance]*processMetrics
	swaps     map[string]int // by outcome
}

// processMetrics are the last known metrics of a process.
type processMetrics struct {
	counters counters
	gauges   []pluginrpc.Metric
}

func newLedger() *ledger {
	return &ledger{ended: counters{}, processes: map[*instance]*processMetrics{}, swaps: map[string]int{}}
}

// add adds a process that begins to get calls.
func (l *ledger) add(p *instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes[p] = &processMetrics{counters: counters{}}
}

func (l *ledger) list() []*instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.processes))
}

func (l *ledger) has(p *instance) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.processes[p] != nil
}

// record stores a reading. Two readings of a process may arrive in either order, and a
// defective process may count down: the larger number counts.
func (l *ledger) record(p *instance, metrics []pluginrpc.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.processes[p]
	if known == nil { // it has ended meanwhile
		return
	}
	known.counters.merge(metrics, maxSeries, larger[float64], larger[uint64])
	known.gauges = slices.DeleteFunc(slices.Clone(metrics), func(m pluginrpc.Metric) bool { return m.Type != pluginrpc.MetricGauge })
}

// settle adds the counters of a process to those of the ended ones.
func (l *ledger) settle(p *instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.processes[p]; known != nil {
		l.ended.add(known.counters.metrics(), maxSeries)
		delete(l.processes, p)
	}
}

// total returns the sums over all processes, and the gauges of the live one, if any.
func (l *ledger) total(live *instance) []pluginrpc.Metric {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := counters{}
	limit := (1 + len(l.processes)) * maxSeries // for all that is known
	all.add(l.ended.metrics(), limit)
	for p, known := range l.processes {
		if p != live {
			all.add(known.counters.metrics(), limit)
		}
	}
	known := l.processes[live]
	if known == nil {
		return all.metrics()
	}
	all.add(known.counters.metrics(), limit) // last: the form of its metrics applies
	for _, gauge := range known.gauges {
		delete(all, gauge.Name) // another version may count under this name
	}
	return append(all.metrics(), known.gauges...)
}

// The outcomes of swaps, by the events that report them.
var swapOutcomes = map[EventType]string{
	EventSwapCompleted: "completed", EventRolledBack: "rolled_back", EventSwapRefused: "refused",
}

// count counts the swaps that end with an event.
func (l *ledger) count(e Event) {
	outcome, ok := swapOutcomes[e.Type]
	if !ok || e.Type == EventSwapRefused && e.Step == "workers" { // after the switch: it was rolled back
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.swaps[outcome]++
}

func (l *ledger) swapsMetric() pluginrpc.Metric {
	l.mu.Lock()
	defer l.mu.Unlock()
	metric := pluginrpc.Metric{
		Name: "personal_plugin_swaps_total", Help: "Swaps of plugin versions that have ended, by outcome.",
		Type: pluginrpc.MetricCounter, Labels: []string{"outcome"},
	}
	for _, outcome := range slices.Sorted(maps.Values(swapOutcomes)) {
		metric.Series = append(metric.Series, pluginrpc.MetricSeries{LabelValues: []string{outcome}, Value: float64(l.swaps[outcome])})
	}
	return metric
}

// counters are the counters and histograms among metrics, by name.
type counters map[string]counter

// counter is one counter or histogram, with its series by their label values.
type counter struct {
	metric pluginrpc.Metric // without series
	series map[string]pluginrpc.MetricSeries
}

// add adds the numbers of metrics, see merge.
func (c counters) add(metrics []pluginrpc.Metric, limit int) {
	c.merge(metrics, limit, sum[float64], sum[uint64])
}

// merge combines numbers with those of metrics. A metric whose form, its type, labels or
// buckets, has changed begins at zero, because different forms have no sum. New series above
// the limit are left out: a defective plugin could make new ones at every reading.
func (c counters) merge(metrics []pluginrpc.Metric, limit int, values func(a, b float64) float64, counts func(a, b uint64) uint64) {
	size := 0
	for _, known := range c {
		size += len(known.series)
	}
	for _, m := range metrics {
		if m.Type == pluginrpc.MetricGauge {
			continue
		}
		known, found := c[m.Name]
		if !found || known.metric.Type != m.Type || !slices.Equal(known.metric.Labels, m.Labels) || !slices.Equal(known.metric.Bounds, m.Bounds) {
			size -= len(known.series)
			known.series = map[string]pluginrpc.MetricSeries{}
		}
		known.metric = m
		known.metric.Series = nil
		for _, s := range m.Series {
			key := strings.Join(s.LabelValues, " ")
			old, ok := known.series[key]
			switch {
			case ok:
				combined := pluginrpc.MetricSeries{LabelValues: s.LabelValues, Value: values(old.Value, s.Value)}
				for i := range s.Counts {
					combined.Counts = append(combined.Counts, counts(old.Counts[i], s.Counts[i]))
				}
				known.series[key] = combined
			case size < limit:
				known.series[key] = s
				size++
			}
		}
		if found || len(known.series) > 0 {
			c[m.Name] = known
		}
	}
}

// metrics returns the metrics, with their series in a fixed order.
func (c counters) metrics() (all []pluginrpc.Metric) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		m := c[name].metric
		for _, key := range slices.Sorted(maps.Keys(c[name].series)) {
			m.Series = append(m.Series, c[name].series[key])
		}
		all = append(all, m)
	}
	return all
}

func sum[N float64 | uint64](a, b N) N { return a + b }

func larger[N float64 | uint64](a, b N) N { return max(a, b) }
