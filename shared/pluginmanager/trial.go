package pluginmanager

import (
	"context"
	"time"

	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// trial is the time after a switch in which the new process has to prove itself.
// The methods that return channels may be called on none.
type trial struct {
	swap    *swap
	from    string   // the version before
	served  bool     // it served, or was about to
	old     *process // kept warm; nil if it was lost
	began   time.Time
	drained <-chan struct{} // closed when the old process's last call has left; nil once that was noted
	hung    <-chan struct{} // closed when the old process is proved to hang
	unwatch context.CancelFunc
	end     *time.Timer
}

// close ends what goes on beside a trial that is over.
func (b *trial) close() {
	b.end.Stop()
	b.unwatch()
}

func (b *trial) oldLost() <-chan struct{} {
	if b == nil || b.old == nil {
		return nil
	}
	return b.old.child.exited
}

func (b *trial) oldHung() <-chan struct{} {
	if b == nil || b.old == nil {
		return nil
	}
	return b.hung
}

func (b *trial) oldDrained() <-chan struct{} {
	if b == nil {
		return nil
	}
	return b.drained
}

func (b *trial) over() <-chan time.Time {
	if b == nil {
		return nil
	}
	return b.end.C
}

// conclude settles when the time of trial is over, unless the last health check
// went badly: then it goes on. A version that was removed meanwhile gives way:
// there would be nothing to start after a crash.
func (t *tenure) conclude() {
	if t.ailing > 0 {
		t.trial.end.Reset(t.config.HealthInterval)
		return
	}
	err := t.settle()
	if err == nil {
		return
	}
	t.config.Log.Error("settling the plugin's version", "error", err)
	if isCatalogueFault(err) {
		t.giveWay(err)
	}
	if t.trial != nil {
		t.trial.end.Reset(t.config.HealthInterval)
	}
}

// settle ends the trial, if there is one, for the new version, which becomes the
// active one on disk, and retires the old process.
func (t *tenure) settle() error {
	b := t.trial
	if b == nil {
		return nil
	}
	if err := t.save(b); err != nil {
		return err
	}
	t.mu.Lock()
	if t.work.Err() == nil {
		t.set(StateServing, t.active)
	}
	b.swap.begin("retire")
	t.mu.Unlock()
	t.note(t.recordOf(EventSwapCompleted))
	b.close()
	t.trial = nil
	t.disposal.Go(func() { t.retireOld(b.swap, b.old) })
	return nil
}

// save remembers on disk which version to start with. A version that did not
// serve, and one that was rolled back, is none to go back to.
func (t *tenure) save(b *trial) error {
	state, err := t.config.Catalogue.LoadState()
	if err != nil {
		return err
	}
	if _, err := t.find(t.active.version); err != nil {
		return err
	}
	next := plugincatalogue.State{Active: t.active.version, LastGood: state.LastGood}
	switch {
	case state.Active == t.active.version: // all stays
	case b.swap.back, !b.served && state.LastGood == t.active.version:
		next.LastGood = ""
	case b.served:
		next.LastGood = state.Active
	}
	return t.config.Catalogue.SaveState(next)
}

// mark notes on disk which version is on trial, so that nobody removes it; empty
// for none. A host that dies leaves the mark to the next one.
func (m *Manager) mark(version string) error {
	state, err := m.config.Catalogue.LoadState()
	if err != nil || state.Trial == version {
		return err
	}
	state.Trial = version
	return m.config.Catalogue.SaveState(state)
}

// unmark takes the mark away.
func (m *Manager) unmark() {
	if err := m.mark(""); err != nil {
		m.config.Log.Error("noting that no plugin is on trial", "error", err)
	}
}

// retireOld ends the old process, if there is one, and with it the swap.
func (m *Manager) retireOld(s *swap, old *process) {
	if old != nil {
		m.retire(old)
	}
	m.sweep()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finish(s)
	if m.previous == old {
		m.previous = nil
	}
}

// closeTrial ends the trial of a process that was lost with no old one to go back to.
func (t *tenure) closeTrial(b *trial) {
	b.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish(b.swap)
	t.trial = nil
}

// recordOf returns a record about the version on trial.
func (t *tenure) recordOf(k EventType) Event {
	r := k.of(t.active)
	r.From = t.trial.from
	return r
}

func rollbackFrom(failed *process, to string, cause error) Event {
	return Event{Type: EventRolledBack, Version: to, From: failed.version, Reason: cause.Error()}
}
