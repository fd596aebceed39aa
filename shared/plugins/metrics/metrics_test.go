package metrics_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"

	"github.com/cms-personal/personal/shared/plugins/manager"
	"github.com/cms-personal/personal/shared/plugins/metrics"
)

// fakeManager has fixed metrics, and records why those of a process are refused.
type fakeManager struct {
	metrics []manager.Metrics
	refused []string
}

func (m *fakeManager) Metrics(context.Context) []manager.Metrics {
	for i := range m.metrics {
		m.metrics[i].Refuse = func(err error) { m.refused = append(m.refused, err.Error()) }
	}
	return m.metrics
}

// gather returns the metrics as text.
func gather(t *testing.T, m *fakeManager) string {
	t.Helper()
	families, err := metrics.Gatherer{Manager: m}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

const (
	own = "# HELP personal_plugin_up Up.\n# TYPE personal_plugin_up gauge\npersonal_plugin_up 1\n"

	calls = "# HELP personal_plugin_calls_total Calls.\n# TYPE personal_plugin_calls_total counter\n"
	sizes = "# HELP personal_plugin_sizes Sizes.\n# TYPE personal_plugin_sizes histogram\n"
)

func TestGather_ProcessesHaveALabel(t *testing.T) {
	histogram := `personal_plugin_sizes_bucket{le="1"} 1
personal_plugin_sizes_bucket{le="+Inf"} 2
personal_plugin_sizes_sum 3.5
personal_plugin_sizes_count 2
`
	m := &fakeManager{metrics: []manager.Metrics{
		{Text: []byte(own)},
		{Process: 5, Text: []byte(sizes + histogram + calls + `personal_plugin_calls_total{operation="x"} 4` + "\n")},
		{Process: 3, Text: []byte(strings.Replace(calls, "Calls.", "Calls of an older version.", 1) + `personal_plugin_calls_total{operation="x"} 7` + "\n")},
		{Process: 2, Text: []byte("# TYPE personal_plugin_calls_total gauge\npersonal_plugin_calls_total 1\n")}, // another type
	}}
	want := calls + `personal_plugin_calls_total{operation="x",process="5"} 4
personal_plugin_calls_total{operation="x",process="3"} 7
` + sizes + `personal_plugin_sizes_bucket{process="5",le="1"} 1
personal_plugin_sizes_bucket{process="5",le="+Inf"} 2
personal_plugin_sizes_sum{process="5"} 3.5
personal_plugin_sizes_count{process="5"} 2
` + own
	if diff := cmp.Diff(want, gather(t, m)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if len(m.refused) != 0 {
		t.Errorf("refused: %q", m.refused)
	}
}

func TestGather_InvalidTextIsLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		calls + "personal_plugin_calls_total ada@example.com\n":                   "line 3 is not in the exposition format of Prometheus",
		calls + `personal_plugin_calls_total{operation="ada@example`:              "line 3 is not in the exposition format of Prometheus",
		"# TYPE go_ada@example gauge\n":                                           "line 1 is not in the exposition format of Prometheus",
		calls + "personal_plugin_calls_total 1\nada_example_total 1\n":            "a name does not begin with personal_plugin_",
		calls + `personal_plugin_calls_total{process="x",operation="y"} 1` + "\n": "a metric has the label process already",
		"\x00": "line 1 is not in the exposition format of Prometheus",
	} {
		m := &fakeManager{metrics: []manager.Metrics{
			{Text: []byte(own)}, {Process: 2, Text: []byte(text)}, {Process: 1, Text: []byte(calls + "personal_plugin_calls_total 4\n")},
		}}
		if diff := cmp.Diff(calls+"personal_plugin_calls_total{process=\"1\"} 4\n"+own, gather(t, m)); diff != "" {
			t.Errorf("%q: metrics (-want +got):\n%s", text, diff)
		}
		if diff := cmp.Diff([]string{want}, m.refused); diff != "" {
			t.Errorf("%q: reasons (-want +got):\n%s", text, diff)
		}
	}
}
