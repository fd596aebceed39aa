package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// load are visitors who call the API all the time, each with a session of his
// own whose pair is exchanged by every call.
type load struct {
	stop  chan struct{}
	ended sync.WaitGroup

	mu     sync.Mutex
	served int
	failed int
	first  error // that a call failed with
}

// startLoad begins with so many visitors. They end with the test.
func (s *site) startLoad(t *testing.T, visitors int) *load {
	t.Helper()
	s.register(t, "load")
	l := &load{stop: make(chan struct{})}
	t.Cleanup(func() { close(l.stop); l.ended.Wait() })
	for range visitors {
		status, pair, err := s.api("auth", map[string]any{"login": "load", "password": password})
		if err != nil || status != http.StatusOK {
			t.Fatalf("signing in: %d %v", status, err)
		}
		l.ended.Go(func() { l.visit(s, pair) })
	}
	return l
}

// visit calls as often as leaves the browser some of the machine.
func (l *load) visit(s *site, pair map[string]any) {
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for {
		status, next, err := s.api("auth_refresh", map[string]any{}, "User-Id", fmt.Sprint(pair["user_id"]), "User-Hash", fmt.Sprint(pair["user_hash"]))
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("auth_refresh: status %d", status)
		}
		l.note(err)
		if err == nil {
			pair = next
		}
		select {
		case <-pace.C:
		case <-l.stop:
			return
		}
	}
}

func (l *load) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.served++
		return
	}
	l.failed++
	l.first = cmp.Or(l.first, err)
}

// wantNoneFailed checks that every call so far was answered as it should.
func (l *load) wantNoneFailed(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed > 0 || l.served == 0 {
		t.Errorf("%d calls failed, %d were served: %v", l.failed, l.served, l.first)
	}
}
