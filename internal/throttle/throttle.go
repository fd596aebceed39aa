// Package throttle decides whether one more attempt is allowed now. Decisions
// are pure functions of a limit, a moment and one stored time; the store keeps
// that time, so limits survive a swap of the plugin and are shared by nodes.
package throttle

import "time"

// Limit allows Burst attempts at once and one more every Every.
//
// It is the generic cell rate algorithm: the whole state is the moment at which
// the attempts charged so far will have been regained (the theoretical arrival
// time, TAT). With Burst 3 and Every 10s:
//
//	t=0s   allowed, allowed, allowed, refused (wait 10s)
//	t=9s   refused (wait 1s)
//	t=10s  allowed, refused (wait 10s)
//	t=70s  allowed, allowed, allowed, refused
//
// A TAT further ahead than any attempt can have put it is of a clock that was
// set back, or of another limit. It counts as a burst used up but for one: that
// one is allowed, and with it the TAT is right again.
type Limit struct {
	Burst int
	Every time.Duration
}

// Slack is how far ahead of what is possible a TAT is still believed: nodes'
// clocks differ, and an attempt may be charged later than it was made.
const Slack = time.Minute

// Take charges one attempt at now. It returns the new TAT to be stored, or, when
// the attempt is refused, the wait until one is allowed and the TAT unchanged.
func (l Limit) Take(tat, now time.Time) (next time.Time, wait time.Duration) {
	whole := time.Duration(l.Burst) * l.Every
	switch {
	case tat.Before(now):
		tat = now
	case tat.After(now.Add(whole + Slack)):
		tat = now.Add(whole - l.Every)
	}
	next = tat.Add(l.Every)
	if wait = next.Sub(now) - whole; wait > 0 {
		return tat, wait
	}
	return next, 0
}

// Charge is one attempt counted against one key.
type Charge struct {
	Key   [32]byte // a digest: what users typed is not kept, and every key has one size
	Limit Limit
	Look  bool // only looked at: refused while the limit is used up, but not counted
}

// All stands for every attempt that was charged to the key under the limit: once
// it is given back, the key is as new.
func (c Charge) All() Charge {
	c.Limit.Every *= time.Duration(c.Limit.Burst)
	return c
}
