package accounts_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/shared/personal"
)

// rotationMachine plays one account's client, and a thief who has seen every
// hash, against the service and the model.
type rotationMachine struct {
	*fixture
	login  string
	userID int64
	model  chainModel
	held   string // the hash that the honest client holds
	stolen string // the hash that the thief holds; "" if none yet
	honest bool   // only the client has presented hashes of this session
}

func (m *rotationMachine) pair(hash string) personal.Credentials {
	return personal.Credentials{UserID: m.userID, UserHash: hash}
}

func (m *rotationMachine) begin(hash string) {
	m.model = newChain(m.settings, hash, m.clock.Now())
	m.held, m.stolen, m.honest = hash, "", true
}

// call makes calls at once and looks for an order of them that the model
// explains: that is what linearizable means. It returns their outcomes.
func (m *rotationMachine) call(t *rapid.T, calls ...show) []show {
	now := m.clock.Now()
	if m.model.unsure(now) || slices.ContainsFunc(calls, func(s show) bool { return m.model.unsureOf(s.hash, now) }) {
		return nil
	}
	errs := make([]error, len(calls))
	var running sync.WaitGroup
	for i := range calls {
		running.Go(func() { errs[i] = m.make(&calls[i]) })
	}
	running.Wait()
	for i, err := range errs {
		if code := personal.CodeOf(err); err != nil && code != personal.CodeUnauthenticated {
			t.Fatalf("call %d: %v", i, err)
		}
		calls[i].ok = err == nil
	}
	after, explained := m.model.explain(calls, now)
	if !explained {
		t.Fatalf("no order explains the results %v;\nhashes %v, superseded %v, used %v, now %v",
			calls, m.model.hashes, m.model.superseded, m.model.used, now)
	}
	m.model = after
	return calls
}

func (m *rotationMachine) make(s *show) error {
	if s.refresh {
		fresh, err := m.service.Refresh(context.Background(), m.pair(s.hash))
		s.answer = fresh.UserHash
		return err
	}
	_, err := m.service.Profile(context.Background(), m.pair(s.hash))
	return err
}

// client makes calls with the hash that the honest client holds, and must not be
// refused unless its session may have ended. Of the answers that arrive it keeps
// the last.
func (m *rotationMachine) client(t *rapid.T, arrives bool, calls ...show) {
	mayRefuse := !m.honest || m.model.mayRefuse(m.clock.Now())
	for _, s := range m.call(t, calls...) {
		if !s.ok && !mayRefuse {
			t.Fatal("an honest client was logged out")
		}
		if s.ok && s.refresh && arrives {
			m.held = s.answer
		}
	}
}

func (m *rotationMachine) anyShow(t *rapid.T) show {
	return show{
		hash:    rapid.SampledFrom(m.model.hashes).Draw(t, "hash"),
		refresh: rapid.Bool().Draw(t, "refresh"),
	}
}

// ends makes a call that ends the session or gives it new secrets, in place of a
// plain use.
func (m *rotationMachine) ends(t *rapid.T, call func() error) (done bool) {
	now := m.clock.Now()
	if m.model.unsure(now) || m.model.unsureOf(m.held, now) {
		return false
	}
	want := m.model.judge(m.held, now)
	err := call()
	if code := personal.CodeOf(err); (err == nil) != (want <= repeated) || err != nil && code != personal.CodeUnauthenticated {
		t.Fatalf("answer %q, the model's verdict is %d", code, want)
	}
	m.model.ended = m.model.ended || want != refused
	return err == nil
}

func (m *rotationMachine) logout(t *rapid.T) {
	m.ends(t, func() error {
		return m.service.Logout(context.Background(), personal.LogoutRequest{Credentials: m.pair(m.held)})
	})
}

