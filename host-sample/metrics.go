package main

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// metrics are what /metrics shows.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
}

func newMetrics(status func() pluginmanager.Status) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "personal_http_requests_total", Help: "Requests answered, by operation and HTTP status.",
		}, []string{"operation", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "personal_http_request_duration_seconds", Help: "Time to answer, by operation.",
		}, []string{"operation"}),
	}
	m.registry.MustRegister(m.requests, m.latency, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(pluginMetrics(status)...)
	return m
}

func pluginMetrics(status func() pluginmanager.Status) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "personal_plugin_up", Help: "1 if a plugin process serves, else 0.",
		}, func() float64 {
			if status().State.Serves() {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "personal_plugin_generation", Help: "Number of the serving plugin process, 0 if there is none.",
		}, func() float64 { return float64(status().Generation) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "personal_plugin_restarts_total", Help: "Plugin processes that took the place of a dead one.",
		}, func() float64 { return float64(status().Restarts) }),
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// observe counts and times an answer of the API.
func (m *metrics) observe(o personalhttp.Observation) {
	m.count(cmp.Or(o.Operation, otherOperation), o.Status, o.Took)
}

func (m *metrics) count(operation string, status int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Inc()
	m.latency.WithLabelValues(operation).Observe(took.Seconds())
}

// measure counts and times what the CMS's own routes answer.
func (m *metrics) measure(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(recorder, r)
		m.count(ownOperation(r), recorder.status, time.Since(began))
	})
}

// statusRecorder remembers the status that was sent.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status and sends it.
func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// otherOperation stands for paths that callers made up.
const otherOperation = "other"

// ownOperation names the CMS's own routes by their patterns. The widest, which
// takes what there is no page for, is none.
func ownOperation(r *http.Request) string {
	if r.Pattern == "" || r.Pattern == "/" {
		return otherOperation
	}
	return r.Pattern
}
