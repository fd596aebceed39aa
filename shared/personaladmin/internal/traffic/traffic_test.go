package traffic

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// recorder returns a recorder and its clock.
func recorder() (*Recorder, *time.Time) {
	now := time.Unix(1_000_000, 0)
	r := NewRecorder()
	r.now = func() time.Time { return now }
	return r, &now
}

func TestSince_ReportsCompleteSeconds(t *testing.T) {
	r, now := recorder()
	begin := now.Unix()
	r.Count("auth", false, time.Millisecond)
	r.Count("auth", true, time.Millisecond)
	*now = now.Add(2 * time.Second)
	r.Count("auth", false, time.Millisecond)
	r.Count("fields", false, time.Millisecond) // in the current second
	got := r.Since(begin)
	if got.From != begin || got.Until != begin+2 || len(got.Operations) != 1 {
		t.Fatalf("got %+v", got)
	}
	auth := got.Operations["auth"]
	if !slices.Equal(auth.Requests, []int{2, 0}) || !slices.Equal(auth.Errors, []int{1, 0}) || auth.P50[1] != 0 {
		t.Errorf("got %+v", auth)
	}
}

func TestSince_NothingOlderThanWindow(t *testing.T) {
	r, now := recorder()
	begin := now.Unix()
	r.Count("auth", false, time.Millisecond)
	*now = now.Add(Window)
	if got := r.Since(begin); len(got.Operations) != 0 || got.Until-got.From != seconds-1 {
		t.Errorf("got %d operations from second %d, want none in a whole window", len(got.Operations), got.From-begin)
	}
	r.Count("auth", false, time.Millisecond) // reuses the place of the first
	*now = now.Add(time.Second)
	if got := r.Since(0); slices.Max(got.Operations["auth"].Requests) != 1 {
		t.Errorf("got %+v", got)
	}
}

func TestSince_FutureIsEmpty(t *testing.T) {
	r, now := recorder()
	if got := r.Since(now.Unix() + 100); got.From != now.Unix() || got.Until != now.Unix() {
		t.Errorf("got %+v", got)
	}
}

func TestQuantile_WithinAFifth(t *testing.T) {
	var l latencies
	for ms := 1; ms <= 1000; ms++ {
		l.add(time.Duration(ms) * time.Millisecond)
	}
	for q, want := range map[float64]float64{0.5: 500, 0.99: 990} {
		if got := l.quantile(q); got < want || got > want*growth {
			t.Errorf("quantile %v: got %v, want %v or up to a fifth more", q, got, want)
		}
	}
	for _, extreme := range []time.Duration{-1, 0, time.Hour} {
		var l latencies
		l.add(extreme)
		if got := l.quantile(1); got < smallest || got > 100_000 {
			t.Errorf("%v: got %v ms", extreme, got)
		}
	}
}

func TestSince_SumsAllOperations(t *testing.T) {
	r, now := recorder()
	begin := now.Unix()
	r.Count("auth", true, 10*time.Millisecond)
	r.Count("fields", false, 100*time.Millisecond)
	*now = now.Add(time.Second)
	all := r.Since(begin).All
	if !slices.Equal(all.Requests, []int{2}) || !slices.Equal(all.Errors, []int{1}) || all.P50[0] > 12 || all.P99[0] < 100 {
		t.Errorf("got %+v", all)
	}
}

func TestTotals_CoverTheWindow(t *testing.T) {
	r, now := recorder()
	r.Count("gone", false, time.Second)
	*now = now.Add(Window)
	for range 99 {
		r.Count("auth", false, time.Millisecond)
	}
	*now = now.Add(Window - time.Second)
	r.Count("auth", true, 80*time.Millisecond)
	r.Count("fields", false, time.Millisecond)
	got := r.Totals()
	if len(got) != 3 || got[0].Operation != "" || got[0].Requests != 101 || got[0].Errors != 1 {
		t.Fatalf("got %+v", got)
	}
	if auth := got[1]; auth.Operation != "auth" || auth.Requests != 100 || auth.Errors != 1 || auth.P50 > 1.2 || auth.P99 > 1.2 {
		t.Errorf("got %+v", auth)
	}
	if fields := got[2]; fields.Operation != "fields" || fields.P99 == 0 {
		t.Errorf("got %+v", fields)
	}
	*now = now.Add(Window)
	if got := r.Totals(); len(got) != 1 || got[0] != (Totals{}) {
		t.Errorf("after the window: got %+v, want nothing", got)
	}
}

func TestCount_Concurrent(t *testing.T) {
	r, now := recorder()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				r.Count("auth", false, time.Millisecond)
				r.Since(0)
			}
		})
	}
	all.Wait()
	*now = now.Add(time.Second)
	if got := r.Since(now.Unix() - 1).Operations["auth"].Requests; !slices.Equal(got, []int{8000}) {
		t.Errorf("got %v, want 8000", got)
	}
}

func BenchmarkCount(b *testing.B) {
	r := NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		r.Count("auth_refresh", false, 700*time.Microsecond)
	}
}
