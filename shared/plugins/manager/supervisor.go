package manager

import (
	"context"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

// trigger is an event that changes the state of a manager. (An [Event] is an entry
// of the plugin's log.)
type trigger string

const (
	triggerStart       trigger = "start"        // Manager.Start was called
	triggerReady       trigger = "ready"        // the active version was brought up
	triggerStartFailed trigger = "start failed" // it was not, and is tried again soon
	triggerGiveUp      trigger = "give up"      // too many starts failed, or the version crashes over and over
	triggerSwitch      trigger = "switch"       // the candidate of a swap takes the calls
	triggerComplete    trigger = "complete"     // the version has passed its bake
	triggerRollBack    trigger = "roll back"    // the warm process takes the calls again
	triggerLose        trigger = "lose"         // the live process died or hung, and no process is warm
	triggerStop        trigger = "stop"         // Manager.Stop was called
	triggerEnd         trigger = "end"          // all processes have ended
)

// transitions is the state machine of a manager: every change of state is in it.
// docs/architecture.md draws it.
var transitions = map[State]map[trigger]State{
	StateStopped: {triggerStart: StateStarting},
	StateStarting: {
		triggerReady: StateServing, triggerSwitch: StateBaking, triggerStop: StateDraining,
		triggerStartFailed: StateStarting, triggerGiveUp: StateFailed,
	},
	StateServing: {triggerSwitch: StateBaking, triggerLose: StateRestarting, triggerStop: StateDraining},
	StateBaking: {
		triggerComplete: StateServing, triggerRollBack: StateServing, triggerSwitch: StateBaking,
		triggerLose: StateRestarting, triggerStop: StateDraining,
	},
	StateRestarting: {
		triggerReady: StateServing, triggerSwitch: StateBaking, triggerStop: StateDraining,
		triggerStartFailed: StateRestarting, triggerGiveUp: StateFailed,
	},
	StateFailed: {
		triggerReady: StateServing, triggerSwitch: StateBaking, triggerStop: StateDraining,
		triggerStartFailed: StateFailed,
	},
	StateDraining: {triggerEnd: StateStopped},
}

// transition changes the state and wakes those who wait for a change. It reports
// false, and changes nothing, while the manager stops, and for a transition that is
// not declared, which is a programming error. The caller holds the mutex.
func (m *Manager) transition(t trigger) bool {
	if m.state == StateDraining && t != triggerEnd {
		return false
	}
	next, ok := transitions[m.state][t]
	if !ok {
		m.config.Log.Error("undeclared transition of the plugin manager", "state", m.state, "trigger", t)
		return false
	}
	m.state = next
	close(m.changed)
	m.changed = make(chan struct{})
	return true
}

// supervisor is the goroutine that decides which process gets the calls. It alone
// changes Manager.live, and so may read it without the mutex. Whatever takes long
// and is not the live process's affair runs in other goroutines, which come back
// through [Manager.do].
type supervisor struct {
	*Manager
	tick        *time.Ticker       // health checks are due
	cancelStart context.CancelFunc // cancels the start that may be under way
	retry       <-chan time.Time   // the next start is due; nil if none is planned
	attempts    attempts
	activated   bool   // the live process does background work
	unhealthy   int    // health checks in a row that the live process failed
	bake        bake   // zero unless the state is baking
	replaced    string // the version that the active one replaced by a fall-back or rollback, until a process serves
}

// supervise runs until Stop.
func (m *Manager) supervise() {
	defer close(m.done)
	s := &supervisor{Manager: m, attempts: attempts{limits: m.limits}, tick: time.NewTicker(m.limits.HealthInterval)}
	defer s.tick.Stop()
	s.setBaking("") // a host that was killed may have left a version
	s.startActive()
	s.background.Go(s.sweep)
	s.background.Go(s.noteVersions)
	for s.work.Err() == nil {
		s.handleNext()
		s.settle()
	}
	s.shutDown()
}

// handleNext waits for the next event and handles it.
func (s *supervisor) handleNext() {
	var lost <-chan struct{}
	if s.live != nil {
		lost = s.live.Lost()
	}
	select {
	case <-s.work.Done():
	case f := <-s.requests:
		f(s)
	case <-s.retry:
		s.startActive()
	case <-lost:
		s.handleLoss(s.live.lossCause(s.work))
	case <-s.tick.C:
		s.examine()
	case <-s.failing:
		s.checkCalls()
	case <-s.bake.oldLost:
		s.loseOld(s.bake.old.lossCause(s.work))
	case <-s.bake.oldIdle:
		s.recordDrain()
	case <-s.bake.over:
		s.finishBake()
	}
}

// do has the supervisor run f between two events and returns its error. The
// supervisor accepts it soon: all that it does has a deadline.
func (m *Manager) do(f func(*supervisor) error) error {
	done := make(chan error, 1)
	select {
	case m.requests <- func(s *supervisor) { done <- f(s) }:
		return <-done
	case <-m.work.Done():
		return ErrStopped
	}
}

// startActive brings up the active version in the background. The supervisor then
// makes it live, unless a swap was faster, or handles the failure.
func (s *supervisor) startActive() {
	ctx, cancel := context.WithCancel(s.work)
	s.cancelStart = cancel
	again := s.served || s.replaced != ""
	s.background.Go(func() {
		defer cancel()
		p, failure := s.bringUpActive(ctx, again)
		err := s.do(func(s *supervisor) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case failure != nil:
				s.handleFailure(s.activeVersion(), s.attempts.startFailed(failure))
				return nil
			}
			return s.makeLive(p)
		})
		if err != nil && p != nil {
			s.stop(p)
		}
	})
}

