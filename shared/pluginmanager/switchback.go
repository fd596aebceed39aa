package pluginmanager

import (
	"errors"
	"fmt"
	"log/slog"
)

var (
	errAsked     = errors.New("asked for")
	errUnhealthy = errors.New("the plugin is not healthy")
	errFaulty    = errors.New("more than half of the last calls failed")
)

// giveWay switches back from a process that could go on, unless the old one
// cannot do better: a database that is away is no version's fault.
func (t *tenure) giveWay(cause error) {
	b := t.trial
	if b == nil || b.old == nil {
		return
	}
	if err := t.checkHealth(t.work, b.old); err != nil {
		t.active.log.Warn("plugin would give way, but the old one is no better", "error", cause, "old", err)
		return
	}
	t.switchBack(cause, false)
}

// judgeCalls gives way if too many calls fail. If it cannot, it starts counting
// afresh.
func (t *tenure) judgeCalls() {
	p := t.active
	t.mu.Lock()
	tooMany := p.tally.tooMany()
	p.tally = tally{}
	t.mu.Unlock()
	if tooMany {
		t.giveWay(errFaulty)
	}
}

// switchBack ends the trial against the new process: calls go to the old one
// again, and it takes its background work up. It reports false if the old one is
// not there, or answers nothing. A process that was lost is killed, another is
// retired.
func (t *tenure) switchBack(cause error, lost bool) bool {
	b, failed := t.trial, t.active
	if b == nil || b.old == nil || b.old.lost() {
		return false
	}
	if !t.answers(b.old) {
		t.loseOld(errHung)
		return false
	}
	if lost {
		failed.child.kill()
		t.note(lossOf(failed, cause))
	}
	t.mu.Lock()
	if t.work.Err() != nil {
		t.mu.Unlock()
		return false
	}
	b.old.idle = nil
	if !errors.Is(cause, errAsked) {
		t.fault = fmt.Errorf("plugin %s was rolled back: %w", failed.version, cause)
	}
	t.previous = failed
	t.set(StateServing, b.old)
	b.swap.begin("retire")
	t.mu.Unlock()

	b.close()
	t.unmark()
	t.active, t.trial, t.ailing = b.old, nil, 0
	level := slog.LevelError
	if errors.Is(cause, errAsked) {
		level = slog.LevelInfo
	}
	failed.log.Log(t.hard, level, "plugin rolled back", "version", b.old.version, "cause", cause)
	r := rollbackFrom(failed, b.old.version, cause)
	r.Generation, r.PID = b.old.generation, b.old.child.pid()
	t.note(r)
	if !lost {
		t.quiesce(failed)
	}
	t.activated = t.activate(b.old)
	t.disposal.Go(func() {
		if lost {
			failed.end(t.hard, t.config.ShutdownTimeout)
			t.retireOld(b.swap, nil)
			t.forget(failed)
			return
		}
		t.retireOld(b.swap, failed)
	})
	return true
}

// loseOld goes on without the old process, which died or has to.
func (t *tenure) loseOld(cause error) {
	b := t.trial
	b.unwatch()
	b.old.child.kill()
	b.old.log.Error("plugin process lost, it was kept warm", "error", cause)
	t.note(lossOf(b.old, cause))
	t.forget(b.old)
	t.dispose(b.old)
	b.old, b.drained = nil, nil
}

// forget takes a process that has ended off the status.
func (m *Manager) forget(p *process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.previous == p {
		m.previous = nil
	}
}

func (t *tenure) noteDrained() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trial.drained = nil
	t.trial.swap.drained(t.trial.began)
}
