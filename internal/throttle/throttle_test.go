package throttle

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLimit_RegainsAttemptsOverTime(t *testing.T) {
	limit := Limit{Burst: 3, Every: 10 * time.Second}
	start := time.Unix(1_000_000, 0)
	var tat time.Time
	for _, step := range []struct {
		at, wait time.Duration
	}{
		{0, 0}, {0, 0}, {0, 0}, {0, 10 * time.Second},
		{9 * time.Second, time.Second},
		{10 * time.Second, 0}, {10 * time.Second, 10 * time.Second},
		{70 * time.Second, 0}, {70 * time.Second, 0}, {70 * time.Second, 0}, {70 * time.Second, 10 * time.Second},
	} {
		next, wait := limit.Take(tat, start.Add(step.at))
		if wait != step.wait {
			t.Fatalf("at %v: got wait %v, want %v", step.at, wait, step.wait)
		}
		tat = next
	}
}

func TestLimit_ResetsImpossibleTAT(t *testing.T) {
	limit := Limit{Burst: 3, Every: 10 * time.Second}
	now := time.Unix(1_000_000, 0)
	for _, ahead := range []time.Duration{30*time.Second + Slack + 1, 48 * time.Hour} {
		tat, wait := limit.Take(now.Add(ahead), now)
		if wait != 0 {
			t.Errorf("TAT %v ahead: got wait %v, want none", ahead, wait)
		}
		if want := now.Add(limit.Every); !tat.Equal(want) {
			t.Errorf("TAT %v ahead: got the TAT %v after an attempt, want that of the first one, %v", ahead, tat, want)
		}
	}
	// A TAT that is ahead by the difference of two clocks counts in full.
	for _, ahead := range []time.Duration{30 * time.Second, 30*time.Second + Slack} {
		if _, wait := limit.Take(now.Add(ahead), now); wait != ahead-20*time.Second {
			t.Errorf("TAT %v ahead: got wait %v, want %v", ahead, wait, ahead-20*time.Second)
		}
	}
}

// In any window, at most the burst and the attempts regained in the window are
// allowed.
func TestLimit_NoScheduleExceedsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := Limit{Burst: rapid.IntRange(1, 20).Draw(t, "burst"), Every: time.Duration(rapid.IntRange(1, 60).Draw(t, "every")) * time.Second}
		now := time.Unix(1_000_000, 0)
		var tat time.Time
		var allowed []time.Time
		for range rapid.IntRange(1, 200).Draw(t, "attempts") {
			now = now.Add(time.Duration(rapid.IntRange(0, 30_000).Draw(t, "gap")) * time.Millisecond)
			next, wait := limit.Take(tat, now)
			tat = next
			if wait > 0 {
				if _, again := limit.Take(tat, now.Add(wait)); again != 0 {
					t.Fatalf("got another refusal after the wait of %v", wait)
				}
				continue
			}
			allowed = append(allowed, now)
		}
		for i, from := range allowed {
			for j := i; j < len(allowed); j++ {
				maxAllowed := limit.Burst + int(allowed[j].Sub(from)/limit.Every)
				if n := j - i + 1; n > maxAllowed {
					t.Fatalf("got %d attempts within %v, want at most %d", n, allowed[j].Sub(from), maxAllowed)
				}
			}
		}
	})
}

// Attempts of several callers commit in any order, so that a later time may be stored first.
func TestLimit_ThatAllowsEverythingNeverRefuses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]Limit{{}, {Every: time.Minute}, {Burst: 5}}).Draw(t, "limit")
		var tat time.Time
		for range rapid.IntRange(1, 50).Draw(t, "attempts") {
			now := time.Unix(1_000_000, 0).Add(time.Duration(rapid.Int64Range(-200e6, 200e6).Draw(t, "µs")) * time.Microsecond)
			var wait time.Duration
			if tat, wait = limit.Take(tat, now); wait != 0 {
				t.Fatalf("got a refusal with a wait of %v", wait)
			}
		}
	})
}

func TestMemory_CountsKeysSeparately(t *testing.T) {
	var m Memory
	limit, now := Limit{Burst: 2, Every: time.Second}, time.Unix(1000, 0)
	for i, want := range []time.Duration{0, 0, time.Second, time.Second} {
		if got := m.Take(1, limit, now); got != want {
			t.Errorf("attempt %d: got wait %v, want %v", i+1, got, want)
		}
	}
	if got := m.Take(2, limit, now); got != 0 {
		t.Errorf("another key: got wait %v, want none", got)
	}
	if got := m.Take(1, limit, now.Add(time.Second)); got != 0 {
		t.Errorf("after the wait: got wait %v, want none", got)
	}
}

func TestMemory_RemovesExpiredKeys(t *testing.T) {
	var m Memory
	limit, now := Limit{Burst: 2, Every: time.Second}, time.Unix(1000, 0)
	for key := range int64(1000) {
		m.Take(key, limit, now)
	}
	m.Take(1, limit, now.Add(time.Hour))
	if n := len(m.tats); n != 1 {
		t.Errorf("got %d keys, want 1", n)
	}
}
