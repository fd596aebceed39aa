package pluginmanager

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	errHung = errors.New("the plugin process answers no health checks")
	errLost = errors.New("the connection to the plugin process was lost")
)

// watch starts the background work of the live process and returns why it
// cannot go on living; nil when the manager stops.
func (m *Manager) watch(p *process) error {
	tick := time.NewTicker(m.config.HealthInterval)
	defer tick.Stop()
	activated := m.activate(p)
	for {
		select {
		case <-m.work.Done():
			return nil
		case <-p.child.exited:
			return fmt.Errorf("the plugin process ended: %s", p.child.outcome())
		case <-p.broken:
			if !p.child.awaitExited(m.work, deathNotice) {
				return errLost
			}
		case <-tick.C:
			if m.hung(p) {
				return errHung
			}
			if !activated {
				activated = m.activate(p)
			}
		}
	}
}

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
// health checks in a row unanswered. An answer is an answer: that its database
// is away is no reason to kill a process.
func (m *Manager) hung(p *process) bool {
	for range m.config.HealthFailures {
		err := m.checkHealth(m.work, p)
		if err == nil {
			return false
		}
		if m.work.Err() != nil || p.child.hasExited() {
			return false
		}
		p.log.Warn("plugin is not healthy", "error", err)
		if !errors.Is(err, context.DeadlineExceeded) {
			return false
		}
	}
	return true
}

// checkHealth asks a process for its health, within Config.HealthTimeout.
func (m *Manager) checkHealth(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, m.config.HealthTimeout)
	defer cancel()
	return p.conn.Health(ctx)
}
