package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

// activateNotice is how long the news of a candidate's death may take after it
// failed to begin its background work. Later it is a crash during the bake.
const activateNotice = time.Second

var (
	errNoLastGood    = errors.New("there is no version to roll back to")
	errNotWarm       = errors.New("no process is kept warm")
	errCandidateLost = errors.New("the new process was lost before the switch")
	errActivateLost  = errors.New("the new process was lost as it began its background work")
	errRequested     = errors.New("requested")
)

// SwapError says at which step a swap was refused, and why. The version that
// served before was not touched; its bake, if any, goes on. At the step workers it serves
// again: the new process died as it began its background work. Only if the old version
// can no longer run on the database either, the new one is started once more.
type SwapError struct {
	Step    string // one of those listed at [SwapStatus]
	Version string // the requested version
	Err     error

	RehearsalOnly bool // of [Manager.Rehearse]
}

// Error names the version, the step and the reason.
func (e *SwapError) Error() string {
	if e.Version == "" { // a rollback that found no version
		return "rolling the plugin back: " + e.Err.Error()
	}
	if e.RehearsalOnly {
		return "rehearsing plugin " + e.Version + ": " + e.Step + ": " + e.Err.Error()
	}
	return "swapping to plugin " + e.Version + ": " + e.Step + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *SwapError) Unwrap() error { return e.Err }

// BusyError says that another swap is under way.
type BusyError struct{ Swap SwapStatus }

// Error describes the other swap.
func (e *BusyError) Error() string {
	if e.Swap.RehearsalOnly {
		return fmt.Sprintf("a rehearsal of plugin %s is under way since %s (%s)", e.Swap.To, e.Swap.Started.Format(time.RFC3339), e.Swap.Step)
	}
	return fmt.Sprintf("a swap from plugin %s to %s is under way since %s (%s)",
		e.Swap.From, e.Swap.To, e.Swap.Started.Format(time.RFC3339), e.Swap.Step)
}

// swap is one swap, from the request until the old process has ended. The
// manager's mutex guards the status.
type swap struct {
	status   SwapStatus
	rollback bool
	ignore   []Ignore

	rehearsing bool            // a rollback may end it
	work       context.Context // ends with the manager's, or if a rollback ends a rehearsal
	cancel     context.CancelCauseFunc
}

// Use swaps to an installed version. It returns nil once calls go to the version,
// its background work has started, and it bakes; a [*SwapError] if it was refused; a
// [*BusyError] if another swap is under way. For the active version this is a
// restart with fresh settings. An earlier bake is completed right before the
// switch, in favour of its version. If no process serves, the version becomes the
// active one at once, without a bake.
//
// A version that is new here, neither the active nor the last good one, is rehearsed before it
// touches the database: see package rehearsal. A failed check refuses the swap; [Options].Rehearse says
// what a difference does. A rehearsal finds accidents, not malice. ignore says what an
// administrator goes on in spite of.
//
// When ctx ends, Use returns; the swap goes on.
func (m *Manager) Use(ctx context.Context, version string, ignore ...Ignore) error {
	return m.startSwap(ctx, &swap{status: SwapStatus{To: version}, ignore: ignore}, m.use)
}

// Rollback returns to the previous version: at once while its process is warm, if that
// passes its preflight again, and after that by a swap to the last good version, which
// unknown settings and invalid templates of mails do not refuse. It waits like [Manager.Use] and
// returns the same errors. After such a swap there is no last good version, because
// the one it left was not good enough.
func (m *Manager) Rollback(ctx context.Context) error {
	return m.startSwap(ctx, &swap{rollback: true}, m.requestRollback)
}

// startSwap performs a swap in its own goroutine and waits for the result, unless the
// manager has stopped or another swap is under way.
func (m *Manager) startSwap(ctx context.Context, w *swap, perform func(*swap) error) error {
	if err := m.reserveSwap(w); err != nil {
		return err
	}
	result := make(chan error, 1)
	m.background.Go(func() {
		defer w.cancel(nil)
		err := perform(w)
		if err != nil {
			err = m.refuse(w, err)
		}
		result <- err
	})
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the swap, which goes on: %w", ctx.Err())
	}
}

