package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

const (
	// backlogFresh is how long counted jobs are reported again: counting reads the
	// database.
	backlogFresh = 5 * time.Second
	// backlogTimeout is less than a host waits for metrics.
	backlogTimeout = 500 * time.Millisecond
)

// durations are the upper bounds of histograms of durations, in seconds.
var durations = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}

// batchSizes are the upper bounds of histograms of batch sizes.
var batchSizes = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}

// otherKind is the label of jobs of unknown kinds, which another version has stored.
const otherKind outbox.Kind = "other"

// jobKinds are the kinds of jobs, by which metrics tell them apart.
var jobKinds = []outbox.Kind{
	accounts.KindEvent, accounts.KindRecovery, accounts.KindEmailChange, accounts.KindNotice,
	accounts.KindVerification, accounts.KindResend, accounts.KindDeletion, accounts.KindErasure, accounts.KindInvitation, accounts.KindFill, accounts.KindMailedCode,
	accounts.DueErasure, transfer.KindWrap, otherKind,
}

// collected are the metrics that the library's collector measures; it has more.
var collected = []string{"personal_plugin_process_cpu_seconds_total", "personal_plugin_process_resident_memory_bytes"}

// measurements are what a plugin process counts. All values of labels are known in advance.
type measurements struct {
	registry *prometheus.Registry
	process  *prometheus.Registry // of the library's collector

	operations     outcomes
	hashingRunning prometheus.Gauge
	hashingWaiting prometheus.Gauge
	hashWaits      prometheus.Histogram
	hashingRefused prometheus.Counter
	rejected       *prometheus.CounterVec // by limit
	suppressed     *prometheus.CounterVec // mails, by kind
	waitingJobs    *prometheus.GaugeVec   // by kind
	oldestJob      *prometheus.GaugeVec   // by kind
	jobs           outcomes
	deletionHeld   prometheus.Gauge
	store          *prometheus.HistogramVec
	batches        *prometheus.HistogramVec

	mu      sync.Mutex // held while jobs are counted
	counted time.Time  // when that was tried last
	backlog map[outbox.Kind]outbox.Backlog
}

var _ store.Observer = (*measurements)(nil)

func newMeasurements() *measurements {
	registry, process := prometheus.NewRegistry(), prometheus.NewRegistry()
	process.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{Namespace: "personal_plugin"}))
	auto := promauto.With(registry)
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Name: "personal_plugin_" + name, Help: help}
	}
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "personal_plugin_" + name, Help: help}
	}
	histogram := func(name, help string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: "personal_plugin_" + name, Help: help, Buckets: buckets}
	}
	m := &measurements{
		registry: registry,
		process:  process,
		operations: newOutcomes(auto.NewHistogramVec(histogram("operation_duration_seconds",
			"Duration of operations in the plugin, by operation and outcome.", durations), []string{"operation", "outcome"}),
			rpc.MethodNames(), rpc.Outcomes()),
		hashingRunning: auto.NewGauge(gauge("hashing_running", "Passwords that are being hashed.")),
		hashingWaiting: auto.NewGauge(gauge("hashing_waiting", "Operations that wait until their password is hashed.")),
		hashWaits: auto.NewHistogram(histogram("hashing_wait_seconds",
			"How long sign-ins and other operations waited until their password was hashed.", durations)),
		hashingRefused: auto.NewCounter(counter("hashing_refused_total",
			"Operations refused because the hashing queue was full or the wait was too long.")),
		rejected: auto.NewCounterVec(counter("rejected_attempts_total",
			"Attempts refused by a rate limit, by the limit's name in the settings."), []string{"limit"}),
		suppressed: auto.NewCounterVec(counter("suppressed_mails_total",
			"Mails that were not sent because their mail budget was used up, by kind."), []string{"kind"}),
		waitingJobs: auto.NewGaugeVec(gauge("outbox_jobs",
			"Jobs and erasures that are not done, by kind, in the database that all nodes share; at most 10,000 are counted."), []string{"kind"}),
		oldestJob: auto.NewGaugeVec(gauge("outbox_oldest_job_seconds",
			"Age of the oldest job that is not done, by kind, 0 if there is none."), []string{"kind"}),
		jobs: newOutcomes(auto.NewHistogramVec(histogram("outbox_job_duration_seconds",
			"Duration of jobs that send mails, deliver events or wrap hashes, by kind and outcome.", durations), []string{"kind", "outcome"}),
			jobKinds, []outbox.Outcome{outbox.Done, outbox.Failed, outbox.Dropped}),
		deletionHeld: auto.NewGauge(gauge("deletion_held_seconds",
			"Seconds until removing and erasing go on after a clock jumped; 0 if nothing is held.")),
		store: auto.NewHistogramVec(histogram("store_duration_seconds",
			"Duration of database operations, including the wait for a connection.", durations), []string{"operation"}),
		batches: auto.NewHistogramVec(histogram("store_batch_size",
			"Lookups and writes of sessions in one batch, by operation.", batchSizes), []string{"operation"}),
	}
	started := float64(time.Now().UnixMilli()) / 1000 // the collector needs /proc/stat, which the unit of systemd hides
	auto.NewGaugeFunc(gauge("process_start_time_seconds", "Start time of the plugin process, in seconds since 1970."), func() float64 {
		return started
	})
	auto.NewGaugeFunc(gauge("process_goroutines", "Goroutines of the plugin process."),
		func() float64 { return float64(runtime.NumGoroutine()) })
	auto.NewGaugeFunc(gauge("process_heap_bytes", "Memory of objects on the heap of the plugin process."), func() float64 {
		heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(heap)
		return float64(heap[0].Value.Uint64())
	})
	for _, l := range (settings{}).limits() { // so that an alert sees the first attempt
		m.rejected.WithLabelValues(l.Name)
	}
	for _, name := range []string{"export", "code"} { // limits without a setting
		m.rejected.WithLabelValues(name)
	}
	for _, d := range mailtext.Descriptions() {
		m.suppressed.WithLabelValues(string(d.Kind))
	}
	return m
}

