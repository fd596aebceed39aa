package system

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
)

// parallel makes n calls at once and returns the answers.
func (s *system) parallel(t testing.TB, n int, of func(i int) call) []*answer {
	t.Helper()
	answers, errs := make([]*answer, n), make([]error, n)
	begin := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-begin
			answers[i], errs[i] = s.exchange(of(i))
		})
	}
	close(begin)
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return answers
}

// codes counts answers by CODE, "" for success.
func codes(answers []*answer) map[string]int {
	count := map[string]int{}
	for _, a := range answers {
		count[a.Result.Code]++
	}
	return count
}

func testRaces(t *testing.T, s *system) {
	t.Run("32 refreshes at once have one successor", func(t *testing.T) {
		u := s.newUser(t)
		successors := map[pair]int{}
		for _, a := range s.parallel(t, 32, func(int) call {
			return call{method: http.MethodGet, path: "auth_refresh/", as: u.pair}
		}) {
			successors[a.pair(t)]++
		}
		if len(successors) != 1 {
			t.Errorf("there are %d successors", len(successors))
		}
		s.wantAlive(t, "the earlier hash within its grace", u.pair)
		for successor := range successors {
			s.wantAlive(t, "the successor", successor)
		}
	})
	t.Run("8 tabs that refresh all the time are never logged out", func(t *testing.T) {
		u := s.newUser(t)
		var newest atomic.Pointer[pair] // what the browser keeps
		newest.Store(&u.pair)
		errs := make([]error, 8)
		var tabs sync.WaitGroup
		for tab := range errs {
			tabs.Go(func() {
				for range 10 {
					a, err := s.exchange(call{method: http.MethodGet, path: "auth_refresh/", as: *newest.Load()})
					if err != nil || a.Success != 1 {
						errs[tab] = cmp.Or(err, fmt.Errorf("a tab is answered %+v", a))
						return
					}
					next := a.pair(t)
					newest.Store(&next)
				}
			})
		}
		tabs.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		s.wantAlive(t, "the session", *newest.Load())
	})
	races := []struct {
		name   string
		change func(i int) params
		fault  string
	}{
		{"32 registrations of one login have one winner", func() func(int) params {
			login := unique()
			return func(int) params { return params{"login": login} }
		}(), "login"},
		{"32 registrations of one address have one winner", func() func(int) params {
			address := unique() + "@mail.example"
			return func(int) params { return params{"email": address} }
		}(), "email"},
	}
	for _, race := range races {
		t.Run(race.name, func(t *testing.T) {
			answers := s.parallel(t, 32, func(i int) call { return call{path: "register/", params: applicant(race.change(i))} })
			if count := codes(answers); count[""] != 1 || count["already_exists"] != 31 {
				t.Fatalf("answers by CODE: %v", count)
			}
			for _, a := range answers {
				if a.Success == 0 {
					a.wantFaults(t, "already_exists", faults{race.fault: "taken"})
				}
			}
		})
	}
	t.Run("one mailed token, shown 16 times at once, works once", func(t *testing.T) {
		u := s.newUser(t)
		s.post(t, "recover/", params{"login": u.login}).want(t, "")
		token := s.mailTo(t, u.email).token(t)
		answers := s.parallel(t, 16, func(i int) call {
			return call{path: "recover_confirm/", params: confirm(token, fmt.Sprintf("racing horse %d", i))}
		})
		if count := codes(answers); count[""] != 1 || count["invalid_token"] != 15 {
			t.Errorf("answers by CODE: %v", count)
		}
	})
	t.Run("sign-ins under way while the password changes leave no session behind", func(t *testing.T) {
		u := s.newUser(t)
		answers := s.parallel(t, 16, func(i int) call {
			if i == 8 {
				return call{path: "password/", as: u.pair, params: params{"old_password": u.password, "password": recovered, "confirm_password": recovered}}
			}
			return call{path: "auth/", params: params{"login": u.login, "password": u.password}}
		})
		for i, a := range answers {
			if i != 8 && a.Success == 1 {
				s.wantDead(t, "a session from the old password", a.pair(t))
			}
		}
		s.wantAlive(t, "the session that changed the password", answers[8].pair(t))
	})
}
