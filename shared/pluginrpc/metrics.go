package pluginrpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
)

// MetricType is the type of a [Metric].
type MetricType string

// The types of metrics. They mean what they mean in Prometheus.
const (
	MetricCounter   MetricType = "counter"   // a number that never decreases
	MetricGauge     MetricType = "gauge"     // a number that rises and falls
	MetricHistogram MetricType = "histogram" // counts of values in buckets, and their sum; they never decrease
)

// Metric is one metric of a plugin process with all its series. It holds nothing that
// callers sent.
type Metric struct {
	Name   string // begins with personal_plugin_
	Help   string
	Type   MetricType
	Labels []string  // names
	Bounds []float64 // of a histogram: upper bounds of the buckets but the last, which has none
	Series []MetricSeries
}

// MetricSeries is one series of a [Metric].
type MetricSeries struct {
	LabelValues []string // in the order of Metric.Labels
	Value       float64  // the number or, of a histogram, the sum of the observed values
	Counts      []uint64 // of a histogram: how many values are in each bucket alone, in the order of Metric.Bounds
}

// Cumulative returns how many values a series of a histogram has in all, and how many up
// to each bound, as the client library of Prometheus expects them.
func (m Metric) Cumulative(s MetricSeries) (total uint64, upTo map[float64]uint64) {
	upTo = make(map[float64]uint64, len(m.Bounds))
	for i, n := range s.Counts {
		total += n
		if i < len(m.Bounds) {
			upTo[m.Bounds[i]] = total
		}
	}
	return total, upTo
}

// ModuleWithMetrics is a module that has metrics.
type ModuleWithMetrics interface {
	Module
	// Metrics returns the metrics of this process since its start. It returns quickly: if
	// the database does not respond, with the last known values.
	Metrics(ctx context.Context) []Metric
}

// Bounds of what a host accepts from a plugin, so that one with an error cannot fill the
// memory of the host or of what stores its metrics.
const (
	maxMetrics = 100
	maxLabels  = 4
	maxBuckets = 32
	maxHelp    = 300
	maxName    = 80 // after the prefix
	maxLabel   = 32
	maxValue   = 64 // of a label
	// maxCount bounds the numbers of a histogram: sums over processes do not overflow.
	maxCount = 1 << 48
	// MaxMetricSeries bounds the series of all metrics together.
	MaxMetricSeries = 500
)

// ErrInvalidMetrics means that a plugin sent metrics that a host does not accept.
var ErrInvalidMetrics = errors.New("the plugin's metrics are invalid")

// Metrics returns the metrics of the plugin process. A plugin without metrics, such as
// an older version, has none. Metrics of unknown types are left out. The error is
// [ErrInvalidMetrics] if a metric is malformed, has a name or label of another form or a
// name that Prometheus gives to a part of a histogram, or if there are more than
// [MaxMetricSeries] series: labels must have few values.
func (c *Connection) Metrics(ctx context.Context) ([]Metric, error) {
	response, err := c.lifecycle.Metrics(ctx, &personalv1.MetricsRequest{})
	if status.Code(err) == codes.Unimplemented {
		return nil, nil
	}
	if err != nil {
		return nil, lifecycleError(ctx, err)
	}
	metrics := slices.DeleteFunc(convertAll(response.GetMetrics(), metricFromPB), func(m Metric) bool { return m.Type == "" })
	if err := checkMetrics(metrics); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidMetrics, err)
	}
	return metrics, nil
}

// Metrics implements the RPC. Only a module that is built has metrics.
func (s *lifecycleServer) Metrics(ctx context.Context, _ *personalv1.MetricsRequest) (*personalv1.MetricsResponse, error) {
	return withModule(s, func(m Module) (*personalv1.MetricsResponse, error) {
		measured, ok := m.(ModuleWithMetrics)
		if !ok {
			return &personalv1.MetricsResponse{}, nil
		}
		return &personalv1.MetricsResponse{Metrics: convertAll(measured.Metrics(ctx), metricToPB)}, nil
	})
}

// metricTypes are the types as protobuf has them.
var metricTypes = map[MetricType]personalv1.MetricType{
	MetricCounter:   personalv1.MetricType_METRIC_TYPE_COUNTER,
	MetricGauge:     personalv1.MetricType_METRIC_TYPE_GAUGE,
	MetricHistogram: personalv1.MetricType_METRIC_TYPE_HISTOGRAM,
}

func metricToPB(m Metric) *personalv1.Metric {
	return &personalv1.Metric{
		Name: m.Name, Help: m.Help, Type: metricTypes[m.Type], Labels: m.Labels, Bounds: m.Bounds,
		Series: convertAll(m.Series, func(s MetricSeries) *personalv1.MetricSeries {
			return &personalv1.MetricSeries{LabelValues: s.LabelValues, Value: s.Value, Counts: s.Counts}
		}),
	}
}

func metricFromPB(m *personalv1.Metric) Metric {
	var t MetricType // empty if a newer plugin has further types: the host leaves those out
	for known, pb := range metricTypes {
		if pb == m.GetType() {
			t = known
		}
	}
	return Metric{
		Name: m.GetName(), Help: m.GetHelp(), Type: t, Labels: m.GetLabels(), Bounds: m.GetBounds(),
		Series: convertAll(m.GetSeries(), func(s *personalv1.MetricSeries) MetricSeries {
			return MetricSeries{LabelValues: s.GetLabelValues(), Value: s.GetValue(), Counts: s.GetCounts()}
		}),
	}
}

