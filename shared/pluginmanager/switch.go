package pluginmanager

import (
	"context"
	"errors"
	"time"
)

// activeNotice is how long the news of a process's end may take that failed to
// begin its background work: what comes later is a crash on trial.
const activeNotice = time.Second

// switchTo sends calls to a new process from now on and hands background work
// over. Calls under way stay where they are.
func (t *tenure) switchTo(o *order) error {
	p, old := o.process, t.active
	if p.lost() {
		return errLate
	}
	if t.work.Err() != nil {
		return ErrStopped
	}
	if err := t.mark(p.version); err != nil {
		return err
	}
	if b := t.trial; b != nil { // a rollback leaves it unsettled; no process is warm
		if b.old != nil {
			t.dispose(b.old)
		}
		t.closeTrial(b)
	}
	t.trial = t.newTrial(o.swap, old.version, true)
	t.trial.old = old
	t.present(p, old, o.swap)
	t.trial.drained = t.whenIdle(old)
	t.quiesce(old)
	var watch context.Context
	watch, t.trial.unwatch = context.WithCancel(t.work)
	t.trial.hung = t.whenHung(watch, old)
	t.active, t.ailing = p, 0
	t.activated = t.activate(p)
	if !t.activated {
		p.awaitLost(t.work, activeNotice) // that may be why
	}
	if p.lost() {
		cause := errors.New("the new process was lost as it began to work")
		t.switchBack(cause, true)
		return &StepError{"workers", p.version, cause}
	}
	t.note(t.recordOf(EventSwitched))
	t.openTrial(o.swap)
	return nil
}

// beginSwapped lets a process serve that a swap brought while none served.
// There is nothing to go back to at once, and so nothing is tried.
func (t *tenure) beginSwapped(o *order) {
	t.mu.Lock()
	served := t.state != StateFailed
	t.mu.Unlock()
	t.trial = t.newTrial(o.swap, t.activeVersion(), served)
	t.present(o.process, nil, o.swap)
	t.activated = t.activate(o.process)
	t.note(t.recordOf(EventSwitched))
	t.openTrial(o.swap)
	t.conclude()
	o.done <- nil
}

func (t *tenure) newTrial(s *swap, from string, served bool) *trial {
	return &trial{
		swap: s, from: from, served: served, began: time.Now(),
		unwatch: func() {}, end: time.NewTimer(max(0, t.config.Bake)),
	}
}

// present makes p the live process, in one moment.
func (m *Manager) present(p, old *process, s *swap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.ready = time.Now()
	m.begun, m.final = true, false
	m.previous = old
	s.begin("workers")
	if m.work.Err() != nil { // Stop was first
		m.live = p
		return
	}
	if m.config.Bake < 0 { // there is no trial to speak of
		m.set(StateServing, p)
	} else {
		m.set(StateBaking, p)
	}
	p.log.Info("plugin serves", "bake", max(0, m.config.Bake))
}

// openTrial lets others swap again.
func (m *Manager) openTrial(s *swap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.begin("bake")
	s.switched = true
}
