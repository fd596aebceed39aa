package pluginmanager

import (
	"fmt"
	"time"
)

// tenure is the time in which processes serve, one after the other where they
// are swapped, without a gap. It is the owner's alone.
type tenure struct {
	*Manager
	active    *process // the live one
	activated bool     // its background work has begun
	ailing    int      // health checks in a row that it answered badly
	trial     *trial   // nil unless it is on trial
	tick      *time.Ticker
}

// serve lets a process serve, and those that take its place, until the last one
// is lost. It returns that one and the cause, and no process if the manager
// stopped or if the loss is not the active version's.
func (m *Manager) serve(a arrival) (*process, error) {
	t := &tenure{Manager: m, active: a.process, tick: time.NewTicker(m.config.HealthInterval)}
	defer t.tick.Stop()
	t.begin(a.order)
	for {
		cause := t.await()
		back := cause != nil && t.switchBack(cause, true)
		if m.work.Err() != nil {
			t.stop()
			return nil, nil
		}
		if cause == nil || back {
			continue
		}
		trial := t.trial
		t.abandon(cause)
		if trial != nil {
			t.discard(t.active)
			return nil, nil
		}
		return t.active, cause
	}
}

// begin sends calls to the first process.
func (t *tenure) begin(o *order) {
	if o != nil {
		t.beginSwapped(o)
		return
	}
	if t.switchIn(t.active) {
		t.activated = t.activate(t.active)
	}
}

// await waits for the next event and deals with it. It returns why the live
// process cannot go on living, if so.
func (t *tenure) await() error {
	p := t.active
	select {
	case <-t.work.Done():
	case <-p.child.exited: // by itself, or by others: we kill only what was given up
		if p.child.wasKilled() {
			return errKilled
		}
		return fmt.Errorf("%w: %s", errEnded, p.child.outcome())
	case <-p.broken:
		if !p.child.awaitExited(t.work, deathNotice) {
			return errLost
		}
	case <-t.tick.C:
		return t.examine()
	case <-t.errs:
		t.judgeCalls()
	case <-t.trial.oldLost():
		t.loseOld(fmt.Errorf("%w: %s", errEnded, t.trial.old.child.outcome()))
	case <-t.trial.oldHung():
		t.loseOld(errHung)
	case <-t.trial.oldDrained():
		t.noteDrained()
	case <-t.trial.over():
		t.conclude()
	case o := <-t.orders:
		t.obey(o)
	}
	return nil
}

// examine is the regular look after the live process.
func (t *tenure) examine() error {
	healthy, hung := t.hung(t.work, t.active)
	switch {
	case healthy:
		t.ailing = 0
	case t.overloaded(t.active):
		t.ailing = 0
		t.active.log.Warn("plugin is overloaded, the failed health check does not count")
	case hung:
		return errHung
	default:
		if t.ailing++; t.ailing >= t.config.HealthFailures {
			t.giveWay(errUnhealthy)
		}
	}
	if !t.activated && !t.active.lost() {
		t.activated = t.activate(t.active)
	}
	return nil
}

// obey carries out an order.
func (t *tenure) obey(o *order) {
	switch o.kind {
	case orderSettle:
		o.done <- t.settle()
	case orderSwitchBack:
		if !t.switchBack(errAsked, false) {
			o.done <- errNotWarm
			return
		}
		o.done <- nil
	case orderSwitch:
		o.done <- t.switchTo(o)
	}
}

// stop retires what is there, at once.
func (t *tenure) stop() {
	if b := t.trial; b != nil {
		b.close()
		t.unmark()
		t.disposal.Go(func() { t.retireOld(b.swap, b.old) })
	}
	t.retire(t.active)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(t.state, nil)
}

// abandon gives up the live process, which was lost with none to take its place.
func (t *tenure) abandon(cause error) {
	t.note(lossOf(t.active, cause))
	if b := t.trial; b != nil {
		t.note(rollbackFrom(t.active, b.from, cause))
		if b.old != nil { // as dead
			t.dispose(b.old)
		}
		t.closeTrial(b)
		t.unmark()
	}
	t.switchOut(t.active, cause)
}

// switchIn sends calls to a process that a start or a restart brought. It
// reports false if Stop was first.
func (m *Manager) switchIn(p *process) bool {
	m.mu.Lock()
	p.ready = time.Now()
	if m.work.Err() != nil {
		m.mu.Unlock()
		return false
	}
	restarted := m.begun
	if m.begun = true; restarted {
		m.restarts++
	}
	m.final = false
	m.set(StateServing, p)
	m.mu.Unlock()
	p.log.Info("plugin serves")
	if restarted {
		m.note(EventRestarted.of(p))
	}
	return true
}

// switchOut sends no more calls to p, which has died or has to, and disposes of
// it. A process that is started next never meets it alive.
func (m *Manager) switchOut(p *process, cause error) {
	p.child.kill()
	m.mu.Lock()
	if m.work.Err() == nil {
		m.fault = cause
		m.set(StateRestarting, nil)
	}
	m.mu.Unlock()
	p.log.Error("plugin process lost", "error", cause)
	p.child.awaitExited(m.hard, killTime)
	m.dispose(p)
}

// dispose frees what belonged to a dead process, besides the owner.
func (m *Manager) dispose(p *process) {
	m.disposal.Go(func() { p.end(m.hard, m.config.ShutdownTimeout) })
}

// discard is dispose for a process whose version is not the next to start: its
// copy goes too.
func (m *Manager) discard(p *process) {
	m.disposal.Go(func() {
		p.end(m.hard, m.config.ShutdownTimeout)
		m.sweep()
	})
}

func lossOf(p *process, cause error) Event {
	r := EventProcessLost.of(p)
	r.Reason = cause.Error()
	return r
}
