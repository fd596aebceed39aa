package accounts

import (
	"slices"
	"time"
)

// hashState is what a presented hash of a session is.
type hashState int

const (
	current    hashState = iota // the session's hash
	superseded                  // a former hash that is still valid: a response was lost, or a request repeated
	stolen                      // a former hash that only a thief, or the thief's victim, still presents
)

// MaxRotations is how many rotations a session lasts. It limits the walk along the
// hash chain (HTTP contract, section 3, auth_refresh).
const MaxRotations = 65_536

// marksPerGrace is how many rotation marks fall into a grace period. It is the
// precision with which superseded hashes are told from stolen ones, in the user's favour.
const marksPerGrace = 32

// RotationMark says that rotation number Count of the session was at Time.
type RotationMark struct {
	Time  time.Time
	Count int64
}

// stateOf returns the state of a hash that is presented at now and is a number of
// rotations behind the current one (HTTP contract, section 3, auth_refresh).
//
// A superseded hash is valid for the grace period. The immediate predecessor of the
// current hash is valid for longer: until the current hash is used, because its
// holder may never have received the current one, and for the grace period after
// that first use, because requests overtake each other.
func stateOf(s Session, behind int64, now time.Time, grace time.Duration) hashState {
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

// truthful returns the session with now in place of its times that are false, and whether there are
// any. So a session that was used while the clock was ahead continues as if all of that happened now.
func (s Session) truthful(now time.Time) (Session, bool) {
	mended := false
	mend := func(t *time.Time) {
		if isFalse(*t, now) {
			*t, mended = now, true
		}
	}
	for _, t := range []*time.Time{&s.Created, &s.Rotated, &s.Used, &s.LastSeen} {
		mend(t)
	}
	if slices.ContainsFunc(s.Marks, func(m RotationMark) bool { return isFalse(m.Time, now) }) {
		s.Marks = slices.Clone(s.Marks)
		for i := range s.Marks {
			mend(&s.Marks[i].Time)
		}
	}
	return s, mended
}

// supersededAt returns when the hash that is behind the current one by that many
// rotations was superseded, or a time up to 1/32 of a grace period later.
func (s Session) supersededAt(behind int64) time.Time {
	rotation := s.Rotations - behind + 1
	first := slices.IndexFunc(s.Marks, func(m RotationMark) bool { return m.Count >= rotation })
	if first < 0 { // the last mark counts all rotations, unless the row is damaged
		return s.Rotated
	}
	return s.Marks[first].Time
}

// rotate returns the session with its next hash, made at now.
func (s Session) rotate(digest [32]byte, now time.Time, grace time.Duration) Session {
	s, _ = s.truthful(now)     // the clock may have returned since the session was read
	if now.Before(s.Rotated) { // nodes' clocks differ a little
		now = s.Rotated
	}
	marks := s.Marks
	if len(marks) == 0 { // the session's first rotation
		marks = []RotationMark{{s.Rotated, s.Rotations}}
	}
	next := RotationMark{now, s.Rotations + 1}
	step := max(grace/marksPerGrace, 1)
	kept := len(marks)
	if now.Truncate(step).Equal(marks[kept-1].Time.Truncate(step)) {
		kept-- // one mark for each part of the grace period
	}
	// Of the marks that are as old as the grace period, only the last is needed.
	old := 0
	for old+1 < kept && now.Sub(marks[old+1].Time) >= grace {
		old++
	}
	s.Marks = append(slices.Clone(marks[old:kept]), next)
	s.Rotations, s.Current = next.Count, digest
	s.Rotated, s.LastSeen, s.Used = now, now, time.Time{}
	return s
}

// Lifetimes returns the limits for sessions that are alive at now.
func (s Settings) Lifetimes(now time.Time) Lifetimes {
	return Lifetimes{
		// A session may have been used later than its stored last use.
		SeenAfter:    now.Add(-s.SessionIdle - s.seenEvery()),
		CreatedAfter: now.Add(-s.SessionAbsolute),
	}
}

// expiry is when a session expires if it is not used any more.
func (s Settings) expiry(of Session) time.Time {
	idle, absolute := of.LastSeen.Add(s.SessionIdle), of.Created.Add(s.SessionAbsolute)
	if idle.Before(absolute) {
		return idle
	}
	return absolute
}

// seenEvery is the interval at which a session's last use is stored: a minute, or
// less for short-lived sessions. A session may live longer by this interval.
func (s Settings) seenEvery() time.Duration {
	if s.SessionIdle < 10*time.Minute {
		return s.SessionIdle / 100
	}
	return time.Minute
}
