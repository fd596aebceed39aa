package main

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/outbox"
	"github.com/cms-personal/personal/internal/password"
	"github.com/cms-personal/personal/internal/store"
	"github.com/cms-personal/personal/internal/throttle"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

func TestMeasurements_CountingAllocatesNothing(t *testing.T) {
	m := newMeasurements()
	got := testing.AllocsPerRun(100, func() {
		m.operation("Refresh", rpc.OutcomeOK, time.Millisecond)
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

// wantLines checks that the metrics have these lines, and no others that begin with prefix.
func (m *measurements) wantLines(t *testing.T, prefix string, want ...string) {
	t.Helper()
	text, err := m.text()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, prefix) {
			got = append(got, strings.TrimSpace(strings.TrimPrefix(line, prefix)))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines that begin with %s (-want +got):\n%s", prefix, diff)
	}
}

func TestMeasurements_RareOutcomesBeginAtZero(t *testing.T) {
	m := newMeasurements()
	m.operation("Refresh", rpc.OutcomeOK, time.Millisecond)
	m.wantLines(t, "personal_plugin_operation_duration_seconds_count",
		`{operation="Refresh",outcome="internal"} 0`, `{operation="Refresh",outcome="ok"} 1`,
		`{operation="Refresh",outcome="refused"} 0`, `{operation="Refresh",outcome="unavailable"} 0`)
}

func TestMeasurements_UnknownKindsOfJobsAreIgnored(t *testing.T) {
	m := newMeasurements()
	m.job("of another version", outbox.Done, time.Millisecond)
	m.wantLines(t, "personal_plugin_outbox_job_duration_seconds_count")
}

func TestMeasurements_HashingRefusedIsNoWait(t *testing.T) {
	m := newMeasurements()
	m.hashing(time.Second, nil)
	m.hashing(5*time.Second, password.ErrBusy)
	m.hashing(time.Second, errors.New("the caller is gone"))
	m.wantLines(t, "personal_plugin_hashing_wait_seconds_sum", "1")
	m.wantLines(t, "personal_plugin_hashing_refused_total", "1")
}

func TestMeasurements_OfTheProcessAreThoseInTheDocs(t *testing.T) {
	newMeasurements().wantLines(t, "# TYPE personal_plugin_process_",
		"cpu_seconds_total counter", "goroutines gauge", "heap_bytes gauge", "resident_memory_bytes gauge", "start_time_seconds gauge")
}

func TestMeasurements_KnowEveryLimit(t *testing.T) {
	s, _, err := readSettings(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := newMeasurements().text()
	if err != nil {
		t.Fatal(err)
	}
	for field, l := range reflect.ValueOf(s.accounts().Throttle).Fields() {
		limit, ok := l.Interface().(throttle.Limit)
		if ok && (limit.Burst == 0 || !strings.Contains(string(text), `personal_plugin_rejected_attempts_total{limit="`+limit.Name+`"} 0`)) {
			t.Errorf("limit %s: got %+v, want a limit that is counted by the key of its setting", field.Name, limit)
		}
	}
}

func TestMeasurements_OutboxGauges(t *testing.T) {
	now := time.Unix(1000, 0)
	m := newMeasurements()
	m.setJobs(map[outbox.Kind]outbox.Backlog{"recovery": {Jobs: 9, Oldest: now}}, now) // done since
	m.setJobs(map[outbox.Kind]outbox.Backlog{
		"event": {Jobs: 3, Oldest: now.Add(-time.Minute)},
		"new 1": {Jobs: 1, Oldest: now.Add(-time.Second)}, // of another version
		"new 2": {Jobs: 2, Oldest: now.Add(-time.Hour)},
	}, now)
	for kind, want := range map[string][2]string{"event": {"3", "60"}, "other": {"3", "3600"}, "recovery": {"0", "0"}} {
		m.wantLines(t, fmt.Sprintf("personal_plugin_outbox_jobs{kind=%q}", kind), want[0])
		m.wantLines(t, fmt.Sprintf("personal_plugin_outbox_oldest_job_seconds{kind=%q}", kind), want[1])
	}
}

// TestModule_CountsJobsOnceInAWhile collects twice: the second time it reads no database,
// because that is closed.
func TestModule_CountsJobsOnceInAWhile(t *testing.T) {
	url := "sqlite://" + filepath.Join(t.TempDir(), "personal.db")
	measured := newMeasurements()
	built, err := builder(measured, slog.New(slog.DiscardHandler), nil)(t.Context(), rpc.Configuration{DatabaseURL: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := built.(*module)
	if err := m.Migrate(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	queries := func() int {
		t.Helper()
		text, err := m.Metrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), "\npersonal_plugin_store_duration_seconds_count{operation=\"query\"} ")
		count, _, _ := strings.Cut(after, "\n")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatal(err)
		}
		return n
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