// reserveSwap makes a swap the one that is under way.
func (m *Manager) reserveSwap(w *swap) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.done == nil || m.work.Err() != nil:
		return ErrStopped
	case m.pending != nil && w.rollback && m.pending.rehearsing: // which must not be in the way
		m.pending.cancel(errOvertaken)
	case m.pending != nil:
		return &BusyError{m.pending.snapshot()}
	}
	m.pending = w
	w.work, w.cancel = context.WithCancelCause(m.work)
	w.status.Started = time.Now()
	if m.live != nil {
		w.status.From = m.live.manifest.Version
	}
	w.beginStepLocked(stepFind)
	return nil
}

// use takes a swap to a version up to the switch.
func (m *Manager) use(w *swap) error {
	// It begins after what the supervisor is doing, such as settling a version.
	if err := m.do(func(*supervisor) error { return nil }); err != nil {
		return err
	}
	return m.swapTo(w)
}

// requestRollback returns to the warm process, or takes a swap to an earlier version up to the
// switch.
func (m *Manager) requestRollback(w *swap) error {
	err := m.do(func(s *supervisor) error {
		err := s.rollBack(errRequested)
		if err == nil {
			s.finishSwap(w)
		}
		return err
	})
	if !errors.Is(err, errNotWarm) {
		return err
	}
	if err := m.findRollback(w); err != nil {
		return err
	}
	return m.swapTo(w)
}

// swapTo brings up the version of a swap and switches to it.
func (m *Manager) swapTo(w *swap) error {
	m.emit(Event{Type: EventSwapStarted, Version: w.status.To, From: w.status.From}, nil)
	p, err := m.prepare(w)
	if err != nil {
		return err
	}
	if !w.rollback { // which rejects the version that bakes
		m.beginStep(w, stepSettle)
		err = m.do((*supervisor).completeBake)
	}
	if err == nil {
		m.beginStep(w, stepSwitch)
		err = m.do(func(s *supervisor) error { return s.switchTo(w, p) })
	}
	if err != nil {
		m.stop(p)
	}
	return err
}

// prepare rehearses the version of a swap, before it touches the database, and brings it up.
func (m *Manager) prepare(w *swap) (*instance, error) {
	entry, err := m.find(w.status.To)
	if err == nil {
		err = m.checkAge(w, entry)
	}
	if err == nil && m.needsRehearsal(w) {
		err = m.rehearse(w, entry)
	}
	if err != nil {
		return nil, err
	}
	return m.bringUp(w.work, entry, m.rollbackTarget(), w, w.rollback)
}

