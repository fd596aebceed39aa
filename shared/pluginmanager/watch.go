package pluginmanager

import (
	"context"
	"errors"
	"time"
)

var (
	errHung  = errors.New("the plugin process answers no health checks")
	errLost  = errors.New("the connection to the plugin process was lost")
	errEnded = errors.New("the plugin process ended")
	// Somebody did it, or the kernel for want of memory.
	errKilled = errors.New("the plugin process was killed from outside")
)

// activate starts background work. A failure does not keep requests from being
// answered, and is tried again.
func (m *Manager) activate(p *process) bool {
	ctx, cancel := context.WithTimeout(m.work, m.config.ActivateTimeout)
	defer cancel()
	err := p.conn.Activate(ctx)
	if err != nil && m.work.Err() == nil {
		p.log.Error("starting the plugin's background work", "error", err)
	}
	return err == nil
}

// hung reports whether the process leaves every one of Config.HealthFailures
// health checks in a row unanswered, and if not, whether it is healthy. An answer
// is an answer: that its database is away is no reason to kill a process. When
// ctx ends first, it is neither.
func (m *Manager) hung(ctx context.Context, p *process) (healthy, hung bool) {
	for range m.config.HealthFailures {
		err := m.checkHealth(ctx, p)
		if err == nil {
			return true, false
		}
		if ctx.Err() != nil || p.lost() {
			return false, false
		}
		p.log.Warn("plugin is not healthy", "error", err)
		if !errors.Is(err, context.DeadlineExceeded) {
			return false, false
		}
	}
	return false, true
}

// overloaded reports whether the process has lately, within twice Config.HealthTimeout,
// answered a call, but late: after half of Config.HealthTimeout or more, with at least
// minOverload calls under way. A health check that fails then, and a call that
// gets no answer in time, is the load's fault: both queue for the same database
// connections and processors as the calls that are late. The old process is no
// measure of that, because it gets no calls. A process that answers no call, or
// answers without delay, is not overloaded: what it fails is its version's fault.
func (m *Manager) overloaded(p *process) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(p.overload) <= 2*m.config.HealthTimeout
}

// whenHung returns a channel that is closed when p is proved to hang. It is for
// processes that get no calls any more, and looks after them until ctx ends.
func (m *Manager) whenHung(ctx context.Context, p *process) <-chan struct{} {
	proved := make(chan struct{})
	m.disposal.Go(func() {
		tick := time.NewTicker(m.config.HealthInterval)
		defer tick.Stop()
		for {
			if _, hung := m.hung(ctx, p); hung {
				close(proved)
				return
			}
			select {
			case <-tick.C:
			case <-p.child.exited:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return proved
}

// checkHealth asks a process for its health, within Config.HealthTimeout.
func (m *Manager) checkHealth(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, m.config.HealthTimeout)
	defer cancel()
	err := p.conn.Health(ctx)
	p.silent.Store(errors.Is(err, context.DeadlineExceeded))
	return err
}

// answers reports whether a process that has been looked after answers: one that
// left the last check unanswered is not waited for once more.
func (m *Manager) answers(p *process) bool {
	if p.silent.Load() {
		return false
	}
	_ = m.checkHealth(m.work, p) // that it is not healthy is an answer
	return !p.silent.Load() && !p.lost()
}