// changePassword also checks that the hashes from before are dead, each without
// an alarm: the fresh one is good after all of them were shown.
func (m *rotationMachine) changePassword(t *rapid.T) {
	var fresh personal.Credentials
	done := m.ends(t, func() (err error) {
		fresh, err = m.service.ChangePassword(context.Background(), personal.ChangePasswordRequest{
			Credentials: m.pair(m.held), OldPassword: goodPassword, Password: goodPassword, ConfirmPassword: goodPassword,
		})
		return err
	})
	if !done {
		return
	}
	before := m.model
	m.begin(fresh.UserHash)
	m.model.created = before.created
	for _, hash := range before.hashes {
		if _, err := m.service.Profile(context.Background(), m.pair(hash)); personal.CodeOf(err) != personal.CodeUnauthenticated {
			t.Fatalf("a hash from before the password change: %v", err)
		}
	}
	m.client(t, true, show{hash: m.held})
}

func (m *rotationMachine) signIn(t *rapid.T) {
	in, err := m.service.Authorize(context.Background(), personal.AuthorizeRequest{Login: m.login, Password: goodPassword})
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	m.begin(in.Credentials.UserHash)
}

// steal lets the thief, who begins with the current hash, refresh again and again
// at a pace of their own. Every refresh follows the model.
func (m *rotationMachine) steal(t *rapid.T, steps int, pause time.Duration) {
	m.honest = false
	if m.stolen == "" {
		m.stolen = m.model.newest()
	}
	for range steps {
		m.clock.Advance(pause)
		for _, s := range m.call(t, show{hash: m.stolen, refresh: true}) {
			if !s.ok {
				m.stolen = ""
				return
			}
			m.stolen = s.answer
		}
	}
}

func (m *rotationMachine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"client refreshes": func(t *rapid.T) { m.client(t, true, show{hash: m.held, refresh: true}) },
		"client refreshes, the answer is lost": func(t *rapid.T) {
			m.client(t, false, show{hash: m.held, refresh: true})
		},
		"client refreshes in three tabs at once": func(t *rapid.T) {
			m.client(t, true, slices.Repeat([]show{{hash: m.held, refresh: true}}, 3)...)
		},
		"client refreshes, and a request overtakes it": func(t *rapid.T) {
			m.client(t, true, show{hash: m.held, refresh: true}, show{hash: m.held})
		},
		"client uses its hash": func(t *rapid.T) { m.client(t, true, show{hash: m.held}) },
		"thief shows any hash": func(t *rapid.T) {
			m.honest = false
			m.call(t, m.anyShow(t))
		},
		"thief and client at once": func(t *rapid.T) {
			m.honest = false
			m.client(t, true, show{hash: m.held, refresh: true}, m.anyShow(t), m.anyShow(t))
		},
		"thief refreshes fast": func(t *rapid.T) {
			m.steal(t, rapid.SampledFrom([]int{1, 1, 1, 70, 300}).Draw(t, "steps"), 40*time.Millisecond)
		},
		"thief refreshes within the grace period": func(t *rapid.T) {
			m.steal(t, rapid.IntRange(1, 10).Draw(t, "steps"), 20*time.Second)
		},
		"thief refreshes patiently": func(t *rapid.T) {
			m.steal(t, rapid.IntRange(1, 3).Draw(t, "steps"), time.Hour)
		},
		"time passes": func(t *rapid.T) {
			m.clock.Advance(rapid.SampledFrom([]time.Duration{
				time.Millisecond, time.Second, 29 * time.Second, 30 * time.Second, 31 * time.Second,
				time.Minute, time.Hour, 5 * time.Hour, 25 * time.Hour,
			}).Draw(t, "step"))
		},
		"client signs out":            m.logout,
		"client changes the password": m.changePassword,
		"client signs in again":       m.signIn,
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
			m := &rotationMachine{fixture: f, login: fmt.Sprintf("client%d", number)}
			in := f.register(t, m.login)
			m.userID = in.Credentials.UserID
			m.begin(in.Credentials.UserHash)
			t.Repeat(m.actions())
		})
	})
}
