package store

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// machine is a machine whose clocks a test moves.
type machine struct {
	wall      time.Time
	monotonic time.Duration
	database  time.Duration // ahead of the wall clock
	took      time.Duration // by reading the database's clock
	failure   error
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newMachine() *machine { return &machine{wall: start, monotonic: time.Hour, database: time.Minute} }

// clocks are the two ways to know the database's time.
func clocks(t *testing.T, test func(t *testing.T, m *machine, c *clock)) {
	t.Helper()
	for name, shared := range map[string]bool{"of the server": true, "of the machine": false} {
		t.Run(name, func(t *testing.T) {
			m := newMachine()
			c := &clock{log: slog.New(slog.DiscardHandler), machine: Machine{
				Wall: func() time.Time { return m.wall }, Monotonic: func() time.Duration { return m.monotonic },
			}}
			if shared {
				c.read = m.read
			} else {
				m.database = 0
			}
			m.measure(t, c)
			test(t, m, c)
		})
	}
}

func (m *machine) read(context.Context) (time.Time, error) {
	read := m.wall.Add(m.database)
	m.pass(m.took)
	return read.Add(m.took / 2), m.failure
}

// pass lets time pass on all clocks.
func (m *machine) pass(d time.Duration) {
	m.wall, m.monotonic = m.wall.Add(d), m.monotonic+d
}

// jump moves the wall clock, but not the server's.
func (m *machine) jump(d time.Duration, c *clock) {
	m.wall = m.wall.Add(d)
	if c.read != nil {
		m.database -= d
	}
}

func (m *machine) measure(t *testing.T, c *clock) {
	t.Helper()
	if err := c.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantNow(t *testing.T, m *machine, c *clock, want time.Time) {
	t.Helper()
	if got := c.now(); got != want.Add(m.databaseAhead(c)) {
		t.Fatalf("got the time %v, want %v", got, want.Add(m.databaseAhead(c)))
	}
}

func (m *machine) databaseAhead(c *clock) time.Duration {
	if c.read != nil {
		return time.Minute
	}
	return 0
}

func TestClock_TimeIsTheMeasuredOnePlusMonotonicTime(t *testing.T) {
	clocks(t, func(t *testing.T, m *machine, c *clock) {
		m.pass(time.Second)
		wantNow(t, m, c, start.Add(time.Second))
		m.took = 100 * time.Millisecond
		m.measure(t, c)
		m.pass(time.Second)
		want := start.Add(2 * time.Second)
		if c.read != nil {
			want = want.Add(m.took)
		}
		wantNow(t, m, c, want)
	})
}

func TestClock_PauseWhileItMeasuresPutsNoTimeAhead(t *testing.T) {
	m := newMachine()
	pauses := 2
	wall, monotonic := Machine{Monotonic: func() time.Duration { return m.monotonic }, Wall: func() time.Time {
		if pauses--; pauses >= 0 {
			m.pass(time.Second)
		}
		return m.wall
	}}.now()
	if got := (measurement{time: wall, monotonic: monotonic}).at(m.monotonic); !got.Equal(m.wall) {
		t.Errorf("got the time %v, want %v", got, m.wall)
	}
}

func TestClock_JumpOfTheWallClockChangesNothing(t *testing.T) {
	for _, jump := range []time.Duration{-time.Hour, 5 * time.Minute, time.Hour, 365 * 24 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			clocks(t, func(t *testing.T, m *machine, c *clock) {
				m.jump(jump, c)
				wantNow(t, m, c, start) // also before the next measurement
				for minute := range 60 {
					m.measure(t, c)
					wantNow(t, m, c, start.Add(time.Duration(minute)*time.Minute))
					if c.held() == 0 {
						t.Fatalf("after %d minutes deletion is not held, want it held for an hour", minute)
					}
					m.pass(time.Minute)
				}
				m.measure(t, c)
				if got := c.held(); got != 0 {
					t.Fatalf("after an hour deletion is held for %v, want it to go on", got)
				}
				want := start.Add(time.Hour)
				if c.read == nil { // the new time is the database's now
					want = want.Add(jump)
				}
				wantNow(t, m, c, want)
			})
		})
	}
}

