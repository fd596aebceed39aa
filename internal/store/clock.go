package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxParting is how far two clocks, or two measurements of one, may part before
	// nothing is removed any more.
	maxParting = time.Minute
	// trustAfter is how long the clocks must have agreed again, in monotonic time.
	trustAfter = time.Hour
	// maxSample is the longest time that a measurement may take: the database's time is
	// taken as of its middle.
	maxSample = time.Second
)

var errSlowClock = errors.New("the database took too long to tell its time")

// Machine is the clocks of this machine.
type Machine struct {
	Wall      func() time.Time
	Monotonic func() time.Duration // since any moment; it never jumps
}

func thisMachine() Machine {
	return Machine{Wall: func() time.Time { return time.Now().Round(0) }, Monotonic: monotonic()}
}

// monotonicOfProcess is Go's monotonic clock, which on some systems stands still while the
// machine is suspended.
func monotonicOfProcess() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// clock tells the database's time: that of its last measurement, plus the monotonic time
// since. So a wrong or jumping clock of this machine changes nothing.
//
// On SQLite the machine's wall clock is the database's. When it jumps, the time goes on as
// if it had not, until the new time has held for an hour.
//
// The states are: trusted, and parted since a moment. It is parted when wall clock and
// monotonic time, or two measurements, part by more than a minute, and trusted again when
// they have agreed for an hour.
type clock struct {
	machine Machine
	log     *slog.Logger
	read    func(context.Context) (time.Time, error) // the database's time; nil: the wall clock's
	base    atomic.Pointer[measurement]              // what now counts from

	mu     sync.Mutex   // held by measure
	last   measurement  // the last one, in use or not
	parted atomic.Int64 // monotonic time of the last parting plus 1; 0: trusted
}

// measurement is the time of the clocks at one moment.
type measurement struct {
	time      time.Time // the database's
	wall      time.Time // this machine's
	monotonic time.Duration
}

// at is the database's time at a moment, if no clock has jumped since the measurement.
func (m measurement) at(monotonic time.Duration) time.Time {
	return m.time.Add(monotonic - m.monotonic)
}

// now is the database's time. It needs a measurement first.
func (c *clock) now() time.Time { return c.base.Load().at(c.machine.Monotonic()) }

// measure measures the database's time.
func (c *clock) measure(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	began := c.machine.Monotonic()
	m := measurement{wall: c.machine.Wall(), monotonic: began}
	m.time = m.wall
	if c.read != nil {
		var err error
		if m.time, err = c.read(ctx); err != nil {
			return err
		}
		took := c.machine.Monotonic() - began
		if took > maxSample {
			return errSlowClock
		}
		m.monotonic, m.wall = began+took/2, m.wall.Add(took/2)
	}
	if c.base.Load() == nil {
		c.base.Store(&m)
		c.last = m
		return nil
	}
	c.judge(m)
	if c.read != nil || c.held() == 0 {
		c.base.Store(&m)
	} else if predicted := c.base.Load().at(m.monotonic); parting(m.time, predicted) <= maxParting {
		c.base.Store(&m) // the wall clock is right again
	}
	c.last = m
	return nil
}

// judge compares a measurement with the last one, and both clocks of the machine.
func (c *clock) judge(m measurement) {
	apart := max(parting(m.time, c.last.at(m.monotonic)), parting(m.wall, c.last.wall.Add(m.monotonic-c.last.monotonic)))
	held := c.parted.Load() != 0
	switch {
	case apart > maxParting:
		c.parted.Store(int64(m.monotonic) + 1)
		c.log.Error("clocks disagree: until they have agreed for an hour, nothing is removed and no account is erased; "+
			"check the time synchronisation of this machine and of the database", slog.Duration("apart", apart))
	case held && c.held() == 0:
		c.parted.Store(0)
		c.log.Info("clocks have agreed for an hour: removing and erasing go on")
	}
}

// held returns how long nothing may be removed any more, if no clock jumps again; 0 if
// clocks are trusted.
func (c *clock) held() time.Duration {
	parted := c.parted.Load()
	if parted == 0 {
		return 0
	}
	return max(0, time.Duration(parted-1)+trustAfter-c.machine.Monotonic())
}

func parting(a, b time.Time) time.Duration { return a.Sub(b).Abs() }

// Now is the database's time in UTC, to the microsecond.
func (s *Store) Now() time.Time {
	if s.fixed != nil {
		return s.fixed().UTC().Truncate(time.Microsecond)
	}
	return s.clock.now().UTC().Truncate(time.Microsecond)
}

// SyncClock measures the database's clock, and notices clocks that jumped. Call it every
// minute. With a test's clock it does nothing.
func (s *Store) SyncClock(ctx context.Context) error {
	if s.fixed != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	return wrap(ctx, "read the database's clock", s.clock.measure(ctx))
}

// readTime asks PostgreSQL for its time.
func (s *Store) readTime(ctx context.Context) (time.Time, error) {
	var micro int64
	err := s.read.NewRaw(s.readClock).Scan(ctx, &micro)
	return time.UnixMicro(micro), err
}

// DeletionHeld returns how long nothing is removed, and no account erased, because clocks
// disagree; 0 if they agree. It ends later if a clock jumps again.
func (s *Store) DeletionHeld() time.Duration {
	if s.fixed != nil {
		return 0
	}
	return s.clock.held()
}

// beginRound measures the database's clock anew. Each round that claims, removes or erases begins
// with it, and does nothing if it fails.
func (s *Store) beginRound(ctx context.Context) error { return s.SyncClock(ctx) }

// mayDelete is [Store.beginRound] for a round that removes or erases. It reports false while
// deletion is held, which is no error: measuring has logged it.
func (s *Store) mayDelete(ctx context.Context) (bool, error) {
	err := s.beginRound(ctx)
	return err == nil && s.DeletionHeld() == 0, err
}