// makeLive sends the calls to a process that was started or restarted.
func (s *supervisor) makeLive(p *instance) error {
	s.mu.Lock()
	if !s.transition(triggerReady) {
		s.mu.Unlock()
		return ErrStopped
	}
	restarted := s.served
	if restarted {
		s.restarts++
	}
	s.present(p)
	s.mu.Unlock()
	p.Log().Info("plugin serves")
	if restarted {
		s.emit(Event{Type: EventRestarted}, p)
	}
	s.activated = s.activate(p)
	return nil
}

// present makes p the live process. The caller holds the mutex.
func (s *supervisor) present(p *instance) {
	p.ready = time.Now()
	s.live, s.served, s.permanent = p, true, false
	s.replaced = ""
	s.switches.Add(1)
	s.unhealthy = 0
	s.attempts.succeeded()
}

// handleLoss replaces the live process, which died or must be killed: by the warm
// process at once, or else by a start of the active version.
func (s *supervisor) handleLoss(cause error) {
	p := s.live
	p.Kill()
	if s.work.Err() != nil { // Stop was first, and may be the cause
		return
	}
	s.emit(Event{Type: EventProcessLost, Reason: cause.Error()}, p)
	err := s.rollBack(cause)
	if err == nil {
		return
	}
	if isPermanent(err) {
		s.completeRefused(err)
	}
	s.mu.Lock()
	if !s.transition(triggerLose) {
		s.mu.Unlock()
		return
	}
	s.lastErr, s.live = cause, nil
	s.mu.Unlock()
	p.Log().Error("plugin process lost", "error", cause)
	p.KillAndWait(s.hard) // before the next one starts
	s.background.Go(func() { s.stop(p) })
	if bake := s.bake; bake.swap != nil { // the previous version starts again, and has to pass its preflight
		s.emit(Event{Type: EventRolledBack, Version: bake.from, From: p.manifest.Version, Reason: cause.Error()}, nil)
		s.endBake()
		s.background.Go(func() { s.retireOld(bake.swap, bake.old) })
		s.setBaking("")
		s.replaced = p.manifest.Version
	} else if f := s.attempts.died(p.manifest.Version, cause, time.Since(p.ready)); f != nil {
		s.handleFailure(p.manifest.Version, *f)
		return
	}
	s.startActive()
}

