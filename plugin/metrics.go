package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/transfer"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

const (
	// backlogFresh is how long counted jobs are reported again: counting reads the
	// database.
	backlogFresh = 5 * time.Second
	// backlogTimeout is less than a host waits for metrics.
	backlogTimeout = 500 * time.Millisecond
)

// durations are the upper bounds of histograms of durations.
var durations = []int64{
	int64(100 * time.Microsecond), int64(250 * time.Microsecond), int64(500 * time.Microsecond),
	int64(time.Millisecond), int64(2500 * time.Microsecond), int64(5 * time.Millisecond),
	int64(10 * time.Millisecond), int64(25 * time.Millisecond), int64(50 * time.Millisecond),
	int64(100 * time.Millisecond), int64(250 * time.Millisecond), int64(500 * time.Millisecond),
	int64(time.Second), int64(2500 * time.Millisecond), int64(5 * time.Second), int64(10 * time.Second),
}

// batchSizes are the upper bounds of histograms of batch sizes.
var batchSizes = []int64{1, 2, 4, 8, 16, 32, 64, 128, 256}

// otherKind is the label of jobs of unknown kinds, which another version has stored.
const otherKind outbox.Kind = "other"

// jobKinds are the kinds of jobs, by which metrics tell them apart.
var jobKinds = []outbox.Kind{
	accounts.KindEvent, accounts.KindRecovery, accounts.KindEmailChange, accounts.KindNotice, accounts.KindEmailNotice,
	accounts.KindVerification, accounts.KindResend, accounts.KindDeletion, accounts.KindErasure, accounts.KindInvitation, accounts.KindFill,
	transfer.KindWrap, otherKind,
}

// measurements are what a plugin process counts. Their labels are fixed when they are
// made: counting costs a look into a map and a few atomic additions.
type measurements struct {
	started time.Time

	operations histograms
	hashWaits  histograms
	jobs       histograms
	store      histograms
	batches    histograms

	hashingRefused atomic.Uint64
	rejected       map[string]*atomic.Uint64        // by limit
	suppressed     map[mailtext.Kind]*atomic.Uint64 // mails

	mu      sync.Mutex // held while jobs are counted
	counted time.Time  // when that was tried last
	backlog map[outbox.Kind]outbox.Backlog
}

var _ store.Observer = (*measurements)(nil)

func newMeasurements() *measurements {
	m := &measurements{
		started: time.Now(),
		operations: histograms{
			name: "personal_plugin_operation_duration_seconds", help: "Duration of operations in the plugin, by operation and outcome.",
			labels: []string{"operation", "outcome"}, bounds: durations, unit: float64(time.Second),
		},
		hashWaits: histograms{
			name: "personal_plugin_hashing_wait_seconds", help: "How long sign-ins and other operations waited until their password was hashed.",
			bounds: durations, unit: float64(time.Second),
		},
		jobs: histograms{
			name: "personal_plugin_outbox_job_duration_seconds", help: "Duration of jobs that send mails, deliver events or wrap hashes, by kind and outcome.",
			labels: []string{"kind", "outcome"}, bounds: durations, unit: float64(time.Second),
		},
		store: histograms{
			name: "personal_plugin_store_duration_seconds", help: "Duration of database operations, including the wait for a connection.",
			labels: []string{"operation"}, bounds: durations, unit: float64(time.Second),
		},
		batches: histograms{
			name: "personal_plugin_store_batch_size", help: "Lookups and writes of sessions in one batch, by operation.",
			labels: []string{"operation"}, bounds: batchSizes, unit: 1,
		},
		rejected:   map[string]*atomic.Uint64{},
		suppressed: map[mailtext.Kind]*atomic.Uint64{},
	}
	m.hashWaits.add("", "")
	for _, operation := range pluginrpc.Operations() {
		for _, outcome := range pluginrpc.Outcomes() {
			m.operations.add(operation, string(outcome))
		}
	}
	for _, kind := range jobKinds {
		for _, outcome := range []outbox.Outcome{outbox.Done, outbox.Failed, outbox.Dropped} {
			m.jobs.add(string(kind), string(outcome))
		}
	}
	for _, operation := range []store.Operation{store.Query, store.Statement, store.Transaction, store.FindSession, store.WriteSession} {
		m.store.add(string(operation), "")
	}
	for _, operation := range []store.Operation{store.FindSession, store.WriteSession} {
		m.batches.add(string(operation), "")
	}
	for _, limit := range limitNames {
		m.rejected[limit] = new(atomic.Uint64)
	}
	for _, d := range mailtext.Descriptions() {
		m.suppressed[d.Kind] = new(atomic.Uint64)
	}
	return m
}

