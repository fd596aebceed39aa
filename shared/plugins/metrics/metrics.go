// Package metrics reads the metrics of the plugin for the monitoring of a CMS that
// uses Prometheus. A CMS that does not import it links no part of Prometheus.
package metrics

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/cms-personal/personal/shared/plugins/manager"
)

// processLabel is the label of what a plugin process counted: the number of the process.
const processLabel = "process"

// Manager is the part of [manager.Manager] that is needed.
type Manager interface {
	Metrics(ctx context.Context) []manager.Metrics
}

// Gatherer is a prometheus.Gatherer of the metrics of the plugin; docs/observing.md
// describes them. Add it to the registry of the CMS with prometheus.Gatherers, and set
// promhttp.HandlerOpts.ErrorHandling to promhttp.ContinueOnError: then a defective version
// of the plugin cannot hide the other metrics.
type Gatherer struct{ Manager Manager }

// Gather returns the metrics of the manager, and those of its processes with the label
// process. Text that is not in the exposition format, or has a name without the prefix
// personal_plugin_, is left out, with a warning once for each process. It takes a second
// at most. The error is always nil.
func (g Gatherer) Gather() ([]*dto.MetricFamily, error) {
	all := map[string]*dto.MetricFamily{}
	for _, m := range g.Manager.Metrics(context.Background()) { // there is no other context; the manager limits the time
		families, err := parse(m)
		if err != nil {
			m.Refuse(err)
			continue
		}
		for name, f := range families {
			first, ok := all[name]
			switch {
			case !ok:
				all[name] = f
			case first.GetType() == f.GetType(): // another version may have changed it
				first.Metric = append(first.Metric, f.GetMetric()...)
			}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) }), nil
}

// parse returns the metrics by name. The error contains nothing of the text.
func parse(m manager.Metrics) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(m.Text))
	if err != nil {
		var at expfmt.ParseError
		errors.As(err, &at)
		return nil, fmt.Errorf("line %d is not in the exposition format of Prometheus", at.Line)
	}
	if m.Process == 0 {
		return families, nil
	}
	for name, f := range families {
		if !strings.HasPrefix(name, "personal_plugin_") {
			return nil, errors.New("a name does not begin with personal_plugin_")
		}
		for _, one := range f.GetMetric() {
			if slices.ContainsFunc(one.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == processLabel }) {
				return nil, errors.New("a metric has the label process already")
			}
			one.Label = append(one.Label, &dto.LabelPair{Name: new(processLabel), Value: new(strconv.Itoa(m.Process))})
		}
	}
	return families, nil
}
