package storetest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/internal/throttle"
)

var attemptCases = []testCase{
	{"one key allows its burst, then one at a time", func(t *testing.T, w *world) {
		c := []throttle.Charge{limited(1, 3, 10*time.Second)}
		for _, want := range []time.Duration{0, 0, 0, 10 * time.Second, 10 * time.Second} {
			w.wantWait(want, c)
		}
		w.pass(9 * time.Second)
		w.wantWait(time.Second, c)
		w.pass(time.Second)
		w.wantWait(0, c)
		w.wantWait(10*time.Second, c)
		w.pass(time.Minute)
		for _, want := range []time.Duration{0, 0, 0, 10 * time.Second} {
			w.wantWait(want, c)
		}
	}},
	{"if one key refuses, none is charged and the longest wait is told", func(t *testing.T, w *world) {
		narrow, narrower, wide := limited(1, 1, time.Minute), limited(2, 1, time.Hour), limited(3, 2, time.Minute)
		w.wantWait(0, []throttle.Charge{narrow})
		w.wantWait(0, []throttle.Charge{narrower})
		for range 5 {
			w.wantWait(time.Hour, []throttle.Charge{wide, narrow, narrower})
		}
		w.wantWait(0, []throttle.Charge{wide})
		w.wantWait(0, []throttle.Charge{wide})
		w.wantWait(time.Minute, []throttle.Charge{wide})
	}},
	{"a key given twice is charged twice", func(t *testing.T, w *world) {
		c := limited(1, 3, time.Minute)
		w.wantWait(0, []throttle.Charge{c, c})
		w.wantWait(time.Minute, []throttle.Charge{c, c})
		w.wantWait(0, []throttle.Charge{c})
	}},
	{"no charges are always allowed", func(t *testing.T, w *world) { w.wantWait(0, nil) }},
	{"a refund gives the attempt back to every key", func(t *testing.T, w *world) {
		c := []throttle.Charge{limited(1, 2, time.Minute), limited(2, 2, time.Minute)}
		w.must(w.Refund(t.Context(), c)) // nothing to give back
		w.wantWait(0, c)
		w.wantWait(0, c)
		w.wantWait(time.Minute, c)
		w.must(w.Refund(t.Context(), c))
		w.wantWait(0, c[:1])
		w.wantWait(0, c[1:])
		w.wantWait(time.Minute, c)
	}},
	{"any course of attempts is decided as throttle.Limit decides it", func(t *testing.T, w *world) {
		run := 0
		rapid.Check(t, func(r *rapid.T) {
			run++
			c := limited(run, rapid.IntRange(1, 4).Draw(r, "burst"),
				time.Duration(rapid.IntRange(1, 5000).Draw(r, "every µs"))*time.Microsecond)
			var tat time.Time
			for range rapid.IntRange(1, 8).Draw(r, "attempts") {
				w.pass(time.Duration(rapid.IntRange(0, 9000).Draw(r, "pause µs")) * time.Microsecond)
				next, want := c.Limit.Take(tat, w.Now())
				tat = next
				got, err := w.Charge(t.Context(), []throttle.Charge{c}, w.Now())
				if err != nil || got != want {
					r.Fatalf("waits %v, error %v, want %v", got, err, want)
				}
			}
		})
	}},
}

func limited(key, burst int, every time.Duration) throttle.Charge {
	return throttle.Charge{Key: digest("throttle", key), Limit: throttle.Limit{Burst: burst, Every: every}}
}

func (w *world) wantWait(want time.Duration, c []throttle.Charge) {
	w.t.Helper()
	got, err := w.Charge(w.t.Context(), c, w.Now())
	w.must(err)
	if got != want {
		w.t.Errorf("waits %v, want %v", got, want)
	}
}
