package manager

import (
	"context"
	"errors"
	"time"
)

// callbackPoll is the interval between looks at the count of callbacks.
const callbackPoll = 10 * time.Millisecond

// retireOld retires the process that a swap or a rollback replaced, if there is
// one, and so ends the swap.
func (m *Manager) retireOld(w *swap, old *instance) {
	if old != nil {
		m.retire(old)
	}
	m.finishSwap(w)
}

// finishSwap removes a swap from the status.
func (m *Manager) finishSwap(w *swap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending == w {
		m.pending = nil
	}
	if m.swap == w {
		m.swap = nil
	}
}

// retire stops a process that gets no calls any more: it waits for the calls under
// way, for background work and its callbacks, and then for the process, each with a
// deadline.
func (m *Manager) retire(p *instance) {
	m.drain(p)
	if !p.IsLost() && !m.quiesce(p) && p.Callbacks() == 0 { // it does not respond, and there is nothing to wait for
		p.Kill()
	}
	m.stop(p)
}

// stop asks a process to shut down and releases what belongs to it. A process that
// does not accept the request within limits.ShutdownTimeout is killed; one that does
// not end within the 2 s of go-plugin afterwards is killed, too.
func (m *Manager) stop(p *instance) {
	p.Stop(m.hard, m.limits.ShutdownTimeout)
	p.release()
	m.sweep()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.previous == p {
		m.previous = nil
	}
}

// drain waits until no call is under way in p. A process that hangs is killed, so
// that its calls end at once.
func (m *Manager) drain(p *instance) {
	ctx, cancel := context.WithTimeout(m.hard, m.limits.DrainTimeout)
	defer cancel()
	m.background.Go(func() { m.killIfHung(ctx, p) })
	select {
	case <-m.whenIdle(p):
	case <-p.Lost():
	case <-ctx.Done():
		p.Log().Warn("calls are still under way in the plugin, they are cancelled")
	}
}

// whenIdle returns a channel that is closed when the last call has left p, which no
// call can enter any more.
func (m *Manager) whenIdle(p *instance) <-chan struct{} {
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

// quiesce stops background work, and then waits until no callback is under way. It cuts callbacks that
// take long: a mail to a slow relay would be cut anyway, and the plugin could not store whether
// it has perhaps been sent. It
// reports false if there was no response in time, which on a busy machine proves
// nothing.
func (m *Manager) quiesce(p *instance) bool {
	ctx, cancel := context.WithTimeout(m.hard, m.limits.QuiesceTimeout)
	defer cancel()
	defer time.AfterFunc(m.limits.QuiesceTimeout/2, p.CutCallbacks).Stop()
	err := p.Quiesce(ctx)
	if err != nil {
		p.Log().Warn("stopping the plugin's background work", "error", err)
	}
	for p.Callbacks() > 0 {
		select {
		case <-time.After(callbackPoll):
		case <-p.Lost():
			return true
		case <-ctx.Done():
			return false
		}
	}
	return !errors.Is(err, context.DeadlineExceeded)
}
