package main

import (
	"errors"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

func TestMeasurements_CountingAllocatesNothing(t *testing.T) {
	m := newMeasurements()
	got := testing.AllocsPerRun(100, func() {
		m.operation("Refresh", pluginrpc.OutcomeOK, time.Millisecond)
		m.hashing(time.Millisecond, nil)
		m.rejection("guess")
		m.suppression("recovery")
		m.job("event", outbox.Done, time.Millisecond)
		m.ObserveStore(store.Query, time.Millisecond)
		m.ObserveBatch(store.WriteSession, 3)
	})
	if got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}

func TestHistograms_CountInBucketsAndIgnoreUnknownLabels(t *testing.T) {
	h := histograms{name: "personal_plugin_test", labels: []string{"a"}, bounds: []int64{1000, 2000}, unit: 1000}
	h.add("x", "")
	h.add("unused", "")
	for _, value := range []int64{0, 1000, 1001, 2000, 2001, 9000} {
		h.observe("x", "", value)
	}
	h.observe("made up", "", 1)
	m := h.metric()
	if !slices.Equal(m.Bounds, []float64{1, 2}) || len(m.Series) != 1 {
		t.Fatalf("got %+v, want bounds 1 and 2, and one series", m)
	}
	if s := m.Series[0]; s.LabelValues[0] != "x" || !slices.Equal(s.Counts, []uint64{2, 2, 2}) || s.Value != 15.002 {
		t.Errorf("got %+v, want two in each bucket and the sum 15.002", s)
	}
}

func TestHistograms_RareOutcomesBeginAtZero(t *testing.T) {
	m := newMeasurements()
	m.operation("Refresh", pluginrpc.OutcomeOK, time.Millisecond)
	series := m.operations.metric().Series
	if len(series) != len(pluginrpc.Outcomes()) {
		t.Fatalf("got %d series, want one for each outcome of the operation", len(series))
	}
	for _, s := range series {
		if s.LabelValues[0] != "Refresh" || (s.Value > 0) != (s.LabelValues[1] == string(pluginrpc.OutcomeOK)) {
			t.Errorf("got series %v with the sum %v", s.LabelValues, s.Value)
		}
	}
	if got := len(m.operations.series) + len(m.jobs.series) + len(m.store.series) + len(m.batches.series) + len(m.rejected) + len(m.suppressed); got > pluginrpc.MaxMetricSeries-100 {
		t.Errorf("all labels have %d series, want far fewer than %d", got, pluginrpc.MaxMetricSeries)
	}
}

func TestMeasurements_HashingRefusedIsNoWait(t *testing.T) {
	m := newMeasurements()
	m.hashing(time.Second, nil)
	m.hashing(5*time.Second, password.ErrBusy)
	m.hashing(time.Second, errors.New("the caller is gone"))
	if got := m.hashWaits.metric().Series[0]; got.Value != 1 {
		t.Errorf("got waits of %v s, want 1", got.Value)
	}
	if got := m.hashingRefused.Load(); got != 1 {
		t.Errorf("got %d refused, want 1", got)
	}
}

func TestMeasurements_KnowEveryLimit(t *testing.T) {
	section, _ := reflect.TypeFor[settings]().FieldByName("Throttle")
	keys := []string{"export", "code"} // they have no setting
	for i := range section.Type.NumField() {
		if field := section.Type.Field(i); field.Type == reflect.TypeFor[limit]() {
			keys = append(keys, field.Tag.Get("toml"))
		}
	}
	names := slices.Sorted(slices.Values(limitNames))
	if slices.Sort(keys); !slices.Equal(keys, names) {
		t.Errorf("got limits %q, want %q", names, keys)
	}
	s, err := readSettings(nil)
	if err != nil {
		t.Fatal(err)
	}
	limits := reflect.ValueOf(s.accounts().Throttle)
	for i := range limits.NumField() {
		if l := limits.Field(i); l.Kind() == reflect.Struct && !slices.Contains(names, l.FieldByName("Name").String()) {
			t.Errorf("limit %s has the name %q, want a key of the settings", limits.Type().Field(i).Name, l.FieldByName("Name"))
		}
	}
}

func TestMeasurements_OutboxGauges(t *testing.T) {
	now := time.Unix(1000, 0)
	jobs, ages := newMeasurements().jobGauges(map[outbox.Kind]outbox.Backlog{
		"event": {Jobs: 3, Oldest: now.Add(-time.Minute)},
		"new 1": {Jobs: 1, Oldest: now.Add(-time.Second)}, // of another version
		"new 2": {Jobs: 2, Oldest: now.Add(-time.Hour)},
	}, now)
	for kind, want := range map[string][2]float64{"event": {3, 60}, "other": {3, 3600}, "recovery": {0, 0}} {
		i := slices.IndexFunc(jobs.Series, func(s pluginrpc.MetricSeries) bool { return s.LabelValues[0] == kind })
		if got := [2]float64{jobs.Series[i].Value, ages.Series[i].Value}; got != want {
			t.Errorf("%s: got jobs and age %v, want %v", kind, got, want)
		}
	}
	if len(jobs.Series) != len(jobKinds) {
		t.Errorf("got %d series, want %d", len(jobs.Series), len(jobKinds))
	}
}

// TestModule_CountsJobsOnceInAWhile collects twice: the second time it reads no database,
// because that is closed.
func TestModule_CountsJobsOnceInAWhile(t *testing.T) {
	url := "sqlite://" + filepath.Join(t.TempDir(), "personal.db")
	measured := newMeasurements()
	built, err := builder(nil, measured, slog.New(slog.DiscardHandler), nil)(t.Context(), pluginrpc.Configuration{DatabaseURL: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := built.(*module)
	if err := m.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	queries := func() uint64 {
		t.Helper()
		if len(m.Metrics(t.Context())) == 0 {
			t.Fatal("got no metrics")
		}
		total, _ := measured.store.metric().Cumulative(measured.store.metric().Series[0])
		return total
	}
	if err := m.Close(); err != nil { // nothing else queries from now on
		t.Fatal(err)
	}
	first := queries()
	if second := queries(); first == 0 || second != first {
		t.Errorf("got %d and then %d queries, want one for both", first, second)
	}
	measured.counted = time.Time{}
	if third := queries(); third != first+1 {
		t.Errorf("got %d queries later, want %d", third, first+1)
	}
}
