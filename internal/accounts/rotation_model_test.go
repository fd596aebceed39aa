package accounts_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cms-personal/personal/internal/accounts"
	"github.com/cms-personal/personal/shared/personal"
)

// chainModel is a direct transcription of what the HTTP contract says about the
// hashes of one session. It keeps every hash, and the times of all changes.
type chainModel struct {
	rules      accounts.Settings
	hashes     []string    // the current one last
	superseded []time.Time // of each hash but the last
	used       time.Time   // first use of the current one; zero if none
	created    time.Time
	seen       time.Time
	ended      bool
}

func newChain(rules accounts.Settings, first string, now time.Time) chainModel {
	return chainModel{rules: rules, hashes: []string{first}, created: now, seen: now}
}

func (m chainModel) current() string { return m.hashes[len(m.hashes)-1] }

type hashState int

const (
	accepted hashState = iota // the current hash was presented
	repeated                  // a former hash was presented, which is still valid
	refused                   // 401, nothing changes
	theft                     // 401, the session ends
)

// stateOf returns the state of a hash that is presented now.
func (m chainModel) stateOf(hash string, now time.Time) hashState {
	behind := len(m.hashes) - 1 - slices.Index(m.hashes, hash)
	switch {
	case m.ended, now.Sub(m.seen) >= m.rules.SessionIdle+time.Minute, now.Sub(m.created) >= m.rules.SessionAbsolute:
		return refused
	case behind == 0:
		return accepted
	case m.age(hash, now) < m.rules.SupersededGrace:
		return repeated
	case behind == 1 && (m.used.IsZero() || now.Sub(m.used) < m.rules.SupersededGrace):
		return repeated
	}
	return theft
}

// age is the time since a hash was superseded.
func (m chainModel) age(hash string, now time.Time) time.Duration {
	return now.Sub(m.superseded[slices.Index(m.hashes, hash)])
}

// unsureOf reports whether a hash was superseded a grace period ago, give or take
// the precision of the rotation marks, 1/32 of it. Both states are right then.
func (m chainModel) unsureOf(hash string, now time.Time) bool {
	if hash == m.current() {
		return false
	}
	over := m.age(hash, now) - m.rules.SupersededGrace
	return over >= 0 && over <= m.rules.SupersededGrace/32
}

// unsure reports whether the session has expired within the precision of its last
// use, a minute. The model gives no state then.
func (m chainModel) unsure(now time.Time) bool {
	unseen := now.Sub(m.seen)
	return unseen >= m.rules.SessionIdle && unseen < m.rules.SessionIdle+time.Minute
}

// mayRefuse reports whether an honest client may be refused now.
func (m chainModel) mayRefuse(now time.Time) bool {
	return m.ended || m.unsure(now) || now.Sub(m.seen) >= m.rules.SessionIdle || now.Sub(m.created) >= m.rules.SessionAbsolute
}

// presentation is one call with a hash, and its result. A page is served by a host that
// remembers profiles; the model knows nothing of that.
type presentation struct {
	hash          string
	refresh, page bool
	ok            bool
	response      string // hash of an accepted refresh
}

// play returns the model after a call, and whether the call's result is the model's.
func (m chainModel) play(s presentation, now time.Time) (chainModel, bool) {
	switch m.stateOf(s.hash, now) {
	case accepted:
		switch {
		case s.refresh && slices.Contains(m.hashes, s.response):
			return m, false // a rotation must return a new hash
		case s.refresh:
			m.hashes = append(slices.Clone(m.hashes), s.response)
			m.superseded = append(slices.Clone(m.superseded), now)
			m.used = time.Time{}
		case m.used.IsZero():
			m.used = now
		}
		m.seen = now
		return m, s.ok
	case repeated:
		m.seen = now
		return m, s.ok && (!s.refresh || s.response == m.current())
	case theft:
		m.ended = true
	}
	return m, !s.ok
}

// explain searches for an order of concurrent calls in which the model gives each of
// their results.
func (m chainModel) explain(calls []presentation, now time.Time) (chainModel, bool) {
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

// pageHost is a host that uses each remembered profile for as long as it may, by the
// clock of the test, and notices what is done through it (see rpc.Client.Profile,
// which does the same by the real clock).
type pageHost struct {
	*fixture
	mu    sync.Mutex
	until map[string]time.Time // by hash
	epoch int
	hits  int // over all
}

func (h *pageHost) verify(pair personal.Credentials) error {
	now := h.clock.Now()
	h.mu.Lock()
	epoch := h.epoch
	if now.Before(h.until[pair.UserHash]) {
		h.hits++
		h.mu.Unlock()
		return nil
	}
	h.mu.Unlock()
	p, err := h.service.Profile(context.Background(), pair)
	if err != nil {
		h.notice(err)
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.epoch == epoch {
		h.until[pair.UserHash] = now.Add(p.FreshFor)
	}
	return nil
}

// notice forgets everything if the call that has returned err has ended a session.
func (h *pageHost) notice(err error) {
	if e, ok := err.(*personal.Error); ok && e.UserID != 0 {
		h.forget()
	}
}

func (h *pageHost) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.epoch++
	h.until = map[string]time.Time{}
}
