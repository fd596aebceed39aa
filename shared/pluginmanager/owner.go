package pluginmanager

import (
	"context"
	"errors"
	"time"

	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// arrival is a process that is ready to serve, and the order that brought it,
// nil for a start and a restart. The zero arrival is none.
type arrival struct {
	process *process
	order   *order
}

// own is the goroutine that decides which process serves. It brings up the
// active version where none does, and watches the one that does.
func (m *Manager) own() {
	defer close(m.done)
	defer m.end()
	record := record{config: m.config}
	m.unmark() // what a host that died had on trial
	var next arrival
	for m.work.Err() == nil {
		if next.process == nil {
			next = m.bringNext(&record)
			continue
		}
		record.served()
		lost, cause := m.serve(next)
		next = arrival{}
		if lost == nil {
			continue
		}
		record.turnTo(lost.version)
		v, crashed := record.died(cause, time.Since(lost.ready))
		if !crashed {
			continue
		}
		if m.fallBack(lost.version, v.fault) {
			m.discard(lost)
			continue
		}
		next = m.pause(v)
	}
	if next.process != nil {
		m.reject(next)
	}
}

// bringNext brings up the active version, unless a swap is quicker to bring
// another. After a failure it waits and returns none.
func (m *Manager) bringNext(record *record) arrival {
	ctx, callOff := context.WithCancel(m.work)
	defer callOff()
	type result struct {
		process *process
		err     error
	}
	brought := make(chan result, 1)
	m.disposal.Go(func() {
		p, err := m.bringUpActive(ctx)
		brought <- result{p, err}
	})
	for {
		select {
		case r := <-brought:
			if r.err == nil {
				return arrival{process: r.process}
			}
			v := record.failed(r.err)
			if (v.dying || isCatalogueFault(r.err)) && m.fallBack(m.activeVersion(), v.fault) {
				return arrival{}
			}
			return m.pause(v)
		case o := <-m.orders:
			if o.obeyIdle() {
				callOff()
				m.disposal.Go(func() {
					if r := <-brought; r.process != nil { // it was as quick
						r.process.end(m.hard, m.config.ShutdownTimeout)
					}
				})
				return arrival{o.process, o}
			}
		}
	}
}

// end leaves nothing behind.
func (m *Manager) end() {
	m.disposal.Wait()
	m.stopHard()
	if err := m.run.close(); err != nil {
		m.config.Log.Warn("closing the plugin manager's run folder", "error", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.swap, m.previous = nil, nil
	m.set(StateStopped, nil)
}

// reject ends a process that came too late to serve.
func (m *Manager) reject(a arrival) {
	if a.order != nil { // who gave it ends the process
		a.order.done <- ErrStopped
		return
	}
	a.process.end(m.hard, m.config.ShutdownTimeout)
}

// pause waits after a failure, until the next attempt is due or a swap brings a
// process.
func (m *Manager) pause(v verdict) arrival {
	m.mu.Lock()
	if m.work.Err() != nil { // Stop was first, and the cause of this
		m.mu.Unlock()
		return arrival{}
	}
	m.fault, m.final, m.nextTry = v.fault, v.final, time.Now().Add(v.wait)
	state := m.state
	if v.refuse {
		state = StateFailed
	}
	gaveUp := state == StateFailed && m.state != StateFailed
	m.set(state, nil)
	m.mu.Unlock()
	m.config.Log.Error("plugin does not run", "error", v.fault, "next_try", v.wait)
	if gaveUp {
		m.note(Event{Type: EventGaveUp, Version: m.activeVersion(), Reason: v.fault.Error()})
	}

	timer := time.NewTimer(v.wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return arrival{}
		case <-m.work.Done():
			return arrival{}
		case o := <-m.orders:
			if o.obeyIdle() {
				return arrival{o.process, o}
			}
		}
	}
}

// activeVersion is what is active on disk; "" if that cannot be told.
func (m *Manager) activeVersion() string {
	state, _ := m.config.Catalogue.LoadState()
	return state.Active
}

// fallBack makes the last good version the active one in the place of a version
// that does not live, and reports whether it did. There is no falling back from
// that: its last good version would be the one that failed.
func (m *Manager) fallBack(from string, cause error) bool {
	state, err := m.config.Catalogue.LoadState()
	if err != nil || state.Active != from || state.LastGood == "" || state.LastGood == from || m.work.Err() != nil {
		return false
	}
	if _, err := m.find(state.LastGood); err != nil {
		return false
	}
	if err := m.config.Catalogue.SaveState(plugincatalogue.State{Active: state.LastGood}); err != nil {
		m.config.Log.Error("falling back to the last good plugin", "error", err)
		return false
	}
	m.mu.Lock()
	m.fault = cause
	m.mu.Unlock()
	m.config.Log.Error("plugin falls back to the last good version", "version", state.LastGood, "from", from, "error", cause)
	m.note(Event{Type: EventFellBack, Version: state.LastGood, From: from, Reason: cause.Error()})
	return true
}

// isCatalogueFault reports whether a version could not be run as it lies on disk.
func isCatalogueFault(err error) bool {
	var refused *plugincatalogue.RefusedError
	return errors.As(err, &refused)
}