// findRollback finds the version that a rollback swaps to when no process is warm:
// the one that served before the bake, or else the last good one.
func (m *Manager) findRollback(w *swap) error {
	state, err := m.config.Catalogue.LoadState()
	to := state.LastGood
	if state.Baking != "" {
		to = state.Active
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && (to == "" || m.live != nil && to == m.live.manifest.Version) {
		err = errNoLastGood
	}
	w.status.To = to
	return err
}

// rollbackTarget returns the manifest of the version that a swap may have to roll
// back to: the one that serves, or would if it were not restarting. It is zero if
// there is none.
func (m *Manager) rollbackTarget() catalogue.Manifest {
	m.mu.Lock()
	live, state := m.live, m.state
	m.mu.Unlock()
	if live != nil {
		return live.manifest
	}
	if state != StateRestarting {
		return catalogue.Manifest{}
	}
	active, err := m.find(m.activeVersion())
	if err != nil { // it cannot run
		return catalogue.Manifest{}
	}
	return active.Manifest
}

// refuse ends a swap that failed before or at the switch.
func (m *Manager) refuse(w *swap, cause error) error {
	m.finishSwap(w)
	m.mu.Lock()
	refused := &SwapError{Step: w.status.Step, Version: w.status.To, Err: cause, RehearsalOnly: w.status.RehearsalOnly}
	m.mu.Unlock()
	var at *StepError
	if errors.As(cause, &at) {
		refused.Step, refused.Err = at.Step, at.Err
	}
	if m.work.Err() != nil {
		return fmt.Errorf("%w: %w", ErrStopped, refused)
	}
	if refused.RehearsalOnly {
		m.config.Log.Error("plugin rehearsal", "version", refused.Version, "step", refused.Step, "error", refused.Err)
		return refused
	}
	m.emit(Event{Type: EventSwapRefused, Version: refused.Version, From: w.status.From, Step: refused.Step, Reason: refused.Err.Error()}, nil)
	m.config.Log.Error("plugin swap refused", "version", refused.Version, "step", refused.Step, "error", refused.Err)
	return refused
}

// switchTo sends calls to a candidate from now on, hands background work over, and
// begins the bake. Calls under way stay where they are. Where no process served
// there is nothing to roll back to, and the bake is over at once.
func (s *supervisor) switchTo(w *swap, p *instance) error {
	if p.IsLost() {
		return errCandidateLost
	}
	old := s.live
	b := bake{swap: w, old: old, began: time.Now(), over: time.After(max(0, s.config.Bake)), stopWatch: func() {}}
	if old == nil {
		b.from = s.activeVersion()
	} else {
		b.from = old.manifest.Version
		if err := s.setBaking(p.manifest.Version); err != nil {
			return err
		}
	}
	s.mu.Lock()
	b.worked = s.state != StateFailed
	if !s.transition(triggerSwitch) {
		s.mu.Unlock()
		if old != nil {
			s.setBaking("")
		}
		return ErrStopped
	}
	s.cancelStart()
	s.retry = nil
	s.present(p)
	s.previous, s.swap = old, w
	w.beginStepLocked(stepWorkers)
	s.mu.Unlock()
	p.Log().Info("plugin serves", "bake", max(0, s.config.Bake))

	s.endBake() // of a version that a rollback replaces by a swap
	s.bake = b
	if old != nil {
		s.bake.oldLost, s.bake.oldIdle = old.Lost(), s.whenIdle(old)
		s.quiesce(old)
		var watch context.Context
		watch, s.bake.stopWatch = context.WithCancel(s.work)
		s.background.Go(func() { s.killIfHung(watch, old) })
	}
	s.activated = s.activate(p)
	if !s.activated {
		p.AwaitLost(s.work, activateNotice) // which may be the reason
	}
	if p.IsLost() && old != nil {
		lost := fmt.Errorf("%w: %w", errActivateLost, p.lossCause(s.work))
		s.handleLoss(lost)
		return &StepError{stepWorkers, p.manifest.Version, lost}
	}
	s.emit(Event{Type: EventSwitched, From: b.from}, p)
	s.mu.Lock()
	w.beginStepLocked(stepBake)
	s.pending = nil
	s.mu.Unlock()
	if old == nil || s.config.Bake < 0 {
		s.finishBake()
	}
	return nil
}

// activate starts background work. A failure does not keep the process from
// serving; the next health check tries again.
func (m *Manager) activate(p *instance) bool {
	ctx, cancel := context.WithTimeout(m.work, m.limits.ActivateTimeout)
	defer cancel()
	err := p.Activate(ctx)
	if err != nil && m.work.Err() == nil {
		p.Log().Error("starting the plugin's background work", "error", err)
	}
	return err == nil
}

// setBaking records on disk which version bakes, so that it is not removed; "" if its
// bake ends without being completed, and the host so returns to the active version. If
// the host dies, the next one does that.
func (m *Manager) setBaking(version string) error {
	state, err := m.config.Catalogue.LoadState()
	if err == nil && state.Baking != version {
		state.Baking = version
		err = m.config.Catalogue.SaveState(state)
	}
	if err != nil {
		m.config.Log.Error("recording the version that bakes", "version", version, "error", err)
	}
	return err
}
