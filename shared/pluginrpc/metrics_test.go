package pluginrpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// metricsPlugin returns fixed metrics, or an error.
type metricsPlugin struct {
	personalv1.LifecycleServiceClient
	metrics []*personalv1.Metric
	err     error
}

func (p metricsPlugin) Metrics(context.Context, *personalv1.MetricsRequest, ...grpc.CallOption) (*personalv1.MetricsResponse, error) {
	return &personalv1.MetricsResponse{Metrics: p.metrics}, p.err
}

// someMetrics returns a valid metric of each type.
func someMetrics() []Metric {
	return []Metric{
		{Name: "personal_plugin_a_total", Help: "A.", Type: MetricCounter, Labels: []string{"x", "y"}, Series: []MetricSeries{
			{LabelValues: []string{"1", "2"}, Value: 3}, {LabelValues: []string{"1", "3"}, Value: 4},
		}},
		{Name: "personal_plugin_b", Help: "B.", Type: MetricGauge, Series: []MetricSeries{{Value: -5}}},
		{
			Name: "personal_plugin_c", Help: "C.", Type: MetricHistogram, Labels: []string{"z"}, Bounds: []float64{0.1, 2},
			Series: []MetricSeries{{LabelValues: []string{"6"}, Value: 7.5, Counts: []uint64{8, 9, 10}}},
		},
	}
}

func received(metrics []Metric) ([]Metric, error) {
	c := &Connection{lifecycle: metricsPlugin{metrics: convertAll(metrics, metricToPB)}}
	return c.Metrics(context.Background())
}

func TestMetrics_CrossCompletely(t *testing.T) {
	got, err := received(someMetrics())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(someMetrics(), got); diff != "" {
		t.Errorf("metrics (-sent +received):\n%s", diff)
	}
}

func TestMetrics_OlderPluginHasNone(t *testing.T) {
	c := &Connection{lifecycle: metricsPlugin{err: status.Error(codes.Unimplemented, "unknown method Metrics")}}
	if got, err := c.Metrics(t.Context()); got != nil || err != nil {
		t.Errorf("got %v and error %v, want neither", got, err)
	}
}

func TestMetrics_UnknownTypeIsLeftOut(t *testing.T) {
	metrics := convertAll(someMetrics(), metricToPB)
	metrics[0].Type = 99
	got, err := (&Connection{lifecycle: metricsPlugin{metrics: metrics}}).Metrics(t.Context())
	if err != nil || len(got) != 2 || got[0].Name != "personal_plugin_b" {
		t.Errorf("got %v (%v), want the other two", got, err)
	}
}

func TestMetrics_InvalidOnesAreRefused(t *testing.T) {
	for name, change := range map[string]func(m []Metric) []Metric{
		"name without the prefix":     func(m []Metric) []Metric { m[0].Name = "go_a_total"; return m },
		"name with other characters":  func(m []Metric) []Metric { m[0].Name = "personal_plugin_a\n"; return m },
		"name of a count":             func(m []Metric) []Metric { m[0].Name = m[2].Name + "_count"; return m },
		"name of a sum":               func(m []Metric) []Metric { m[1].Name = "personal_plugin_x_sum"; return m },
		"name of buckets":             func(m []Metric) []Metric { m[1].Name = "personal_plugin_x_bucket"; return m },
		"same name twice":             func(m []Metric) []Metric { m[1].Name = m[0].Name; return m },
		"label of buckets":            func(m []Metric) []Metric { m[2].Labels[0] = "le"; return m },
		"label with other characters": func(m []Metric) []Metric { m[2].Labels[0] = "Z"; return m },
		"same label twice":            func(m []Metric) []Metric { m[0].Labels[1] = "x"; return m },
		"too many labels":             func(m []Metric) []Metric { m[1].Labels = []string{"a", "b", "c", "d", "e"}; return m },
		"missing label value":         func(m []Metric) []Metric { m[0].Series[0].LabelValues = []string{"1"}; return m },
		"label value like an address": func(m []Metric) []Metric { m[0].Series[0].LabelValues[0] = "ada@example.com"; return m },
		"label value too long":        func(m []Metric) []Metric { m[0].Series[0].LabelValues[0] = strings.Repeat("x", 65); return m },
		"same series twice":           func(m []Metric) []Metric { m[0].Series[1] = m[0].Series[0]; return m },
		"not a number":                func(m []Metric) []Metric { m[1].Series[0].Value = math.NaN(); return m },
		"infinite":                    func(m []Metric) []Metric { m[1].Series[0].Value = math.Inf(1); return m },
		"negative counter":            func(m []Metric) []Metric { m[0].Series[0].Value = -1; return m },
		"bounds of a counter":         func(m []Metric) []Metric { m[0].Bounds = []float64{1}; return m },
		"histogram without bounds":    func(m []Metric) []Metric { m[2].Bounds, m[2].Series[0].Counts = nil, []uint64{1}; return m },
		"bounds that do not rise":     func(m []Metric) []Metric { m[2].Bounds[1] = 0.1; return m },
		"missing count":               func(m []Metric) []Metric { m[2].Series[0].Counts = []uint64{1, 2}; return m },
		"counts of a gauge":           func(m []Metric) []Metric { m[1].Series[0].Counts = []uint64{1}; return m },
		"count that may overflow":     func(m []Metric) []Metric { m[2].Series[0].Counts[0] = 1 << 60; return m },
		"help too long":               func(m []Metric) []Metric { m[0].Help = strings.Repeat("x", 1000); return m },
		"too many buckets": func(m []Metric) []Metric {
			m[2].Bounds, m[2].Series = nil, nil
			for i := range 33 {
				m[2].Bounds = append(m[2].Bounds, float64(i))
			}
			return m
		},
		"too many metrics": func(m []Metric) []Metric {
			for i := range 101 {
				m = append(m, Metric{Name: fmt.Sprint("personal_plugin_", i), Type: MetricGauge})
			}
			return m
		},
		"too many series": func(m []Metric) []Metric {
			for i := range MaxMetricSeries {
				m[0].Series = append(m[0].Series, MetricSeries{LabelValues: []string{"n", fmt.Sprint(i)}})
			}
			return m
		},
	} {
		got, err := received(change(someMetrics()))
		if !errors.Is(err, ErrInvalidMetrics) || got != nil {
			t.Errorf("%s: got %d metrics and error %v, want a refusal", name, len(got), err)
		}
		if err != nil && strings.Contains(err.Error(), "ada@") {
			t.Errorf("%s: the error contains the value: %v", name, err)
		}
	}
}

