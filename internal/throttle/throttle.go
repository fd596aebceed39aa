// Package throttle implements rate limits. A decision is a pure function of a
// limit, the current time and one stored time. Limits whose times the store keeps
// survive a swap of the plugin and are shared by nodes; [Memory] keeps its own.
package throttle

import (
	"maps"
	"sync"
	"time"
)

// Limit allows Burst attempts at once and one more every Every.
//
// It is the generic cell rate algorithm: its whole state is the theoretical arrival
// time (TAT), the time at which all attempts charged so far are regained. With
// Burst 3 and Every 10s:
//
//	t=0s   allowed, allowed, allowed, refused (wait 10s)
//	t=9s   refused (wait 1s)
//	t=10s  allowed, refused (wait 10s)
//	t=70s  allowed, allowed, allowed, refused
//
// A limit whose burst or interval is 0 allows everything, in whatever order attempts are
// charged: its TAT may be that of a later attempt which was stored first.
//
// A TAT further ahead than attempts can move it is left from a clock that was set
// back, or from another limit. It counts for nothing.
type Limit struct {
	Burst int
	Every time.Duration
	Name  string // by which metrics tell limits apart
}

// Slack is how far beyond the reach of attempts a TAT still counts: the clocks of
// nodes differ, and an attempt may be charged later than it was made.
const Slack = time.Minute

// whole is the time in which a burst is regained; 0 for a limit that allows everything.
func (l Limit) whole() time.Duration { return time.Duration(l.Burst) * l.Every }

// Wait returns how long an attempt at now is refused that has moved the TAT to next.
func (l Limit) Wait(next, now time.Time) time.Duration {
	if l.whole() == 0 {
		return 0
	}
	return max(0, next.Sub(now)-l.whole())
}

// Take charges one attempt at now. If the attempt is allowed, it returns the new TAT
// to store and no wait; if not, the TAT unchanged and the wait until an attempt is
// allowed.
func (l Limit) Take(tat, now time.Time) (next time.Time, wait time.Duration) {
	if tat.Before(now) || tat.After(now.Add(l.whole()+Slack)) {
		tat = now
	}
	next = tat.Add(l.Every)
	if wait = l.Wait(next, now); wait > 0 {
		return tat, wait
	}
	return next, 0
}

// Charge is one attempt counted against one key.
type Charge struct {
	Key   [32]byte // a digest: what users typed is not stored, and every key has one size
	Limit Limit
	Peek  bool // check only: the attempt is refused while the limit is exhausted, but not counted
}

// All returns the charge of a whole burst. A refund of it resets the key.
func (c Charge) All() Charge {
	c.Limit.Every *= time.Duration(c.Limit.Burst)
	return c
}

// Memory counts attempts in the memory of this process, for limits that need not
// be shared by nodes or survive a swap. The zero value is ready to use, and safe for
// concurrent use. It holds one entry for each key with attempts that still count.
type Memory struct {
	mu    sync.Mutex
	tats  map[int64]time.Time
	swept time.Time // when expired entries were last removed
}

// Take charges one attempt of the key at now. It returns 0 if the attempt is
// allowed, and else the wait until one is.
func (m *Memory) Take(key int64, l Limit, now time.Time) (wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tats == nil {
		m.tats = map[int64]time.Time{}
	}
	if now.Sub(m.swept).Abs() > time.Minute {
		maps.DeleteFunc(m.tats, func(_ int64, tat time.Time) bool { return tat.Before(now) })
		m.swept = now
	}
	m.tats[key], wait = l.Take(m.tats[key], now)
	return wait
}
