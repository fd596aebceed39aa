package accounts

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestJudge_ByAgeAndSuccessor(t *testing.T) {
	const grace = 30 * time.Second
	start := time.Unix(1_000_000, 0)
	at := func(d time.Duration) time.Time { return start.Add(d) }
	// Rotated at 0 s, 10 s and 60 s.
	session := Session{Rotated: at(60 * time.Second), Rotations: 3, Marks: []RotationMark{
		{at(-time.Hour), 0}, {at(0), 1}, {at(10 * time.Second), 2}, {at(60 * time.Second), 3},
	}}
	used := session
	used.Used = at(time.Hour)
	for name, test := range map[string]struct {
		session Session
		behind  int64
		now     time.Duration
		want    hashState
	}{
		"current hash": {session, 0, 100 * time.Hour, current},
		"two behind, superseded within the grace period":      {session, 2, 10*time.Second + grace - 1, superseded},
		"two behind, superseded a grace period ago":           {session, 2, 10*time.Second + grace, stolen},
		"two behind, although the last rotation is young":     {session, 2, 61 * time.Second, stolen},
		"three behind, superseded a grace period ago":         {session, 3, grace, stolen},
		"predecessor within the grace period":                 {used, 1, 60*time.Second + grace - 1, superseded},
		"predecessor, successor unused":                       {session, 1, 100 * time.Hour, superseded},
		"predecessor, successor used within the grace period": {used, 1, time.Hour + grace - 1, superseded},
		"predecessor, successor used longer ago":              {used, 1, time.Hour + grace, stolen},
	} {
		t.Run(name, func(t *testing.T) {
			if got := stateOf(test.session, test.behind, at(test.now), grace); got != test.want {
				t.Fatalf("got state %v, want %v", got, test.want)
			}
		})
	}
}

// At any rate of rotation, a superseded hash is valid for the grace period, and at
// most 1/32 of it longer.
func TestRotate_KeepsTheGracePeriodOfEveryHash(t *testing.T) {
	const grace = 32 * time.Second
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		s := Session{Rotated: now, Marks: []RotationMark{{Time: now}}}
		var rotations []time.Time
		pause := rapid.SampledFrom([]time.Duration{time.Microsecond, 10 * time.Millisecond, 999 * time.Millisecond, time.Second, 20 * time.Second,
			time.Hour})
		for range rapid.IntRange(1, 400).Draw(t, "rotations") {
			now = now.Add(pause.Draw(t, "pause"))
			s = s.rotate([32]byte{}, now, grace)
			rotations = append(rotations, now)
		}
		if len(s.Marks) > marksPerGrace+3 {
			t.Fatalf("got %d marks, want at most %d", len(s.Marks), marksPerGrace+3)
		}
		s.Used = now.Add(-time.Hour) // so that the predecessor is valid for the grace period only
		for behind := int64(1); behind <= int64(len(rotations)); behind++ {
			age := now.Sub(rotations[len(rotations)-int(behind)])
			switch got := stateOf(s, behind, now, grace); {
			case age < grace && got != superseded:
				t.Fatalf("%d behind, superseded %v ago: state %v", behind, age, got)
			case age > grace+grace/32 && got != stolen:
				t.Fatalf("%d behind, superseded %v ago: state %v", behind, age, got)
			}
		}
	})
}

func TestRotate_ToleratesAClockThatIsBehind(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	s := Session{Rotated: start, Marks: []RotationMark{{Time: start}}}
	s = s.rotate([32]byte{}, start.Add(-time.Second), time.Minute)
	if !s.Rotated.Equal(start) || s.Rotations != 1 {
		t.Errorf("got rotated at %v, %d rotations; want %v, 1", s.Rotated, s.Rotations, start)
	}
}

func TestSeenEvery_IsShorterForShortSessions(t *testing.T) {
	for idle, want := range map[time.Duration]time.Duration{
		24 * time.Hour:   time.Minute,
		10 * time.Minute: time.Minute,
		time.Second:      10 * time.Millisecond,
	} {
		t.Run(fmt.Sprint(idle), func(t *testing.T) {
			if got := (Settings{SessionIdle: idle}).seenEvery(); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestLifetimes_AliveUntilIdleOrAbsoluteLimit(t *testing.T) {
	settings := Settings{SessionIdle: time.Hour, SessionAbsolute: 24 * time.Hour} // last uses are written once a minute
	now := time.Unix(1_000_000, 0)
	for name, test := range map[string]struct {
		created, lastSeen time.Duration // ago
		want              bool
	}{
		"in use":                                   {23 * time.Hour, time.Minute, true},
		"unused for less than the idle limit":      {2 * time.Hour, time.Hour + time.Minute - 1, true},
		"unused for the idle limit":                {2 * time.Hour, time.Hour + time.Minute, false},
		"younger than the absolute limit":          {24*time.Hour - 1, 0, true},
		"as old as the absolute limit, but in use": {24 * time.Hour, 0, false},
	} {
		session := Session{Created: now.Add(-test.created), LastSeen: now.Add(-test.lastSeen)}
		if got := settings.Lifetimes(now).Alive(session); got != test.want {
			t.Errorf("%s: got alive %v, want %v", name, got, test.want)
		}
	}
}
