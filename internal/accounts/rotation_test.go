package accounts_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/personal"
)

// rotationMachine runs one account's client, and a thief who has seen every hash,
// against the service and the model.
type rotationMachine struct {
	*fixture
	pages  *pageHost
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

// call makes calls at once and searches for an order of them that the model explains
// (they must be linearizable). It returns their results.
func (m *rotationMachine) call(t *rapid.T, calls ...presentation) []presentation {
	now := m.clock.Now()
	if m.model.unsure(now) || slices.ContainsFunc(calls, func(s presentation) bool { return m.model.unsureOf(s.hash, now) }) {
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

func (m *rotationMachine) make(s *presentation) error {
	if s.page {
		return m.pages.verify(m.pair(s.hash))
	}
	var err error
	if s.refresh {
		var fresh personal.Credentials
		fresh, err = m.service.Refresh(context.Background(), m.pair(s.hash))
		s.response = fresh.UserHash
	} else {
		_, err = m.service.Profile(context.Background(), m.pair(s.hash))
	}
	m.pages.notice(err)
	return err
}

// client makes calls with the hash that the honest client holds. They must not be
// refused unless the session may have ended. The client keeps the hash of the last
// response that arrives.
func (m *rotationMachine) client(t *rapid.T, arrives bool, calls ...presentation) {
	mayRefuse := !m.honest || m.model.mayRefuse(m.clock.Now())
	for _, s := range m.call(t, calls...) {
		if !s.ok && !mayRefuse {
			t.Fatal("got a refused honest client, want it signed in")
		}
		if s.ok && s.refresh && arrives {
			m.held = s.response
		}
	}
}

func (m *rotationMachine) anyPresentation(t *rapid.T) presentation {
	refresh := rapid.Bool().Draw(t, "refresh")
	return presentation{
		hash:    rapid.SampledFrom(m.model.hashes).Draw(t, "hash"),
		refresh: refresh,
		page:    !refresh && rapid.Bool().Draw(t, "page"),
	}
}

// ends makes a call that ends the session or replaces its secrets.
func (m *rotationMachine) ends(t *rapid.T, call func() error) (done bool) {
	now := m.clock.Now()
	if m.model.unsure(now) || m.model.unsureOf(m.held, now) {
		return false
	}
	want := m.model.stateOf(m.held, now)
	err := call()
	m.pages.forget()
	if code := personal.CodeOf(err); (err == nil) != (want <= repeated) || err != nil && code != personal.CodeUnauthenticated {
		t.Fatalf("got code %q, want the model's state %d", code, want)
	}
	m.model.ended = m.model.ended || want != refused
	return err == nil
}

func (m *rotationMachine) logout(t *rapid.T) {
	m.ends(t, func() error {
		return m.service.Logout(context.Background(), personal.LogoutRequest{Credentials: m.pair(m.held)})
	})
}

// changePassword also checks that all former hashes are refused, and that none is
// taken for a theft: the fresh hash is valid after all of them were presented.
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
		if err := m.pages.verify(m.pair(hash)); personal.CodeOf(err) != personal.CodeUnauthenticated {
			t.Fatalf("a hash from before the password change: %v", err)
		}
	}
	m.client(t, true, presentation{hash: m.held})
}

func (m *rotationMachine) signIn(t *rapid.T) {
	in, err := m.service.Authorize(context.Background(), personal.AuthorizeRequest{Login: m.login, Password: goodPassword})
	if err != nil {
		t.Fatalf("signing in: %v", err)
	}
	m.begin(in.Credentials.UserHash)
}

// steal lets the thief, who begins with the current hash, refresh repeatedly with
// the given pause.
func (m *rotationMachine) steal(t *rapid.T, steps int, pause time.Duration) {
	m.honest = false
	if m.stolen == "" {
		m.stolen = m.model.current()
	}
	for range steps {
		m.clock.Advance(pause)
		for _, s := range m.call(t, presentation{hash: m.stolen, refresh: true}) {
			if !s.ok {
				m.stolen = ""
				return
			}
			m.stolen = s.response
		}
	}
}

// check is run after each action: no page may be served for a hash that the service
// would refuse, and a look at each hash changes nothing and accepts none such.
func (m *rotationMachine) check(t *rapid.T) {
	now := m.clock.Now()
	for _, hash := range m.model.hashes {
		accepted, err := m.service.Accepts(t.Context(), m.pair(hash), m.settings)
		if err != nil || accepted && !m.model.unsure(now) && !m.model.unsureOf(hash, now) && m.model.stateOf(hash, now) > repeated {
			t.Fatalf("got hash %s accepted (error %v), want state %d", hash, err, m.model.stateOf(hash, now))
		}
		if now.Before(m.pages.until[hash]) && !m.model.unsure(now) && !m.model.unsureOf(hash, now) && m.model.stateOf(hash, now) > repeated {
			t.Fatalf("got hash %s remembered, want state %d", hash, m.model.stateOf(hash, now))
		}
	}
}

func (m *rotationMachine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"":                 m.check,
		"client refreshes": func(t *rapid.T) { m.client(t, true, presentation{hash: m.held, refresh: true}) },
		"client refreshes, the response is lost": func(t *rapid.T) {
			m.client(t, false, presentation{hash: m.held, refresh: true})
		},
		"client refreshes in three tabs at once": func(t *rapid.T) {
			m.client(t, true, slices.Repeat([]presentation{{hash: m.held, refresh: true}}, 3)...)
		},
		"client refreshes, and a request overtakes it": func(t *rapid.T) {
			m.client(t, true, presentation{hash: m.held, refresh: true}, presentation{hash: m.held})
		},
		"client uses its hash": func(t *rapid.T) { m.client(t, true, presentation{hash: m.held}) },
		"client views pages": func(t *rapid.T) {
			for range 3 {
				m.client(t, true, presentation{hash: m.held, page: true})
				m.clock.Advance(rapid.SampledFrom([]time.Duration{0, time.Second, 13 * time.Second}).Draw(t, "pause"))
			}
		},
		"client views pages, and comes back just in time": func(t *rapid.T) {
			for range rapid.IntRange(3, 5).Draw(t, "pages") {
				m.clock.Advance(29 * time.Second)
				m.client(t, true, presentation{hash: m.held, page: true})
			}
			m.clock.Advance(m.settings.SessionIdle - 10*time.Second)
			m.client(t, true, presentation{hash: m.held, page: true})
		},
		"client views pages while it refreshes": func(t *rapid.T) {
			m.client(t, true, presentation{hash: m.held, refresh: true}, presentation{hash: m.held, page: true},
				presentation{hash: m.held, page: true})
		},
		"thief presents any hash": func(t *rapid.T) {
			m.honest = false
			m.call(t, m.anyPresentation(t))
		},
		"thief and client at once": func(t *rapid.T) {
			m.honest = false
			m.client(t, true, presentation{hash: m.held, refresh: true}, m.anyPresentation(t), m.anyPresentation(t))
		},
		"thief refreshes fast": func(t *rapid.T) {
			m.steal(t, rapid.SampledFrom([]int{1, 1, 1, 1, 1, 70, 70, 300}).Draw(t, "steps"), 40*time.Millisecond)
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

// An honest client is never signed out, however many responses it loses, and every
// theft that the rules name is detected, although a host that remembers profiles
// hides most of the client's and the thief's pages from the service. A third of the runs is
// on PostgreSQL, the others are on SQLite.
func TestRotation_MatchesTheModel(t *testing.T) {
	t.Parallel()
	var pages []*pageHost
	for _, url := range []string{testdb.SQLite(t), testdb.Postgres(t)} {
		pages = append(pages, &pageHost{fixture: newFixture(t, url)})
	}
	number := 0
	rapid.Check(t, func(t *rapid.T) {
		host := pages[rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "database")]
		number++
		host.forget()
		m := &rotationMachine{fixture: host.fixture, pages: host, login: fmt.Sprintf("client%d", number)}
		in := m.register(t, m.login)
		m.userID = in.Credentials.UserID
		m.begin(in.Credentials.UserHash)
		t.Repeat(m.actions())
	})
	if sqlite, postgres := pages[0].hits, pages[1].hits; min(sqlite, postgres) < 10 || sqlite+postgres < 50 {
		t.Errorf("got %d remembered pages on SQLite and %d on PostgreSQL, want many: some 100 and 50", sqlite, postgres)
	}
}
