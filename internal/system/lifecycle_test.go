package system

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// wantRefusal starts a host that must refuse to start, and checks for exit code 1 and
// a message that names the cause.
func wantRefusal(t *testing.T, o options, cause string) *system {
	t.Helper()
	s := launch(t, o)
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Fatalf("the host still runs after %v, want a refusal that names %q", patience, cause)
	}
	if s.exit != 1 || !strings.Contains(s.log.String(), cause) {
		t.Errorf("got exit code %d, want 1 and a message that names %q; the log:\n%s", s.exit, cause, s.log)
	}
	return s
}

func TestKill_PluginIsRestarted(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled})
		u := s.newUser(t)
		l := s.mixedLoad(t, u)
		for range 2 {
			before, served := s.plugin(t).Active, l.seen("")
			eventually(t, "calls are served", func() bool { return l.seen("") > served+20 })
			if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a new plugin process serves", func() bool {
				now := s.plugin(t).Active
				return now.PID != 0 && now.PID != before.PID && now.Generation > before.Generation && s.status("/readyz") == http.StatusOK
			})
			served = l.seen("")
			eventually(t, "calls are served again", func() bool { return l.seen("") > served+20 })
		}
		l.end(t)
		s.wantAlive(t, "a session from before", u.pair)
		if got := s.status("/healthz"); got != http.StatusOK {
			t.Errorf("/healthz: got %d, want 200", got)
		}
	})
}

func TestKill_HostTakesItsPluginWithIt(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled})
		u := s.newUser(t)
		pid := s.plugin(t).Active.PID
		if isGone(pid) {
			t.Fatal("the plugin has no process")
		}
		s.kill()
		eventually(t, "the plugin process ends with its host", func() bool { return isGone(pid) })
		again := start(t, options{database: database, settings: cheap + unthrottled, data: s.data})
		again.wantAlive(t, "a session from before the kill", u.pair)
		again.signIn(t, u)
	})
}

func TestKill_AcknowledgedRotationsSurvive(t *testing.T) {
	t.Parallel()
	const clients = 8
	testdb.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled})
		acknowledged := make([]pair, clients)
		for i := range acknowledged {
			acknowledged[i] = s.newUser(t).pair
		}
		var refreshes atomic.Int64
		var running sync.WaitGroup
		for i := range acknowledged {
			running.Go(func() {
				for {
					r, err := s.exchange(call{method: http.MethodGet, path: "auth_refresh/", as: acknowledged[i]})
					if err != nil || json.Unmarshal(r.Data["user_hash"], &acknowledged[i].Hash) != nil {
						return // killed
					}
					refreshes.Add(1)
				}
			})
		}
		eventually(t, "hashes are refreshed", func() bool { return refreshes.Load() > 20*clients })
		pid := s.plugin(t).Active.PID
		_ = s.process.Kill() // both still run
		_ = syscall.Kill(pid, syscall.SIGKILL)
		running.Wait()
		eventually(t, "the plugin process ends", func() bool { return isGone(pid) })
		again := start(t, options{database: database, settings: cheap + unthrottled, data: s.data})
		for _, p := range acknowledged {
			again.wantAlive(t, "the last acknowledged hash", p)
			again.refresh(t, p)
		}
	})
}

// startWithTwo starts a host and installs another version beside the active one.
func startWithTwo(t *testing.T) (s *system, newer string) {
	t.Helper()
	s = start(t, options{database: testdb.SQLite(t), settings: cheap + unthrottled})
	return s, s.installAnother(t)
}