// checkMetrics returns why metrics of a plugin are not accepted. Errors quote what has
// been checked already.
func checkMetrics(metrics []Metric) error {
	if len(metrics) > maxMetrics {
		return fmt.Errorf("there are %d, at most %d are accepted", len(metrics), maxMetrics)
	}
	names := map[string]struct{}{}
	series := 0
	for i, m := range metrics {
		if rest, ok := strings.CutPrefix(m.Name, "personal_plugin_"); !ok || !isWord(rest, maxName, "_") {
			return fmt.Errorf("the name of number %d does not have the form personal_plugin_…", i+1)
		}
		for _, suffix := range []string{"_bucket", "_count", "_sum"} { // Prometheus would refuse the histogram as well, and all other metrics with it
			if strings.HasSuffix(m.Name, suffix) {
				return fmt.Errorf("%s: it could be a part of a histogram", m.Name)
			}
		}
		if _, twice := names[m.Name]; twice {
			return fmt.Errorf("%s: it exists twice", m.Name)
		}
		names[m.Name] = struct{}{}
		if series += len(m.Series); series > MaxMetricSeries {
			return fmt.Errorf("%s: there are more than %d series", m.Name, MaxMetricSeries)
		}
		if err := m.check(); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

func (m Metric) check() error {
	switch {
	case len(m.Help) > maxHelp:
		return errors.New("the help is too long")
	case len(m.Labels) > maxLabels:
		return errors.New("there are too many labels")
	case (m.Type == MetricHistogram) != (len(m.Bounds) > 0) || len(m.Bounds) >= maxBuckets || !rises(m.Bounds):
		return errors.New("the bounds of buckets are invalid")
	}
	for i, name := range m.Labels {
		if !isWord(name, maxLabel, "_") || name[0] < 'a' || name == "le" || name == "quantile" || slices.Contains(m.Labels[:i], name) {
			return errors.New("the name of a label is invalid")
		}
	}
	seen := map[string]struct{}{}
	for _, s := range m.Series {
		if len(s.LabelValues) != len(m.Labels) || !areValues(s.LabelValues) {
			return errors.New("the value of a label is invalid")
		}
		key := strings.Join(s.LabelValues, " ")
		if _, twice := seen[key]; twice {
			return errors.New("a series exists twice")
		}
		seen[key] = struct{}{}
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) || m.Type != MetricGauge && s.Value < 0 {
			return errors.New("a number is invalid")
		}
		buckets := len(m.Bounds) + 1
		if m.Type != MetricHistogram {
			buckets = 0
		}
		if len(s.Counts) != buckets || buckets > 0 && slices.Max(s.Counts) > maxCount {
			return errors.New("the counts of buckets are invalid")
		}
	}
	return nil
}

// rises reports whether the numbers are finite and each is greater than the previous one.
func rises(numbers []float64) bool {
	for i, n := range numbers {
		if math.IsNaN(n) || math.IsInf(n, 0) || i > 0 && n <= numbers[i-1] {
			return false
		}
	}
	return true
}

func areValues(labels []string) bool {
	return !slices.ContainsFunc(labels, func(value string) bool { return !isWord(value, maxValue, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_.+-") })
}

// isWord reports whether a text of 1 to limit bytes consists of small letters, digits and
// the other characters.
func isWord(text string, limit int, others string) bool {
	return text != "" && len(text) <= limit && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789"+others) == "" // stops at any other
}

// Outcome classifies how an operation ended.
type Outcome string

// The outcomes of an operation.
const (
	OutcomeOK          Outcome = "ok"
	OutcomeRefused     Outcome = "refused"     // the caller's doing: a wrong password, an invalid value, a used up limit
	OutcomeUnavailable Outcome = "unavailable" // overload, no database, or the caller hung up
	OutcomeInternal    Outcome = "internal"    // an error of the plugin
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{OutcomeOK, OutcomeRefused, OutcomeUnavailable, OutcomeInternal}
}

// outcomeOf returns the outcome of a call that ended with a status.
func outcomeOf(err error) Outcome {
	switch status.Code(err) {
	case codes.OK:
		return OutcomeOK
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return OutcomeUnavailable
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return OutcomeInternal
	}
	return OutcomeRefused
}

// Operations returns the names of all operations of the contract, as RPCs have them.
func Operations() []string {
	var names []string
	for _, service := range []grpc.ServiceDesc{personalv1.PersonalService_ServiceDesc, personalv1.AdministrationService_ServiceDesc} {
		for _, method := range service.Methods {
			names = append(names, method.MethodName)
		}
	}
	return names
}

// Observer is called in the plugin process after every call of an operation, see
// [Operations]. It must be fast and safe for concurrent use.
type Observer func(operation string, outcome Outcome, took time.Duration)

// call calls the observer, if there is one, after a call that ended with a status.
func (o Observer) call(fullMethod string, err error, took time.Duration) {
	if o != nil {
		o(fullMethod[strings.LastIndexByte(fullMethod, '/')+1:], outcomeOf(err), took)
	}
}
