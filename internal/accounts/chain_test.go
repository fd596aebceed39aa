package accounts

import (
	"testing"
	"time"
)

func TestAnOldHashIsJudgedByItsAgeAndItsSuccessor(t *testing.T) {
	const grace = 30 * time.Second
	start := time.Unix(1_000_000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	rotatedAtStart := Session{Rotated: start}
	usedAfterAnHour := Session{Rotated: start, Used: at(time.Hour)}
	for name, test := range map[string]struct {
		session Session
		behind  int
		now     time.Time
		want    standing
	}{
		"the newest": {rotatedAtStart, 0, at(100 * time.Hour), newest},
		"any earlier one within the grace of a rotation":   {rotatedAtStart, 5, at(grace - 1), earlier},
		"the one before the last once the grace is over":   {rotatedAtStart, 2, at(grace), stolen},
		"the predecessor while its successor is unused":    {rotatedAtStart, 1, at(100 * time.Hour), earlier},
		"the predecessor soon after the successor's use":   {usedAfterAnHour, 1, at(time.Hour + grace - 1), earlier},
		"the predecessor when that use is older":           {usedAfterAnHour, 1, at(time.Hour + grace), stolen},
		"the one before the predecessor, successor unused": {rotatedAtStart, 2, at(time.Hour), stolen},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(test.session, test.behind, test.now, grace); got != test.want {
				t.Fatalf("standing %v, want %v", got, test.want)
			}
		})
	}
}

func TestLastSeenIsWrittenOnceAMinuteOrSoonerForShortLives(t *testing.T) {
	for idle, want := range map[time.Duration]time.Duration{
		24 * time.Hour:   time.Minute,
		10 * time.Minute: time.Minute,
		time.Second:      10 * time.Millisecond,
	} {
		if got := (Settings{SessionIdle: idle}).seenEvery(); got != want {
			t.Errorf("idle %v: every %v, want %v", idle, got, want)
		}
	}
}