// operation is a [rpc.Observer].
func (m *measurements) operation(operation string, outcome rpc.Outcome, took time.Duration) {
	m.operations.observe(operation, string(outcome), took)
}

func (m *measurements) hashing(waited time.Duration, err error) {
	switch {
	case err == nil:
		m.hashWaits.Observe(waited.Seconds())
	case errors.Is(err, password.ErrBusy):
		m.hashingRefused.Inc()
	}
}

func (m *measurements) rejection(limit string) { m.rejected.WithLabelValues(limit).Inc() }

func (m *measurements) suppression(k mailtext.Kind) { m.suppressed.WithLabelValues(string(k)).Inc() }

func (m *measurements) job(k outbox.Kind, o outbox.Outcome, took time.Duration) {
	m.jobs.observe(string(k), string(o), took)
}

// ObserveStore implements [store.Observer].
func (m *measurements) ObserveStore(o store.Operation, took time.Duration) {
	m.store.WithLabelValues(string(o)).Observe(took.Seconds())
}

// ObserveBatch implements [store.Observer].
func (m *measurements) ObserveBatch(o store.Operation, size int) {
	m.batches.WithLabelValues(string(o)).Observe(float64(size))
}

// Metrics implements [rpc.Module].
func (m *module) Metrics(ctx context.Context) ([]byte, error) {
	running, waiting := m.hasher.Load()
	m.measured.hashingRunning.Set(float64(running))
	m.measured.hashingWaiting.Set(float64(waiting))
	m.measured.deletionHeld.Set(m.store.DeletionHeld().Seconds())
	m.measured.setJobs(m.backlog(ctx), m.store.Now())
	return m.measured.text()
}

// backlog returns the jobs that are not done, counted a few seconds ago at most; after a
// failure, those counted last.
func (m *module) backlog(ctx context.Context) map[outbox.Kind]outbox.Backlog {
	counted := m.measured
	counted.mu.Lock()
	defer counted.mu.Unlock()
	if time.Since(counted.counted) >= backlogFresh {
		ctx, cancel := context.WithTimeout(ctx, backlogTimeout)
		defer cancel()
		if backlog, err := m.store.JobBacklog(ctx); err == nil {
			counted.backlog = backlog
		}
		counted.counted = time.Now()
	}
	return counted.backlog
}

// setJobs sets the numbers and the ages of jobs. A kind without jobs has zeros.
func (m *measurements) setJobs(backlog map[outbox.Kind]outbox.Backlog, now time.Time) {
	jobs, ages := map[outbox.Kind]int{}, map[outbox.Kind]time.Duration{}
	for kind, b := range backlog {
		if !slices.Contains(jobKinds, kind) {
			kind = otherKind
		}
		jobs[kind] += b.Jobs
		ages[kind] = max(ages[kind], now.Sub(b.Oldest))
	}
	for _, kind := range jobKinds {
		m.waitingJobs.WithLabelValues(string(kind)).Set(float64(jobs[kind]))
		m.oldestJob.WithLabelValues(string(kind)).Set(ages[kind].Seconds())
	}
}

// text returns all metrics in the text exposition format.
func (m *measurements) text() ([]byte, error) {
	families, err := m.registry.Gather()
	measured, processErr := m.process.Gather()
	if err := errors.Join(err, processErr); err != nil {
		return nil, fmt.Errorf("gathering the metrics: %w", err)
	}
	for _, f := range measured {
		if slices.Contains(collected, f.GetName()) {
			families = append(families, f)
		}
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			return nil, fmt.Errorf("writing the metrics: %w", err)
		}
	}
	return text.Bytes(), nil
}

// outcomes are histograms of durations by a name and an outcome. The series of a name
// exist from its first value, for all outcomes: an alert on the rare ones sees their first
// value only if they begin at zero.
type outcomes map[string]func() map[string]prometheus.Observer

func newOutcomes[N, O ~string](all *prometheus.HistogramVec, names []N, outcomesOf []O) outcomes {
	byName := outcomes{}
	for _, name := range names {
		byName[string(name)] = sync.OnceValue(func() map[string]prometheus.Observer {
			series := map[string]prometheus.Observer{}
			for _, outcome := range outcomesOf {
				series[string(outcome)] = all.WithLabelValues(string(name), string(outcome))
			}
			return series
		})
	}
	return byName
}

// observe counts a duration. It allocates nothing, except for the first of a name.
func (o outcomes) observe(name, outcome string, took time.Duration) {
	if series, ok := o[name]; ok { // another version may have other kinds of jobs
		series()[outcome].Observe(took.Seconds())
	}
}
