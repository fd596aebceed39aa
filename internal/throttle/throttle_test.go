package throttle

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLimitOnATimeline(t *testing.T) {
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
			t.Fatalf("at %v: wait %v, want %v", step.at, wait, step.wait)
		}
		tat = next
	}
}

func TestATimeThatNoAttemptCanHaveLeftLocksNobodyOut(t *testing.T) {
	limit := Limit{Burst: 3, Every: 10 * time.Second}
	now := time.Unix(1_000_000, 0)
	for _, ahead := range []time.Duration{30*time.Second + Slack + 1, 48 * time.Hour} {
		tat, wait := limit.Take(now.Add(ahead), now)
		if wait != 0 {
			t.Errorf("%v ahead: wait %v", ahead, wait)
		}
		if _, wait = limit.Take(tat, now); wait != limit.Every {
			t.Errorf("%v ahead, the second attempt: wait %v, want %v", ahead, wait, limit.Every)
		}
	}
	// A clock that is a little behind another makes no room.
	for _, ahead := range []time.Duration{30 * time.Second, 30*time.Second + Slack} {
		if _, wait := limit.Take(now.Add(ahead), now); wait != ahead-20*time.Second {
			t.Errorf("%v ahead: wait %v", ahead, wait)
		}
	}
}

// In any window the attempts allowed are at most the burst and what the window
// regains.
func TestNoScheduleExceedsTheLimit(t *testing.T) {
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
					t.Fatalf("still refused after the wait of %v", wait)
				}
				continue
			}
			allowed = append(allowed, now)
		}
		for i, from := range allowed {
			for j := i; j < len(allowed); j++ {
				most := limit.Burst + int(allowed[j].Sub(from)/limit.Every)
				if n := j - i + 1; n > most {
					t.Fatalf("%d attempts within %v, at most %d", n, allowed[j].Sub(from), most)
				}
			}
		}
	})
}