func TestObserver_IsToldOutcomesOfOperations(t *testing.T) {
	var seen []string
	p := &process{log: slog.New(slog.DiscardHandler), observe: func(operation string, outcome Outcome, took time.Duration) {
		seen = append(seen, operation+" "+string(outcome))
		if took <= 0 {
			t.Errorf("got duration %v, want more", took)
		}
	}}
	p.parts.Store(&parts{})
	call := func(server any, method string, err error) {
		info := &grpc.UnaryServerInfo{Server: server, FullMethod: method}
		_, _ = p.intercept(t.Context(), nil, info, func(context.Context, any) (any, error) { return nil, err })
	}
	const service = "/personal.v1.PersonalService/"
	call(&serviceServer{}, service+"Refresh", nil)
	call(&serviceServer{}, service+"Refresh", personal.NewError(personal.CodeUnauthenticated, nil))
	call(&serviceServer{}, service+"Authorize", personal.NewError(personal.CodeTooManyAttempts, nil))
	call(&serviceServer{}, service+"Authorize", personal.NewError(personal.CodeUnavailable, nil))
	call(&serviceServer{}, service+"Authorize", context.Canceled)
	call(&serviceServer{}, service+"Profile", errors.New("a bug"))
	call(&administrationServer{}, "/personal.v1.AdministrationService/User", nil) // the module has none
	call(&lifecycleServer{}, "/personal.v1.LifecycleService/Health", nil)
	want := []string{
		"Refresh ok", "Refresh refused", "Authorize refused", "Authorize unavailable", "Authorize unavailable",
		"Profile internal", "User refused",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	for _, one := range seen {
		operation, outcome, _ := strings.Cut(one, " ")
		if !slices.Contains(Operations(), operation) || !slices.Contains(Outcomes(), Outcome(outcome)) {
			t.Errorf("%s is not among the declared operations and outcomes", one)
		}
	}
}

func TestObserver_AddsNoAllocation(t *testing.T) {
	info := &grpc.UnaryServerInfo{Server: &serviceServer{}, FullMethod: "/personal.v1.PersonalService/Refresh"}
	next := func(context.Context, any) (any, error) { return nil, nil }
	allocations := func(o Observer) float64 {
		p := &process{log: slog.New(slog.DiscardHandler), observe: o}
		p.parts.Store(&parts{})
		return testing.AllocsPerRun(100, func() { _, _ = p.intercept(context.Background(), nil, info, next) })
	}
	calls := 0
	without, with := allocations(nil), allocations(func(string, Outcome, time.Duration) { calls++ })
	if with > without || calls == 0 {
		t.Errorf("got %v allocations in %d calls, want %v as without an observer", with, calls, without)
	}
}
