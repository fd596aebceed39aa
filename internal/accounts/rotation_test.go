package accounts_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
)

// chainModel is what the HTTP contract says about one session's hashes, written
// down as plainly as it is said there: a list of hashes, and when what happened.
type chainModel struct {
	hashes  []string // all there ever were, the newest last
	rotated time.Time
	used    time.Time // first use of the newest; zero if none
	created time.Time
	seen    time.Time
	ended   bool
}

type outcome int

const (
	accepted outcome = iota // the newest was shown
	repeated                // an earlier one was shown and is borne with
	refused                 // 401, nothing changes
	theft                   // 401, the session ends
)

func (m *chainModel) show(i int, now time.Time, idle, absolute, grace time.Duration) outcome {
	last := len(m.hashes) - 1
	switch {
	case m.ended, now.Sub(m.seen) >= idle, now.Sub(m.created) >= absolute:
		return refused
	case i == last:
		return accepted
	case last-i > 64:
		return refused
	case now.Sub(m.rotated) < grace:
		return repeated
	case i == last-1 && (m.used.IsZero() || now.Sub(m.used) < grace):
		return repeated
	}
	return theft
}

// grey tells that the moment is so close to the end of the session that the
// coarseness of last-seen matters: the model says nothing then.
func (m *chainModel) grey(now time.Time, idle time.Duration) bool {
	unseen := now.Sub(m.seen)
	return unseen > idle-idle/50 && unseen < idle
}

// rotationMachine plays one account's client, and a thief who has seen every
// hash, against the service and the model.
type rotationMachine struct {
	*fixture
	account personal.SignedIn
	model   *chainModel
	held    int  // index of the hash that the honest client holds
	honest  bool // nobody but the client has shown a hash of this session
}

func (m *rotationMachine) ctx() context.Context { return context.Background() }

func (m *rotationMachine) pair(i int) personal.Credentials {
	return personal.Credentials{UserID: m.account.Credentials.UserID, UserHash: m.model.hashes[i]}
}

func (m *rotationMachine) begin(c personal.Credentials) {
	now := m.clock.Now()
	m.model = &chainModel{hashes: []string{c.UserHash}, rotated: now, created: now, seen: now}
	m.held, m.honest = 0, true
}

// refresh shows hash i; whether the answer arrives is the client's affair.
func (m *rotationMachine) refresh(t *rapid.T, i int) (arrived string) {
	now := m.clock.Now()
	if m.model.grey(now, m.settings.SessionIdle) {
		return ""
	}
	want := m.model.show(i, now, m.settings.SessionIdle, m.settings.SessionAbsolute, m.settings.SessionGrace)
	got, err := m.service.Refresh(m.ctx(), m.pair(i))
	m.check(t, fmt.Sprintf("refresh of hash %d of %d", i, len(m.model.hashes)), want, err)
	switch want {
	case accepted:
		for _, old := range m.model.hashes {
			if got.UserHash == old {
				t.Fatal("a rotation answered a hash that was there before")
			}
		}
		m.model.hashes = append(m.model.hashes, got.UserHash)
		m.model.rotated, m.model.used, m.model.seen = now, time.Time{}, now
		return got.UserHash
	case repeated:
		if newest := m.model.hashes[len(m.model.hashes)-1]; got.UserHash != newest {
			t.Fatal("a repeated refresh did not answer the newest hash")
		}
		m.model.seen = now
		return got.UserHash
	case theft:
		m.model.ended = true
	}
	return ""
}

// use shows hash i to an operation that only identifies.
func (m *rotationMachine) use(t *rapid.T, i int) {
	now := m.clock.Now()
	if m.model.grey(now, m.settings.SessionIdle) {
		return
	}
	want := m.model.show(i, now, m.settings.SessionIdle, m.settings.SessionAbsolute, m.settings.SessionGrace)
	_, err := m.service.Profile(m.ctx(), m.pair(i))
	m.check(t, fmt.Sprintf("use of hash %d of %d", i, len(m.model.hashes)), want, err)
	switch want {
	case accepted:
		if m.model.used.IsZero() {
			m.model.used = now
		}
		m.model.seen = now
	case repeated:
		m.model.seen = now
	case theft:
		m.model.ended = true
	}
}

func (m *rotationMachine) check(t *rapid.T, what string, want outcome, err error) {
	switch code := personal.CodeOf(err); {
	case want <= repeated && err != nil:
		t.Fatalf("%s: %v, the model accepts it", what, err)
	case want > repeated && code != personal.CodeUnauthenticated:
		t.Fatalf("%s: %q, the model refuses it", what, code)
	}
}

