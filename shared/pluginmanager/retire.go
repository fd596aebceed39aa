package pluginmanager

import (
	"context"
	"errors"
	"time"
)

// callbackPoll is the time between looks at the count of callbacks.
const callbackPoll = 10 * time.Millisecond

// retire ends a process in good order: calls under way, background work, what
// that still asks of the host, the process itself. No call can enter it any more.
func (m *Manager) retire(p *process) {
	m.drain(p)
	if !m.quiesce(p) && p.conn.Callbacks() == 0 { // nobody is there to be asked, and nothing to wait for
		p.child.kill()
	}
	p.end(m.hard, m.config.ShutdownTimeout)
}

// drain waits until no call is under way in p. A process that hangs is killed, so
// that its calls end at once.
func (m *Manager) drain(p *process) {
	ctx, cancel := context.WithTimeout(m.hard, m.config.DrainTimeout)
	defer cancel()
	select {
	case <-m.whenIdle(p):
	case <-p.child.exited:
	case <-m.whenHung(ctx, p):
		p.log.Error("plugin process is killed with the calls under way in it", "error", errHung)
		p.child.kill()
	case <-ctx.Done():
		p.log.Warn("calls are still under way in the plugin, they are cut off")
	}
}

// quiesce stops background work and waits for its callbacks: before it stops,
// they need not come to an end. It reports false if there was no answer in time: on
// a machine that is busy that is no proof of anything.
func (m *Manager) quiesce(p *process) bool {
	ctx, cancel := context.WithTimeout(m.hard, m.config.QuiesceTimeout)
	defer cancel()
	err := p.conn.Quiesce(ctx)
	if err != nil {
		p.log.Warn("stopping the plugin's background work", "error", err)
	}
	for p.conn.Callbacks() > 0 {
		select {
		case <-time.After(callbackPoll):
		case <-p.child.exited:
			return true
		case <-ctx.Done():
			return false
		}
	}
	return !errors.Is(err, context.DeadlineExceeded)
}

// whenIdle returns a channel that is closed when the last call has left p. None
// may enter any more.
func (m *Manager) whenIdle(p *process) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p.idle == nil {
		p.idle = make(chan struct{})
		if p.calls == 0 {
			close(p.idle)
		}
	}
	return p.idle
}
