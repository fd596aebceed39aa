package system

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// isGone reports whether a process has ended. One that nobody has waited for yet
// has ended too.
func isGone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}

// load makes calls from several clients until it is stopped.
type load struct {
	stop    chan struct{}
	workers sync.WaitGroup

	mu      sync.Mutex
	answers map[string]int // by CODE
	errs    []error        // calls without an answer as the contract has it
}

func (s *system) load(calls ...call) *load {
	l := &load{stop: make(chan struct{}), answers: map[string]int{}}
	for _, c := range calls {
		l.workers.Go(func() {
			for {
				select {
				case <-l.stop:
					return
				default:
					l.count(s.exchange(c))
				}
			}
		})
	}
	return l
}

func (l *load) count(a *answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.errs = append(l.errs, err)
		return
	}
	l.answers[a.Result.Code]++
}

// seen returns how often a CODE was answered so far.
func (l *load) seen(code string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers[code]
}

// end stops the load and expects that every call was answered, with success or
// 503.
func (l *load) end(t testing.TB) {
	t.Helper()
	close(l.stop)
	l.workers.Wait()
	if len(l.errs) > 0 {
		t.Errorf("%d calls without a proper answer, the first: %v", len(l.errs), l.errs[0])
	}
	for code, n := range l.answers {
		if code != "" && code != "unavailable" {
			t.Errorf("%d answers are %s", n, code)
		}
	}
	t.Logf("answers by CODE: %v", l.answers)
}

// mixedLoad is what one user does, and another who signs in over and over: an
// account has a hundred sessions at most.
func (s *system) mixedLoad(t testing.TB, u user) *load {
	other := s.newUser(t)
	return s.load(
		call{method: http.MethodGet, path: "profile/", as: u.pair},
		call{path: "profile/", as: u.pair, params: params{"name": "Anna"}},
		call{path: "auth/", params: params{"login": other.login, "password": other.password}},
		call{path: "recover/", params: params{"login": u.login}},
	)
}

func TestPluginKilled(t *testing.T) {
	t.Parallel()
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled})
		u := s.newUser(t)
		l := s.mixedLoad(t, u)
		for range 2 {
			before, served := s.plugin(t).Active, l.seen("")
			eventually(t, "calls are served", func() bool { return l.seen("") > served+20 })
			if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a new plugin process", func() bool {
				now := s.plugin(t).Active
				return now.PID != 0 && now.PID != before.PID && now.Generation > before.Generation && s.status("/readyz") == http.StatusOK
			})
			served = l.seen("")
			eventually(t, "calls are served again", func() bool { return l.seen("") > served+20 })
		}
		l.end(t)
		s.wantAlive(t, "a session from before", u.pair)
		if s.status("/healthz") != http.StatusOK {
			t.Error("the host is not healthy")
		}
	})
}

func TestHostKilled(t *testing.T) {
	t.Parallel()
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled})
		u := s.newUser(t)
		pid := s.plugin(t).Active.PID
		if isGone(pid) {
			t.Fatal("the plugin has no process")
		}
		s.kill()
		eventually(t, "the plugin process ends with its host", func() bool { return isGone(pid) })
		again := start(t, options{database: database, settings: cheap + unthrottled, data: s.data})
		again.wantAlive(t, "a session from before the crash", u.pair)
		again.signIn(t, u)
	})
}

func TestHostStopsItsPlugin(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testkit.SQLite(t), settings: cheap})
	pid := s.plugin(t).Active.PID
	s.stop(t)
	if !isGone(pid) {
		t.Error("the host has stopped and its plugin has not")
	}
}
