package cli

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

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
			Name: "personal_http_requests_total", Help: "Completed requests, by operation and HTTP status.",
		}, []string{"operation", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "personal_http_request_duration_seconds", Help: "Duration of requests, by operation.",
		}, []string{"operation"}),
	}
	m.registry.MustRegister(m.requests, m.latency,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
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
			Name: "personal_plugin_restarts_total", Help: "Plugin processes started to replace one that died.",
		}, func() float64 { return float64(status().Restarts) }),
	)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) count(operation string, status int, took time.Duration) {
	m.requests.WithLabelValues(operation, strconv.Itoa(status)).Inc()
	m.latency.WithLabelValues(operation).Observe(took.Seconds())
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
