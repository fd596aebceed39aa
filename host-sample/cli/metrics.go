package cli

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cms-personal/personal/host-sample/traffic"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// metrics are what /metrics shows.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "personal_http_requests_total", Help: "Completed requests, by operation and HTTP status.",
		}, []string{"operation", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "personal_http_request_duration_seconds", Help: "Duration of requests, by operation.",
		}, []string{"operation"}),
	}
	m.registry.MustRegister(m.requests, m.latency,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// showPlugin adds the metrics of the plugin, see [pluginmanager.Manager.Metrics].
func (m *metrics) showPlugin(plugin func(context.Context) []pluginrpc.Metric) {
	m.registry.MustRegister(pluginCollector(plugin))
}

// observer returns what counts the API's requests, also for the administrators' chart.
func (m *metrics) observer(chart *traffic.Recorder) func(personalhttp.Observation) {
	return func(call personalhttp.Observation) {
		operation := cmp.Or(call.Operation, otherOperation)
		m.count(operation, call.Status, call.Took)
		chart.Count(operation, call.Status >= http.StatusInternalServerError, call.Took)
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) count(operation string, status int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Inc()
	m.latency.WithLabelValues(operation).Observe(took.Seconds())
}

// pluginCollector collects the metrics of the plugin, from the function that it is.
type pluginCollector func(context.Context) []pluginrpc.Metric

// Describe sends nothing: the metrics depend on the version of the plugin.
func (pluginCollector) Describe(chan<- *prometheus.Desc) {}

// Collect converts the metrics. It has no context; the manager limits the time.
func (c pluginCollector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c(context.Background()) {
		desc := prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
		for _, s := range m.Series {
			metric, err := constMetric(desc, m, s)
			if err != nil {
				metric = prometheus.NewInvalidMetric(desc, err)
			}
			out <- metric
		}
	}
}

func constMetric(desc *prometheus.Desc, m pluginrpc.Metric, s pluginrpc.MetricSeries) (prometheus.Metric, error) {
	switch m.Type {
	case pluginrpc.MetricCounter:
		return prometheus.NewConstMetric(desc, prometheus.CounterValue, s.Value, s.LabelValues...)
	case pluginrpc.MetricHistogram:
		total, upTo := m.Cumulative(s)
		return prometheus.NewConstHistogram(desc, total, s.Value, upTo, s.LabelValues...)
	}
	return prometheus.NewConstMetric(desc, prometheus.GaugeValue, s.Value, s.LabelValues...)
}

// otherOperation is the label of paths without a route, which callers can make up.
const otherOperation = "other"

// routeOf returns the pattern of the route that a request took. The pattern "/"
// catches all paths without a page of their own.
func routeOf(r *http.Request) string {
	if r.Pattern == "" || r.Pattern == "/" {
		return otherOperation
	}
	return r.Pattern
}

// timed calls done with the status and the duration of every response.
func timed(next http.Handler, done func(r *http.Request, status int, took time.Duration)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(recorder, r)
		done(r, recorder.status, time.Since(began))
	})
}

// statusRecorder remembers the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the status and sends it.
func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets [http.ResponseController] find the underlying writer.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
