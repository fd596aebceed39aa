package pluginmanager

import (
	"context"
	"errors"
)

var (
	errHung = errors.New("the plugin process answers no health checks")
	errLost = errors.New("the connection to the plugin process was lost")
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
// is an answer: that its database is away is no reason to kill a process.
func (m *Manager) hung(p *process) (healthy, hung bool) {
	for range m.config.HealthFailures {
		err := m.checkHealth(m.work, p)
		if err == nil {
			return true, false
		}
		if m.work.Err() != nil || p.child.hasExited() {
			return false, false
		}
		p.log.Warn("plugin is not healthy", "error", err)
		if !errors.Is(err, context.DeadlineExceeded) {
			return false, false
		}
	}
	return false, true
}

// checkHealth asks a process for its health, within Config.HealthTimeout.
func (m *Manager) checkHealth(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, m.config.HealthTimeout)
	defer cancel()
	return p.conn.Health(ctx)
}
