package accounts_test

import (
	"slices"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
)

// chainModel is what the HTTP contract says about one session's hashes, written
// down as plainly as it is said there: all hashes there ever were, and when what
// happened to them.
type chainModel struct {
	rules      accounts.Settings
	hashes     []string    // the current one last
	superseded []time.Time // when each but the last was
	used       time.Time   // first use of the current one; zero if none
	created    time.Time
	seen       time.Time
	ended      bool
}

func newChain(rules accounts.Settings, first string, now time.Time) chainModel {
	return chainModel{rules: rules, hashes: []string{first}, created: now, seen: now}
}

func (m chainModel) newest() string { return m.hashes[len(m.hashes)-1] }

type verdict int

const (
	accepted verdict = iota // the newest was shown
	repeated                // an earlier one was shown and is borne with
	refused                 // 401, nothing changes
	theft                   // 401, the session ends
)

// judge says what showing a hash means now.
func (m chainModel) judge(hash string, now time.Time) verdict {
	behind := len(m.hashes) - 1 - slices.Index(m.hashes, hash)
	switch {
	case m.ended, now.Sub(m.seen) >= m.rules.SessionIdle+time.Minute, now.Sub(m.created) >= m.rules.SessionAbsolute:
		return refused
	case behind == 0:
		return accepted
	case m.age(hash, now) < m.rules.SessionGrace:
		return repeated
	case behind == 1 && (m.used.IsZero() || now.Sub(m.used) < m.rules.SessionGrace):
		return repeated
	}
	return theft
}

// age is how long ago a hash that is not the current one was superseded.
func (m chainModel) age(hash string, now time.Time) time.Duration {
	return now.Sub(m.superseded[slices.Index(m.hashes, hash)])
}

// unsureOf tells that a hash was superseded so close to a grace period ago that
// the coarseness of what a session keeps, 1/32 of it, matters: both verdicts are
// right then.
func (m chainModel) unsureOf(hash string, now time.Time) bool {
	if hash == m.newest() {
		return false
	}
	over := m.age(hash, now) - m.rules.SessionGrace
	return over >= 0 && over <= m.rules.SessionGrace/32
}

// unsure tells that the moment is so close behind the end of the session that the
// coarseness of last-seen, a minute, matters: the model says nothing then.
func (m chainModel) unsure(now time.Time) bool {
	unseen := now.Sub(m.seen)
	return unseen >= m.rules.SessionIdle && unseen < m.rules.SessionIdle+time.Minute
}

// mayRefuse tells whether the holder of a hash that was answered last may be
// refused now although nobody did him any harm.
func (m chainModel) mayRefuse(now time.Time) bool {
	return m.ended || m.unsure(now) || now.Sub(m.seen) >= m.rules.SessionIdle || now.Sub(m.created) >= m.rules.SessionAbsolute
}

// show is one call that showed a hash, and what came of it.
type show struct {
	hash    string
	refresh bool
	ok      bool
	answer  string // of a refresh that was accepted
}

// play returns the model after a call, and whether the call's answer is the one
// that the model gives.
func (m chainModel) play(s show, now time.Time) (chainModel, bool) {
	switch m.judge(s.hash, now) {
	case accepted:
		switch {
		case s.refresh && slices.Contains(m.hashes, s.answer):
			return m, false // a rotation must not answer what was there before
		case s.refresh:
			m.hashes = append(slices.Clone(m.hashes), s.answer)
			m.superseded = append(slices.Clone(m.superseded), now)
			m.used = time.Time{}
		case m.used.IsZero():
			m.used = now
		}
		m.seen = now
		return m, s.ok
	case repeated:
		m.seen = now
		return m, s.ok && (!s.refresh || s.answer == m.newest())
	case theft:
		m.ended = true
	}
	return m, !s.ok
}

// explain looks for an order of the calls, made at once, in which the model gives
// every one of their answers.
func (m chainModel) explain(calls []show, now time.Time) (chainModel, bool) {
	if len(calls) == 0 {
		return m, true
	}
	for i, first := range calls {
		next, fits := m.play(first, now)
		if !fits {
			continue
		}
		if last, ok := next.explain(slices.Delete(slices.Clone(calls), i, i+1), now); ok {
			return last, true
		}
	}
	return m, false
}
