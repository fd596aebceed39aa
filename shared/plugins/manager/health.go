package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	tallyWindow = 40 // the last calls that are counted
	tallyMin    = 20 // fewer calls say nothing
	tallyShare  = 2  // more than 1/tallyShare of them must fail
	minOverload = 20 // calls under way below which no load excuses a process
)

var (
	errHung      = errors.New("the plugin process does not respond to health checks")
	errUnhealthy = errors.New("the plugin is not healthy")
	errFailing   = errors.New("more than half of the last calls failed")
	errRefusing  = fmt.Errorf("it refused the sessions of %d users whom the version before accepts", maxRefused)
)

// examine checks the health of the live process. One that hangs is replaced, and
// one that bakes and stays unhealthy is rolled back; overload excuses both. One that says
// that it will not become healthy is replaced, too: the version that starts in its place
// passes its preflight, or is refused for a reason that the status tells.
func (s *supervisor) examine() {
	p := s.live
	if p == nil {
		return
	}
	s.compareFigures()
	hung, err := s.hung(s.work, p)
	switch {
	case err == nil:
		s.unhealthy = 0
	case isPermanent(err):
		s.quiesce(s.live) // a mail under way would be sent again
		s.handleLoss(err)
		return
	case s.overloaded(p):
		s.unhealthy = 0
		p.Log().Warn("plugin is overloaded, the failed health check does not count")
	case hung:
		s.handleLoss(errHung)
		return
	default:
		if s.unhealthy++; s.unhealthy >= healthFailures {
			s.rollBackIfBetter(errUnhealthy)
		}
	}
	if !s.activated && s.live != nil && !s.live.IsLost() {
		s.activated = s.activate(s.live)
	}
}

// checkCalls rolls back if too many calls to the baking version fail, or it refuses users whom
// the old one accepts. If there is nothing better, it starts to count again.
func (s *supervisor) checkCalls() {
	if s.live == nil {
		return
	}
	s.mu.Lock()
	tooMany, refusing := s.live.tally.tooMany(), len(s.live.refused) >= maxRefused
	s.live.tally, s.live.refused = tally{}, nil
	s.mu.Unlock()
	switch {
	case refusing:
		s.rollBackIfBetter(errRefusing)
	case tooMany:
		s.rollBackIfBetter(errFailing)
	}
}

// checkHealth asks a process for its health, within limits.HealthTimeout.
func (m *Manager) checkHealth(ctx context.Context, p *instance) error {
	ctx, cancel := context.WithTimeout(ctx, m.limits.HealthTimeout)
	defer cancel()
	warnings, err := p.Health(ctx)
	if err == nil {
		p.warnings.Store(&warnings)
	}
	p.silent.Store(errors.Is(err, context.DeadlineExceeded))
	return err
}

// responds reports whether a process that is checked regularly responds. It does
// not ask one again that left the last check unanswered.
func (m *Manager) responds(p *instance) bool {
	if p.silent.Load() {
		return false
	}
	_ = m.checkHealth(m.work, p) // unhealthy is a response
	return !p.silent.Load() && !p.IsLost()
}

// hung reports whether the process leaves healthFailures health checks in a
// row unanswered, and if not, why it is not healthy. An unhealthy response is a
// response: an unavailable database does not justify killing a process. With Config.Debug
// every process counts as healthy: a debugger may have paused it.
func (m *Manager) hung(ctx context.Context, p *instance) (hung bool, unhealthy error) {
	if m.config.Debug {
		return false, nil
	}
	for range healthFailures {
		err := m.checkHealth(ctx, p)
		if err == nil || ctx.Err() != nil || p.IsLost() {
			return false, err
		}
		p.Log().Warn("plugin is not healthy", "error", err)
		if !errors.Is(err, context.DeadlineExceeded) {
			return false, err
		}
	}
	return true, errHung
}

// killIfHung checks a process that gets no calls any more, and kills it if it
// hangs, until ctx ends.
func (m *Manager) killIfHung(ctx context.Context, p *instance) {
	tick := time.NewTicker(m.limits.HealthInterval)
	defer tick.Stop()
	for {
		if hung, _ := m.hung(ctx, p); hung && m.killUnlessLive(ctx, p) {
			p.Log().Error("plugin process is killed with the calls under way in it", "error", errHung)
			return
		}
		select {
		case <-tick.C:
		case <-p.Lost():
			return
		case <-ctx.Done():
			return
		}
	}
}

// killUnlessLive kills a process that hangs and reports whether it did: not after ctx
// has ended, nor if a rollback has returned the calls to the process since.
func (m *Manager) killUnlessLive(ctx context.Context, p *instance) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil || p == m.live && m.state != StateDraining {
		return false
	}
	p.hung.Store(true)
	p.Kill()
	return true
}

// lossCause returns why the process was lost, or must be killed.
func (p *instance) lossCause(ctx context.Context) error {
	if p.hung.Load() || !p.IsLost() {
		return errHung
	}
	return p.LossCause(ctx)
}

// overloaded reports whether the process has recently, within twice
// limits.HealthTimeout, served a call, but late: after half of limits.HealthTimeout
// or more, with at least minOverload calls under way. Then the load is the reason for
// a failed health check and for a call without a response: both queue for the same
// database connections and processors as the late calls. The old process is no
// measure of that, because it gets no calls. A process that serves no call, or serves
// calls without delay, is not overloaded: its failures are its version's.
func (m *Manager) overloaded(p *instance) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(p.overload) <= 2*m.limits.HealthTimeout
}

// tally counts which of the last calls to a process failed. The zero tally is
// empty.
type tally struct {
	failed   [tallyWindow]bool
	calls    int // since the tally was emptied
	failures int // within the window
}

func (t *tally) count(failed bool) {
	i := t.calls % tallyWindow
	if t.calls >= tallyWindow && t.failed[i] {
		t.failures--
	}
	t.failed[i] = failed
	if failed {
		t.failures++
	}
	t.calls++
}

// tooMany reports whether more than half of the last calls failed.
func (t *tally) tooMany() bool {
	n := min(t.calls, tallyWindow)
	return n >= tallyMin && tallyShare*t.failures > n
}

// isServed reports whether the process did what a call asked for, or refused it with
// a reason. An outage or an internal error is neither.
func isServed(err error) bool {
	switch s := status.Convert(err); s.Code() {
	case codes.OK:
		return true
	case codes.Unavailable, codes.Internal, codes.Unknown, codes.DataLoss:
		return false
	default:
		return len(s.Details()) > 0
	}
}

// isVersionFailure reports whether the process is to blame for the error of a call:
// an internal error, no connection, or no response in a time that was long for its
// load. It is not if it reports overload, if the deadline was too short, or if the
// caller hung up within limits.HangTimeout.
func (m *Manager) isVersionFailure(ctx context.Context, p *instance, err error, took time.Duration) bool {
	if err == nil {
		return false
	}
	s := status.Convert(err)
	if s.Code() == codes.DeadlineExceeded {
		return took >= m.limits.HealthTimeout && !m.overloaded(p)
	}
	if ctx.Err() != nil {
		return took >= m.limits.HangTimeout && !m.overloaded(p)
	}
	switch s.Code() {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return true
	case codes.Unavailable, codes.Canceled:
		return len(s.Details()) == 0 // from the transport, not from the plugin
	}
	return false
}
