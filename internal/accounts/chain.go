package accounts

import (
	"slices"
	"time"
)

// standing is the verdict on a presented hash of a session.
type standing int

const (
	current    standing = iota // the hash that the session has now
	superseded                 // an earlier one that is still valid: a response was lost or doubled
	stolen                     // an earlier one that only a thief, or the thief's victim, still presents
)

// MaxRotations is how many rotations a session lives for. It bounds the walk along
// the chain (HTTP contract, section 3, auth_refresh).
const MaxRotations = 65_536

// marksPerGrace is how many rotation marks fall into a grace period: superseded
// hashes are judged as exactly as that, in the user's favour.
const marksPerGrace = 32

// uncountedRotations is the allowance for rotations by version 0.1.0, which does
// not count them.
const uncountedRotations = 4096

// RotationMark says that the session had been rotated Count times at Time, the
// last of them just then.
type RotationMark struct {
	Time  time.Time
	Count int64
}

// judge returns the verdict on a hash that is so many rotations behind the current
// one and is presented at now (HTTP contract, section 3, auth_refresh).
//
// A superseded hash is valid for the grace period. The immediate predecessor is
// valid for longer: until its successor is used, because until then its holder may
// never have received the successor, and for the grace period after that first
// use, because requests overtake each other.
func judge(s Session, behind int64, now time.Time, grace time.Duration) standing {
	switch {
	case behind == 0:
		return current
	case now.Sub(s.supersededAt(behind)) < grace:
		return superseded
	case behind == 1 && (s.Used.IsZero() || now.Sub(s.Used) < grace):
		return superseded
	}
	return stolen
}

// supersededAt returns when the hash that is so many rotations behind was
// superseded, or up to 1/32 of a grace period later.
func (s Session) supersededAt(behind int64) time.Time {
	if !s.counted() {
		return s.Rotated
	}
	rotation := s.Rotations - behind + 1
	first := slices.IndexFunc(s.Marks, func(m RotationMark) bool { return m.Count >= rotation })
	return s.Marks[first].Time // the last mark counts all rotations
}

// counted reports whether the last rotation is among those that were counted.
// Version 0.1.0 sets the time of a rotation and leaves the marks as they are.
func (s Session) counted() bool {
	return len(s.Marks) > 0 && s.Marks[len(s.Marks)-1].Time.Equal(s.Rotated)
}

// maxBehind is how many rotations behind the current hash another one of the
// session can be.
func (s Session) maxBehind() int64 {
	if s.counted() {
		return s.Rotations
	}
	// An allowance alone does not end a session, however often releases alternate.
	return min(s.Rotations+uncountedRotations, max(s.Rotations, MaxRotations/2))
}

// rotate returns the session with its next hash, made at now.
func (s Session) rotate(digest [32]byte, now time.Time, grace time.Duration) Session {
	now = later(now, s.Rotated) // nodes' clocks differ a little
	marks := s.Marks
	if !s.counted() {
		marks = []RotationMark{{s.Rotated, s.maxBehind()}}
	}
	next := RotationMark{now, s.maxBehind() + 1}
	step := max(grace/marksPerGrace, 1)
	kept := len(marks)
	if now.Truncate(step).Equal(marks[kept-1].Time.Truncate(step)) {
		kept-- // one mark for each part of the grace period
	}
	// Of the marks as old as the grace period only the last one is needed.
	old := 0
	for old+1 < kept && now.Sub(marks[old+1].Time) >= grace {
		old++
	}
	s.Marks = append(slices.Clone(marks[old:kept]), next)
	s.Rotations, s.Newest = next.Count, digest
	s.Rotated, s.LastSeen, s.Used = now, now, time.Time{}
	return s
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
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
