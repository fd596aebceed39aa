package cli

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/plugins/metrics"
)

// hostMetrics are what /metrics shows.
type hostMetrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
}

func newMetrics() *hostMetrics {
	m := &hostMetrics{
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

// observer returns what counts the API's requests.
func (m *hostMetrics) observer() func(personalhttp.Observation) {
	return func(call personalhttp.Observation) {
		m.count(cmp.Or(call.Operation, otherOperation), call.Status, call.Took)
	}
}

// maxScrapes is how many requests for metrics are served at once: each needs megabytes.
const maxScrapes = 4

// handler returns the handler of /metrics, which also shows the metrics of the plugin.
func (m *hostMetrics) handler(plugin metrics.Manager) http.Handler {
	all := prometheus.Gatherers{m.registry, metrics.Gatherer{Manager: plugin}}
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes})
}

func (m *hostMetrics) count(operation string, status int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Inc()
	m.latency.WithLabelValues(operation).Observe(took.Seconds())
}

// otherOperation is the label of paths without a route, which callers can make up.
const otherOperation = "other"

// routeOf returns the pattern of the route that a request took. The pattern "/"
// catches all paths without their own page.
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
