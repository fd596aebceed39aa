package manager

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/cms-personal/personal/shared/personal"
)

const (
	// maxAcceptedUsers bounds how many users' sessions are remembered, which takes about 3 MB. In a full
	// memory a user takes the place of any other.
	maxAcceptedUsers = 20_000
	// sessionsPerUser bounds how many of them are one user's, so that no user pushes out many others.
	sessionsPerUser = 4
	// maxRefused is how many users a version must sign out to be rolled back.
	maxRefused = 3
	// maxLooks bounds how many sessions the old process is asked about at once. Refusals beyond that
	// are not looked at: three users are enough.
	maxLooks = 8
)

// acceptedSessions remembers the credentials of sessions that the live process has accepted outside a bake, as
// digests under a key of this host process. The manager's mutex guards the users.
type acceptedSessions struct {
	key   [sha256.Size]byte
	users map[int64]*[sessionsPerUser]sessionDigest // the newest first
}

// sessionDigest is zero for no session.
type sessionDigest [16]byte

func newAcceptedSessions() *acceptedSessions {
	a := &acceptedSessions{users: map[int64]*[sessionsPerUser]sessionDigest{}}
	_, _ = rand.Read(a.key[:]) // it never fails
	return a
}

func (a *acceptedSessions) digest(c personal.Credentials) (d sessionDigest) {
	if c.UserID == 0 || c.UserHash == "" {
		return d
	}
	mac := hmac.New(sha256.New, a.key[:])
	_, _ = mac.Write(append(binary.BigEndian.AppendUint64(nil, uint64(c.UserID)), c.UserHash...))
	copy(d[:], mac.Sum(nil))
	return d
}

func (a *acceptedSessions) find(userID int64, d sessionDigest) *sessionDigest {
	if known := a.users[userID]; known != nil && d != (sessionDigest{}) {
		if i := slices.Index(known[:], d); i >= 0 {
			return &known[i]
		}
	}
	return nil
}

func (a *acceptedSessions) add(userID int64, d sessionDigest) {
	if d == (sessionDigest{}) || a.find(userID, d) != nil {
		return
	}
	known := a.users[userID]
	if known == nil {
		if len(a.users) >= maxAcceptedUsers {
			for any := range a.users { // in random order
				delete(a.users, any)
				break
			}
		}
		known = new([sessionsPerUser]sessionDigest)
		a.users[userID] = known
	}
	copy(known[1:], known[:])
	known[0] = d
}

// judgeLocked remembers the session of a call that the live process has accepted. One that it refuses in its
// bake, and that was accepted before the switch, is asked of the old process, once: what hostile callers present does not
// count, because for an honest version both say the same about it.
func (m *Manager) judgeLocked(p *instance, c endedCall) {
	presented := m.accepted.find(c.Presented.UserID, c.presented)
	switch old := m.previous; {
	case p != m.live || m.config.Bake < 0:
	case c.Code == "" && (m.state == StateServing || m.state == StateBaking && presented != nil):
		m.accepted.add(c.Presented.UserID, c.presented)
		m.accepted.add(c.Issued.UserID, c.issued)
	case m.state == StateBaking && c.refusesSession() && presented != nil && old != nil &&
		p.looks < maxLooks && !p.refused[c.Presented.UserID]:
		*presented = sessionDigest{}
		p.looks++
		m.background.Go(func() { m.look(p, old, c.Presented) })
	}
}

// refusesSession reports whether the call says that there is no such session. Other operations are 401, too, if what
// they depend on has changed since they began, which a user can bring about at will.
func (c endedCall) refusesSession() bool {
	return c.Code == personal.CodeUnauthenticated && (c.Operation == personal.OpProfile || c.Operation == personal.OpRefresh)
}

// look asks the old process about a session that the new one has refused, by the settings of the new one.
func (m *Manager) look(p, old *instance, pair personal.Credentials) {
	ctx, cancel := context.WithTimeout(m.work, m.limits.HealthTimeout)
	defer cancel()
	accepted, err := old.Accepts(ctx, pair, p.settings)
	if err != nil {
		old.Log().Debug("looking at a session that the new version has refused", "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p.looks--
	if err != nil || !accepted {
		return
	}
	p.Log().Warn("plugin refuses a session that the version before accepts", "user_id", pair.UserID)
	if p.refused == nil {
		p.refused = map[int64]bool{}
	}
	p.refused[pair.UserID] = true
	if len(p.refused) >= maxRefused {
		m.reportFailing()
	}
}
