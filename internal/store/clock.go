package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/cms-personal/personal/internal/accounts"
)

const (
	// maxParting is how far a clock may be from what monotonic time predicts. Beyond it, it
	// has jumped.
	maxParting = time.Minute
	// trustAfter is how long no clock must have jumped before clocks are trusted again, in
	// monotonic time.
	trustAfter = time.Hour
	// maxStep is how far now may move by a measurement before leases can have ended too soon.
	maxStep = 5 * time.Second
	// maxAbsence is how long ago the last round of any process may be before a new process
	// supposes that a clock has jumped since.
	maxAbsence = time.Hour
	// longestRun is how long a job of any node may run, because of its lease.
	longestRun = time.Minute
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

// now is the time of both clocks at one moment. It reads them again, ten times at most, if the process
// paused between them, which would put the time that follows from them ahead.
func (m Machine) now() (wall time.Time, monotonic time.Duration) {
	for range 10 {
		monotonic = m.Monotonic()
		wall = m.Wall()
		if m.Monotonic()-monotonic < time.Millisecond {
			break
		}
	}
	return wall, monotonic
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
// The clock is trusted, or held since the last jump. A jump is when the wall clock or the
// database's time is more than maxParting from what monotonic time predicts. An hour without a
// jump ends the hold, even if the time is still wrong. A new process compares what it reads
// first with the time of the last round, which the database has.
type clock struct {
	machine Machine
	log     *slog.Logger
	read    func(context.Context) (time.Time, error) // the database's time; nil: the wall clock's
	base    atomic.Pointer[measurement]              // what now counts from

	mu     sync.Mutex   // held by measure
	last   measurement  // the last one, in use or not
	parted atomic.Int64 // monotonic time of the last jump plus 1; 0: trusted

	stepped atomic.Int64 // monotonic time plus 1 when now last moved by more than maxStep; 0: never
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
	if c.read != nil && c.base.Load() == nil { // the first may open a connection, which would make it inexact
		if _, err := c.read(ctx); err != nil {
			return err
		}
	}
	wall, began := c.machine.now()
	m := measurement{time: wall, wall: wall, monotonic: began}
	var doubt time.Duration // how far m.time may be off
	if c.read != nil {
		var err error
		if m.time, err = c.read(ctx); err != nil {
			return err
		}
		took := c.machine.Monotonic() - began
		if took > maxSample {
			return errSlowClock
		}
		doubt = took / 2
		m.monotonic, m.wall = began+doubt, m.wall.Add(doubt)
	}
	if c.base.Load() == nil {
		c.base.Store(&m)
		c.last = m
		return nil
	}
	c.judge(m)
	step := parting(m.time, c.base.Load().at(m.monotonic))
	switch {
	case step <= doubt: // now may be right: it takes no small steps back without need
	case c.read != nil || c.held() == 0 || step <= maxParting: // else the wall clock is not used yet
		c.base.Store(&m)
		if step > maxStep {
			c.stepped.Store(int64(m.monotonic) + 1)
		}
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
		c.hold(m.monotonic, apart)
	case held && c.held() == 0:
		c.parted.Store(0)
		c.log.Info("clocks have agreed for an hour: removing and erasing go on")
	}
}

// hold stops removing and erasing for an hour.
func (c *clock) hold(monotonic, apart time.Duration) {
	c.parted.Store(int64(monotonic) + 1)
	c.log.Error("clocks disagree: one has jumped, or no plugin has run for an hour; for an hour this process removes nothing "+
		"and erases no account: check the time of this machine and of the database before that", slog.Duration("apart", apart))
}

// resume compares the time with that of the last round of any process, before the first
// round of this one.
func (c *clock) resume(lastRound time.Time) {
	if apart := parting(c.now(), lastRound); apart > maxAbsence {
		c.hold(c.machine.Monotonic(), apart)
	}
}

// hasStepped reports whether now has moved by more than maxStep within the given time, so
// that a lease of that length may run that now says is over.
func (c *clock) hasStepped(within time.Duration) bool {
	stepped := c.stepped.Load()
	return stepped != 0 && c.machine.Monotonic()-time.Duration(stepped-1) < within
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

// latest is the latest time at which something can have happened: a later one that is stored is
// false (see [accounts.MaxAhead]). So "column > ? AND column <= ?" asks what has happened since a time.
func (s *Store) latest() micros { return at(s.Now().Add(accounts.MaxAhead)) }

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

// DeletionHeld returns how long nothing is removed, and no account erased, because a clock has
// jumped; 0 if none has. It ends later if one jumps again.
func (s *Store) DeletionHeld() time.Duration {
	if s.fixed != nil {
		return 0
	}
	return s.clock.held()
}

// lastRound is the row of personal_sweeps that tells when a process has last removed something.
const lastRound = "last round"

// mayDelete measures the database's clock anew, before a round that removes or erases. It reports
// false while deletion is held, which is not an error: measuring has logged it.
func (s *Store) mayDelete(ctx context.Context) (bool, error) {
	if err := s.SyncClock(ctx); err != nil || s.fixed != nil {
		return err == nil, err
	}
	if !s.resumed.Load() {
		last, err := sweepPosition(ctx, s.read, lastRound)
		if err != nil {
			return false, wrap(ctx, "read when expired data was removed last", err)
		}
		if s.resumed.CompareAndSwap(false, true) && last.Began != 0 {
			s.clock.resume(last.Began.time())
		}
	}
	return s.DeletionHeld() == 0, nil
}

// noteRound stores that a process removes something now.
func (s *Store) noteRound(ctx context.Context) error {
	if s.fixed != nil {
		return nil
	}
	return s.inTx(ctx, "store when expired data was removed", func(ctx context.Context, tx bun.Tx) error {
		return setSweepPosition(ctx, tx, lastRound, sweepRow{Began: at(s.Now())})
	})
}