// mayEnd tells whether the honest client may be refused now.
func (m *rotationMachine) mayEnd() bool {
	now := m.clock.Now()
	return !m.honest || m.model.ended ||
		now.Sub(m.model.seen) >= m.settings.SessionIdle-m.settings.SessionIdle/50 ||
		now.Sub(m.model.created) >= m.settings.SessionAbsolute
}

func (m *rotationMachine) actions() map[string]func(*rapid.T) {
	honestRefresh := func(t *rapid.T, lost bool) {
		mayEnd := m.mayEnd()
		answer := m.refresh(t, m.held)
		if answer == "" && !mayEnd {
			t.Fatal("an honest client was logged out")
		}
		if answer != "" && !lost {
			m.held = len(m.model.hashes) - 1
		}
	}
	return map[string]func(*rapid.T){
		"client refreshes":                     func(t *rapid.T) { honestRefresh(t, false) },
		"client refreshes, the answer is lost": func(t *rapid.T) { honestRefresh(t, true) },
		"client refreshes twice at once": func(t *rapid.T) {
			held := m.held
			honestRefresh(t, false)
			if now := m.clock.Now(); !m.model.ended && !m.model.grey(now, m.settings.SessionIdle) {
				m.refresh(t, held) // the doubled request, right behind
			}
		},
		"client uses its hash": func(t *rapid.T) {
			m.use(t, m.held)
		},
		"thief shows an old hash": func(t *rapid.T) {
			m.honest = false
			i := rapid.IntRange(0, len(m.model.hashes)-1).Draw(t, "hash")
			if rapid.Bool().Draw(t, "refreshing") {
				m.refresh(t, i)
			} else {
				m.use(t, i)
			}
		},
		"time passes": func(t *rapid.T) {
			m.clock.Advance(rapid.SampledFrom([]time.Duration{
				time.Millisecond, time.Second, 29 * time.Second, 30 * time.Second, 31 * time.Second,
				time.Minute, time.Hour, 5 * time.Hour, 25 * time.Hour,
			}).Draw(t, "step"))
		},
		"client signs out": func(t *rapid.T) {
			now := m.clock.Now()
			if m.model.grey(now, m.settings.SessionIdle) {
				return
			}
			want := m.model.show(m.held, now, m.settings.SessionIdle, m.settings.SessionAbsolute, m.settings.SessionGrace)
			err := m.service.Logout(m.ctx(), personal.LogoutRequest{Credentials: m.pair(m.held)})
			m.check(t, "logout", want, err)
			m.model.ended = m.model.ended || want != refused
		},
		"client changes the password": func(t *rapid.T) {
			now := m.clock.Now()
			if m.model.grey(now, m.settings.SessionIdle) {
				return
			}
			want := m.model.show(m.held, now, m.settings.SessionIdle, m.settings.SessionAbsolute, m.settings.SessionGrace)
			fresh, err := m.service.ChangePassword(m.ctx(), personal.ChangePasswordRequest{
				Credentials: m.pair(m.held), OldPassword: goodPassword, Password: goodPassword, ConfirmPassword: goodPassword,
			})
			m.check(t, "password change", want, err)
			switch want {
			case accepted, repeated: // earlier hashes are dead, without an alarm
				old := m.model.hashes
				created := m.model.created
				m.begin(fresh)
				m.model.created = created
				for _, hash := range old {
					_, err := m.service.Profile(m.ctx(), personal.Credentials{UserID: m.account.Credentials.UserID, UserHash: hash})
					m.check(t, "a hash from before the password change", refused, err)
				}
			case theft:
				m.model.ended = true
			}
		},
		"client signs in again": func(t *rapid.T) {
			in, err := m.service.Authorize(m.ctx(), personal.AuthorizeRequest{Login: m.account.Profile.Login, Password: goodPassword})
			if err != nil {
				t.Fatalf("signing in: %v", err)
			}
			m.begin(in.Credentials)
		},
	}
}

// Whatever a client does and however many answers it loses, it is never logged
// out; and every theft that the rules name is caught.
func TestRotationFollowsThePlainModel(t *testing.T) {
	testkit.Databases(t, func(t *testing.T, url string) {
		f := newFixture(t, url)
		number := 0
		rapid.Check(t, func(t *rapid.T) {
			number++
			m := &rotationMachine{fixture: f}
			m.account = f.register(t, fmt.Sprintf("client%d", number))
			m.begin(m.account.Credentials)
			t.Repeat(m.actions())
		})
	})
}