// operation is a [pluginrpc.Observer].
func (m *measurements) operation(operation string, outcome pluginrpc.Outcome, took time.Duration) {
	m.operations.observe(operation, string(outcome), int64(took))
}

func (m *measurements) hashing(waited time.Duration, err error) {
	switch {
	case err == nil:
		m.hashWaits.observe("", "", int64(waited))
	case errors.Is(err, password.ErrBusy):
		m.hashingRefused.Add(1)
	}
}

func (m *measurements) rejection(limit string) {
	if n, ok := m.rejected[limit]; ok {
		n.Add(1)
	}
}

func (m *measurements) suppression(k mailtext.Kind) {
	if n, ok := m.suppressed[k]; ok {
		n.Add(1)
	}
}

func (m *measurements) job(k outbox.Kind, o outbox.Outcome, took time.Duration) {
	m.jobs.observe(string(k), string(o), int64(took))
}

// ObserveStore implements [store.Observer].
func (m *measurements) ObserveStore(o store.Operation, took time.Duration) {
	m.store.observe(string(o), "", int64(took))
}

// ObserveBatch implements [store.Observer].
func (m *measurements) ObserveBatch(o store.Operation, size int) {
	m.batches.observe(string(o), "", int64(size))
}

// Metrics implements [pluginrpc.ModuleWithMetrics].
func (m *module) Metrics(ctx context.Context) []pluginrpc.Metric {
	counted := m.measured
	running, waiting := m.hasher.Load()
	jobs, ages := counted.jobGauges(m.backlog(ctx), m.store.Now())
	all := []pluginrpc.Metric{
		counted.operations.metric(),
		single("personal_plugin_hashing_running", pluginrpc.MetricGauge, float64(running), "Passwords that are being hashed."),
		single("personal_plugin_hashing_waiting", pluginrpc.MetricGauge, float64(waiting), "Operations that wait until their password is hashed."),
		counted.hashWaits.metric(),
		single("personal_plugin_hashing_refused_total", pluginrpc.MetricCounter, float64(counted.hashingRefused.Load()),
			"Operations refused because the hashing queue was full or the wait was too long."),
		counted.rejections(), counted.suppressions(),
		jobs, ages,
		counted.jobs.metric(), counted.store.metric(), counted.batches.metric(),
	}
	return append(all, counted.process()...)
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

// jobGauges returns the numbers and the ages of jobs. A kind without jobs has zeros.
func (m *measurements) jobGauges(backlog map[outbox.Kind]outbox.Backlog, now time.Time) (jobs, ages pluginrpc.Metric) {
	jobs = pluginrpc.Metric{
		Name: "personal_plugin_outbox_jobs", Help: "Jobs that are not done, by kind, in the database that all nodes share; at most 10,000 are counted.",
		Type: pluginrpc.MetricGauge, Labels: []string{"kind"},
	}
	ages = pluginrpc.Metric{
		Name: "personal_plugin_outbox_oldest_job_seconds", Help: "Age of the oldest job that is not done, by kind, 0 if there is none.",
		Type: pluginrpc.MetricGauge, Labels: []string{"kind"},
	}
	sums := map[outbox.Kind]outbox.Backlog{}
	for kind, b := range backlog {
		if _, known := m.jobs.series[[2]string{string(kind), string(outbox.Done)}]; !known {
			kind = otherKind
		}
		sum := sums[kind]
		if sum.Jobs == 0 || b.Oldest.Before(sum.Oldest) {
			sum.Oldest = b.Oldest
		}
		sum.Jobs += b.Jobs
		sums[kind] = sum
	}
	for _, kind := range jobKinds {
		var age float64
		if sums[kind].Jobs > 0 {
			age = max(0, now.Sub(sums[kind].Oldest).Seconds())
		}
		label := []string{string(kind)}
		jobs.Series = append(jobs.Series, pluginrpc.MetricSeries{LabelValues: label, Value: float64(sums[kind].Jobs)})
		ages.Series = append(ages.Series, pluginrpc.MetricSeries{LabelValues: label, Value: age})
	}
	return jobs, ages
}

func (m *measurements) rejections() pluginrpc.Metric {
	metric := pluginrpc.Metric{
		Name: "personal_plugin_rejected_attempts_total", Help: "Attempts refused by a rate limit, by the limit's name in the settings.",
		Type: pluginrpc.MetricCounter, Labels: []string{"limit"},
	}
	for _, limit := range limitNames {
		metric.Series = append(metric.Series, pluginrpc.MetricSeries{LabelValues: []string{limit}, Value: float64(m.rejected[limit].Load())})
	}
	return metric
}

func (m *measurements) suppressions() pluginrpc.Metric {
	metric := pluginrpc.Metric{
		Name: "personal_plugin_suppressed_mails_total", Help: "Mails that were not sent because their mail budget was used up, by kind.",
		Type: pluginrpc.MetricCounter, Labels: []string{"kind"},
	}
	for _, d := range mailtext.Descriptions() {
		metric.Series = append(metric.Series, pluginrpc.MetricSeries{LabelValues: []string{string(d.Kind)}, Value: float64(m.suppressed[d.Kind].Load())})
	}
	return metric
}

// process returns the use of memory and processors.
func (m *measurements) process() []pluginrpc.Metric {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	all := []pluginrpc.Metric{
		single("personal_plugin_process_start_time_seconds", pluginrpc.MetricGauge, float64(m.started.UnixMilli())/1000,
			"When the plugin process started, in seconds since 1970."),
		single("personal_plugin_process_goroutines", pluginrpc.MetricGauge, float64(runtime.NumGoroutine()), "Goroutines of the plugin process."),
		single("personal_plugin_process_heap_bytes", pluginrpc.MetricGauge, float64(heap[0].Value.Uint64()), "Memory of objects on the heap of the plugin process."),
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err == nil {
		cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
		all = append(all, single("personal_plugin_process_cpu_seconds_total", pluginrpc.MetricCounter, cpu.Seconds(), "Processor time of plugin processes."))
	}
	if resident, ok := residentMemory(); ok {
		all = append(all, single("personal_plugin_process_resident_memory_bytes", pluginrpc.MetricGauge, resident, "Memory of the plugin process that is not swapped out."))
	}
	return all
}

// residentMemory returns the resident memory of this process, which only Linux tells.
func residentMemory() (bytes float64, ok bool) {
	statm, err := os.ReadFile("/proc/self/statm") // the second number, in pages
	fields := strings.Fields(string(statm))
	if err != nil || len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return float64(pages) * float64(os.Getpagesize()), err == nil
}

// single returns a metric without labels.
func single(name string, t pluginrpc.MetricType, value float64, help string) pluginrpc.Metric {
	return pluginrpc.Metric{Name: name, Help: help, Type: t, Series: []pluginrpc.MetricSeries{{Value: value}}}
}

// histograms are the series of one histogram metric, by the values of up to two labels.
type histograms struct {
	name, help string
	labels     []string
	bounds     []int64
	unit       float64 // observed values are divided by it when they are reported
	order      [][2]string
	series     map[[2]string]*histogram
}

// histogram counts values in buckets.
type histogram struct {
	counts []atomic.Uint64 // one more than there are bounds
	sum    atomic.Int64
}

// add adds a series. All are added before the first observation.
func (h *histograms) add(label1, label2 string) {
	if h.series == nil {
		h.series = map[[2]string]*histogram{}
	}
	labels := [2]string{label1, label2}
	h.order = append(h.order, labels)
	h.series[labels] = &histogram{counts: make([]atomic.Uint64, len(h.bounds)+1)}
}

// observe counts a value. It allocates nothing; a series that was not added is ignored.
func (h *histograms) observe(label1, label2 string, value int64) {
	one, ok := h.series[[2]string{label1, label2}]
	if !ok {
		return
	}
	bucket := 0
	for bucket < len(h.bounds) && value > h.bounds[bucket] {
		bucket++
	}
	one.counts[bucket].Add(1)
	one.sum.Add(value)
}

// metric returns the series that have values, and with each of them the others of its first
// label: an alert on the rare ones sees their first value only if they begin at zero.
func (h *histograms) metric() pluginrpc.Metric {
	m := pluginrpc.Metric{Name: h.name, Help: h.help, Type: pluginrpc.MetricHistogram, Labels: h.labels}
	for _, bound := range h.bounds {
		m.Bounds = append(m.Bounds, float64(bound)/h.unit)
	}
	used := map[string]bool{} // first labels
	var all []pluginrpc.MetricSeries
	for _, labels := range h.order {
		one := h.series[labels]
		s := pluginrpc.MetricSeries{LabelValues: labels[:len(h.labels)], Value: float64(one.sum.Load()) / h.unit}
		for i := range one.counts {
			n := one.counts[i].Load()
			s.Counts = append(s.Counts, n)
			used[labels[0]] = used[labels[0]] || n > 0
		}
		all = append(all, s)
	}
	for i, labels := range h.order {
		if used[labels[0]] {
			m.Series = append(m.Series, all[i])
		}
	}
	return m
}