func TestClock_WallClockThatReturnsIsNeverUsed(t *testing.T) {
	clocks(t, func(t *testing.T, m *machine, c *clock) {
		m.jump(365*24*time.Hour, c)
		m.measure(t, c)
		m.pass(59 * time.Minute)
		m.jump(-365*24*time.Hour, c)
		m.measure(t, c)
		m.pass(59 * time.Minute)
		m.measure(t, c)
		if c.held() == 0 {
			t.Error("deletion goes on 59 minutes after the clock returned, want it held for an hour")
		}
		m.pass(time.Minute)
		m.measure(t, c)
		if c.held() != 0 {
			t.Error("deletion is held an hour after the clock returned, want it to go on")
		}
		wantNow(t, m, c, start.Add(119*time.Minute))
	})
}

func TestClock_SmallCorrectionsAreFollowed(t *testing.T) {
	clocks(t, func(t *testing.T, m *machine, c *clock) {
		m.wall = m.wall.Add(maxParting)
		m.measure(t, c)
		if c.held() != 0 {
			t.Error("deletion is held after a correction of a minute, want it to go on")
		}
		wantNow(t, m, c, start.Add(maxParting))
	})
}

func TestClock_JumpOfTheServerIsFollowedButHoldsDeletion(t *testing.T) {
	clocks(t, func(t *testing.T, m *machine, c *clock) {
		if c.read == nil {
			t.Skip("there is no server")
		}
		m.database += time.Hour
		m.measure(t, c)
		wantNow(t, m, c, start.Add(time.Hour))
		if c.held() != trustAfter {
			t.Errorf("deletion is held for %v, want an hour", c.held())
		}
	})
}

func TestClock_UnusableMeasurementKeepsTheLastOne(t *testing.T) {
	for name, m := range map[string]*machine{
		"slow":   {took: maxSample + time.Millisecond, database: time.Hour},
		"failed": {failure: errors.New("no connection"), database: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			clocks(t, func(t *testing.T, now *machine, c *clock) {
				if c.read == nil {
					t.Skip("there is no server")
				}
				now.took, now.failure, now.database = m.took, m.failure, m.database
				if err := c.measure(t.Context()); err == nil {
					t.Error("got no error")
				}
				wantNow(t, now, c, start.Add(m.took))
			})
		})
	}
}

func TestMicros_RoundTrip(t *testing.T) {
	for _, want := range []time.Time{
		{},
		time.Date(2026, 3, 1, 12, 0, 0, 1000, time.UTC),
		time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC),
		time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
	} {
		if got := at(want).time(); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestClock_StepIsToldUntilLeasesHaveEnded(t *testing.T) {
	clocks(t, func(t *testing.T, m *machine, c *clock) {
		m.measure(t, c)
		if c.hasStepped(longestRun) {
			t.Error("without a step: got one")
		}
		m.wall = m.wall.Add(2 * maxStep)
		m.measure(t, c)
		m.pass(longestRun - time.Second)
		if !c.hasStepped(longestRun) {
			t.Error("after a step: got none")
		}
		m.pass(2 * time.Second)
		if c.hasStepped(longestRun) {
			t.Error("when leases have ended: got a step, want none")
		}
	})
}

// Connecting takes long, and then the time is read at the end of the measurement, not in its middle.
func TestClock_ConnectingDoesNotMakeItInexact(t *testing.T) {
	m := newMachine()
	connecting := 100 * time.Millisecond
	c := &clock{
		log: slog.New(slog.DiscardHandler),
		read: func(ctx context.Context) (time.Time, error) {
			m.pass(connecting)
			connecting = 0
			return m.read(ctx)
		},
		machine: Machine{Wall: func() time.Time { return m.wall }, Monotonic: func() time.Duration { return m.monotonic }},
	}
	m.measure(t, c)
	wantNow(t, m, c, m.wall)
}

// Times of what happens one after the other stay in order, although measurements are not exact.
func TestClock_StaysWhereAMeasurementDoesNotContradictIt(t *testing.T) {
	for _, tt := range []struct {
		name       string
		back, took time.Duration
		taken      bool
	}{
		{"off by less than half of what it took", 10 * time.Millisecond, 30 * time.Millisecond, false},
		{"off by more", 10 * time.Millisecond, 10 * time.Millisecond, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachine()
			c := &clock{log: slog.New(slog.DiscardHandler), read: m.read, machine: Machine{
				Wall: func() time.Time { return m.wall }, Monotonic: func() time.Duration { return m.monotonic },
			}}
			m.measure(t, c)
			want := c.now().Add(tt.took)
			m.database -= tt.back
			m.took = tt.took
			m.measure(t, c)
			if got := c.now(); got.Before(want) != tt.taken {
				t.Errorf("got %v after the measurement, want %v, or less: %t", got, want, tt.taken)
			}
		})
	}
}
