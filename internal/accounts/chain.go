package accounts

import (
	"time"
)

// standing says what showing a hash of a session means.
type standing int

const (
	newest  standing = iota // the hash that the session has now
	earlier                 // an earlier one that is borne with: a response was lost or doubled
	stolen                  // an earlier one that only a thief, or his victim, still shows
)

// judge decides what it means when a hash that is so many rotations behind the
// newest is shown at now (HTTP contract, section 3, auth_refresh).
//
// An earlier hash is borne with while the last rotation is younger than the
// grace. The immediate predecessor is borne with longer: until its successor is
// used, because until then its holder may never have received the successor, and
// for the grace after that first use, because requests overtake each other.
func judge(s Session, behind int, now time.Time, grace time.Duration) standing {
	switch {
	case behind == 0:
		return newest
	case now.Sub(s.Rotated) < grace:
		return earlier
	case behind == 1 && (s.Used.IsZero() || now.Sub(s.Used) < grace):
		return earlier
	}
	return stolen
}

// Lifetimes says which sessions are alive at now.
func (s Settings) Lifetimes(now time.Time) Lifetimes {
	return Lifetimes{
		// What was last seen may have been used again shortly after, unwritten.
		SeenAfter:    now.Add(-s.SessionIdle - s.seenEvery()),
		CreatedAfter: now.Add(-s.SessionAbsolute),
	}
}

// expiry is when a session ends if it is not used any more.
func (s Settings) expiry(of Session) time.Time {
	idle, absolute := of.LastSeen.Add(s.SessionIdle), of.Created.Add(s.SessionAbsolute)
	if idle.Before(absolute) {
		return idle
	}
	return absolute
}

// seenEvery is how often a session's last use is written: at most once a minute.
// A session may live that much longer than it should. Where that would be long
// beside its life, last uses are written more often.
func (s Settings) seenEvery() time.Duration {
	if s.SessionIdle < 10*time.Minute {
		return s.SessionIdle / 100
	}
	return time.Minute
}