// handleFailure falls back to the last good version if the failure is of a kind
// that this helps, undoes a fall-back to a version that is refused, and plans the next
// start otherwise.
func (s *supervisor) handleFailure(version string, f failure) {
	if f.permanent && s.undoFallBack(version, f.cause) || f.fallBack && s.fallBack(version, f.cause) {
		s.startActive()
		return
	}
	s.mu.Lock()
	t := triggerStartFailed
	if f.refuseCalls && s.state != StateFailed {
		t = triggerGiveUp
	}
	if !s.transition(t) { // Stop was first, and may be the cause
		s.mu.Unlock()
		return
	}
	s.lastErr, s.permanent, s.nextTry = f.cause, f.permanent, time.Now().Add(f.wait)
	s.mu.Unlock()
	s.retry = time.After(f.wait)
	s.config.Log.Error("plugin does not run", "error", f.cause, "next_try", f.wait)
	if t == triggerGiveUp {
		s.emit(Event{Type: EventGaveUp, Version: s.activeVersion(), Reason: f.cause.Error()}, nil)
	}
}

// fallBack makes the last good version the active one in place of a version that
// does not stay up, and reports whether it did. It does so once: afterwards there
// is no last good version, since that would be the one that failed.
func (s *supervisor) fallBack(from string, cause error) bool {
	state, err := s.config.Catalogue.LoadState()
	if err != nil || state.Active != from || state.LastGood == "" || !s.replaceActive(from, state.LastGood, cause) {
		return false
	}
	s.replaced = from
	return true
}

// undoFallBack makes the version the active one again that a fall-back or a rollback
// replaced, if the version in its place is refused: the database no longer supports it,
// for example. The version that failed may work again; the one that is refused does not.
// It happens once.
func (s *supervisor) undoFallBack(from string, cause error) bool {
	to := s.replaced
	s.replaced = ""
	return to != "" && s.replaceActive(from, to, cause)
}

// replaceActive makes another installed version the active one, and reports whether it
// did. There is no last good version afterwards.
func (s *supervisor) replaceActive(from, to string, cause error) bool {
	if _, err := s.find(to); err != nil || to == from || s.work.Err() != nil {
		return false
	}
	if err := s.saveState(catalogue.State{Active: to}); err != nil {
		s.config.Log.Error("falling back to another plugin version", "version", to, "error", err)
		return false
	}
	s.mu.Lock()
	s.lastErr = cause
	s.mu.Unlock()
	s.config.Log.Error("plugin falls back to another version", "version", to, "from", from, "error", cause)
	s.emit(Event{Type: EventFellBack, Version: to, From: from, Reason: cause.Error()}, nil)
	return true
}

// settle tells the live process, once, that its version is settled: its background work
// has started, and no bake is under way. A failure is logged, and tried again after a while.
func (s *supervisor) settle() {
	p := s.live
	if p == nil || !s.activated || p.settled || s.bake.swap != nil || time.Now().Before(p.settleAt) {
		return
	}
	ctx, cancel := context.WithTimeout(s.work, s.limits.ActivateTimeout)
	defer cancel()
	err := p.Settle(ctx)
	if err != nil && s.work.Err() == nil {
		p.settleAt = time.Now().Add(s.limits.FailureRetry)
		p.Log().Error("settling the plugin", "error", err, "next_try", s.limits.FailureRetry)
	}
	p.settled = err == nil
}

// shutDown retires all processes in parallel and leaves nothing behind.
func (s *supervisor) shutDown() {
	if bake := s.bake; bake.swap != nil {
		s.endBake()
		s.setBaking("")
		s.background.Go(func() { s.retireOld(bake.swap, bake.old) })
	}
	if s.live != nil {
		s.retire(s.live)
	}
	s.background.Wait()
	s.stopHard()
	if err := s.run.Close(); err != nil {
		s.config.Log.Warn("closing the plugin manager's run folder", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live, s.previous, s.swap = nil, nil, nil
	s.transition(triggerEnd)
}
