package pluginmanager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cms-personal/personal/shared/plugincatalogue"
)

const (
	// callbackPoll is the interval between looks at the count of callbacks.
	callbackPoll = 10 * time.Millisecond
	// activateNotice is how long the news of a candidate's death may take after it
	// failed to begin its background work. Later it is a crash during the bake.
	activateNotice = time.Second
)

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
}

// Error names the version, the step and the reason.
func (e *SwapError) Error() string {
	if e.Version == "" { // a rollback that found no version
		return "rolling the plugin back: " + e.Err.Error()
	}
	return "swapping to plugin " + e.Version + ": " + e.Step + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *SwapError) Unwrap() error { return e.Err }

// BusyError says that another swap is under way.
type BusyError struct{ Swap SwapStatus }

// Error describes the other swap.
func (e *BusyError) Error() string {
	return fmt.Sprintf("a swap from plugin %s to %s is under way since %s (%s)",
		e.Swap.From, e.Swap.To, e.Swap.Started.Format(time.RFC3339), e.Swap.Step)
}

// swap is one swap, from the request until the old process has ended. The
// manager's mutex guards the status.
type swap struct {
	status   SwapStatus
	rollback bool
}

// bake is the time after a switch in which the old process stays warm, and calls
// return to it if the new one fails. It belongs to the supervisor.
type bake struct {
	swap      *swap
	from      string    // the previous version
	worked    bool      // that version served, or was about to: it is fit to be the last good one
	old       *instance // nil if it was lost, or none served
	refused   bool      // the old version can no longer run here
	began     time.Time
	over      <-chan time.Time
	oldLost   <-chan struct{}    // closed when the old process is lost
	oldIdle   <-chan struct{}    // closed when the old process has finished its calls; nil once that was recorded
	stopWatch context.CancelFunc // of the old process
}

// Use swaps to an installed version. It returns nil once calls go to the version,
// its background work has begun, and it bakes; a [*SwapError] if it was refused; a
// [*BusyError] if another swap is under way. For the active version this is a
// restart with fresh settings. An earlier bake is completed right before the
// switch, in favour of its version. If no process serves, the version becomes the
// active one at once, without a bake.
//
// When ctx ends, Use returns; the swap goes on.
func (m *Manager) Use(ctx context.Context, version string) error {
	return m.startSwap(ctx, &swap{status: SwapStatus{To: version}}, m.use)
}

// Rollback returns to the previous version: at once while its process is warm, if that
// passes its preflight again, and after that by a swap to the last good version, for
// which settings that it does not know are warnings. It waits like [Manager.Use] and
// returns the same errors. After such a swap there is no last good version, because
// the one it left was not good enough.
func (m *Manager) Rollback(ctx context.Context) error {
	return m.startSwap(ctx, &swap{rollback: true}, m.requestRollback)
}

// startSwap performs a swap in a goroutine of its own and waits for the result, unless the
// manager has stopped or another swap is under way.
func (m *Manager) startSwap(ctx context.Context, w *swap, perform func(*swap) error) error {
	if err := m.reserveSwap(w); err != nil {
		return err
	}
	result := make(chan error, 1)
	m.background.Go(func() {
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
	case m.pending != nil:
		return &BusyError{m.pending.snapshot()}
	}
	m.pending = w
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
	entry, err := m.find(w.status.To)
	if err != nil {
		return err
	}
	_ = m.do(func(s *supervisor) error { return s.setLenient(w.status.To) }) // best effort: logged
	p, err := m.bringUp(m.work, entry, m.rollbackTarget(), w, w.rollback)
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
func (m *Manager) rollbackTarget() plugincatalogue.Manifest {
	m.mu.Lock()
	live, state := m.live, m.state
	m.mu.Unlock()
	if live != nil {
		return live.manifest
	}
	if state != StateRestarting {
		return plugincatalogue.Manifest{}
	}
	active, err := m.find(m.activeVersion())
	if err != nil { // it cannot run
		return plugincatalogue.Manifest{}
	}
	return active.Manifest
}

// refuse ends a swap that failed before or at the switch.
func (m *Manager) refuse(w *swap, cause error) error {
	m.finishSwap(w)
	m.mu.Lock()
	refused := &SwapError{Step: w.status.Step, Version: w.status.To, Err: cause}
	m.mu.Unlock()
	var at *StepError
	if errors.As(cause, &at) {
		refused.Step, refused.Err = at.Step, at.Err
	}
	if m.work.Err() != nil {
		return fmt.Errorf("%w: %w", ErrStopped, refused)
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

// finishBake completes a bake whose time is over, unless the last health check
// failed: then the bake goes on. A version that was removed meanwhile is rolled
// back, because it could not be started again after a crash.
func (s *supervisor) finishBake() {
	if s.unhealthy == 0 {
		err := s.completeBake()
		if err != nil {
			s.config.Log.Error("completing the plugin's bake", "error", err)
		}
		if isRefused(err) {
			s.rollBackIfBetter(err)
		}
	}
	if s.bake.swap != nil {
		s.bake.over = time.After(s.config.HealthInterval)
	}
}

// completeBake ends the bake, if there is one, in favour of the new version, which
// becomes the active one on disk, and retires the old process.
func (s *supervisor) completeBake() error {
	b := s.bake
	if b.swap == nil {
		return nil
	}
	if err := s.saveActive(b); err != nil {
		return err
	}
	s.mu.Lock()
	s.transition(triggerComplete)
	b.swap.beginStepLocked(stepRetire)
	s.mu.Unlock()
	s.emit(Event{Type: EventSwapCompleted, From: b.from}, s.live)
	s.endBake()
	s.background.Go(func() { s.retireOld(b.swap, b.old) })
	return nil
}

// saveActive records on disk which version to start with. A version that did not
// work, or that was rolled back, does not become the last good one.
func (s *supervisor) saveActive(b bake) error {
	state, err := s.config.Catalogue.LoadState()
	if err != nil {
		return err
	}
	version := s.live.manifest.Version
	if _, err := s.find(version); err != nil {
		return err
	}
	next := plugincatalogue.State{Active: version, LastGood: state.LastGood, LenientSettings: b.swap.rollback}
	switch {
	case state.Active == version: // a restart
	case b.swap.rollback, b.refused, !b.worked && state.LastGood == version:
		next.LastGood = ""
	case b.worked:
		next.LastGood = state.Active
	}
	return s.saveState(next)
}

// endBake stops what runs beside a bake that is over.
func (s *supervisor) endBake() {
	if s.bake.stopWatch != nil {
		s.bake.stopWatch()
	}
	s.bake = bake{}
}

// rollBackIfBetter rolls back from a process that could go on, unless the old one
// is not healthy either: an unavailable database is not the version's fault.
func (s *supervisor) rollBackIfBetter(cause error) {
	old := s.bake.old
	if old == nil {
		return
	}
	err := s.checkHealth(s.work, old)
	if err == nil {
		err = s.rollBack(cause)
	}
	switch {
	case err == nil:
	case isPermanent(err) && s.keepNew(err):
		s.handleLoss(cause)
	default:
		s.live.Log().Warn("plugin is not rolled back, the old version could not serve either", "error", cause, "old", err)
	}
}

// keepNew completes the bake of a version that failed, because the old version is
// refused, and reports whether it did. The new version is then started again: it is the
// only one that can run.
func (s *supervisor) keepNew(refusal error) bool {
	s.live.Log().Error("plugin is not rolled back, the old version can no longer run here", "error", refusal)
	s.bake.refused = true
	err := s.completeBake()
	if err != nil {
		s.config.Log.Error("completing the plugin's bake", "error", err)
	}
	return err == nil
}

// rollBack ends the bake in favour of the old process: it gets the calls again and
// resumes its background work, and the new one is retired. It returns errNotWarm if the
// old process is not there or does not respond.
//
// It first repeats the preflight of the old process, because the database may have
// changed since: another node, where the new version is settled, may have it demand what
// the old version does not support. Calls go on with the live process meanwhile. A
// refusal is permanent, see [isPermanent]. A preflight without a result, because it takes
// too long or the database is unavailable, is an error, too: nothing would make up for an
// old version that works on a database that refuses it, and little is lost, because
// neither version can serve without the database. A live process that is only unhealthy
// then goes on, and the next health check tries again. One that is dead is replaced by a
// start of the previous version, which repeats the preflight until there is a result,
// and by a start of the new version if that is a refusal (undoFallBack).
func (s *supervisor) rollBack(cause error) error {
	b, failed := s.bake, s.live
	if b.old == nil {
		return errNotWarm
	}
	if !s.responds(b.old) {
		s.loseOld(b.old.lossCause(s.work))
		return errNotWarm
	}
	// Not PreflightTimeout: the supervisor does nothing else meanwhile.
	refusal := within(s.work, min(s.config.PreflightTimeout, s.config.HealthTimeout), b.old, func(ctx context.Context) error {
		return s.preflight(ctx, b.old, plugincatalogue.Manifest{}, nil)
	})
	s.mu.Lock()
	if b.old.IsLost() { // killed since it responded
		s.mu.Unlock()
		s.loseOld(b.old.lossCause(s.work))
		return errNotWarm
	}
	if refusal != nil {
		s.mu.Unlock()
		return &StepError{stepPreflight, b.old.manifest.Version, refusal}
	}
	if !s.transition(triggerRollBack) {
		s.mu.Unlock()
		return ErrStopped
	}
	b.old.idle = nil
	s.live, s.previous = b.old, failed
	s.switches.Add(1)
	s.unhealthy = 0
	level := slog.LevelInfo
	if !errors.Is(cause, errRequested) {
		level = slog.LevelError
		s.lastErr = fmt.Errorf("plugin %s was rolled back: %w", failed.manifest.Version, cause)
	}
	b.swap.beginStepLocked(stepRetire)
	s.mu.Unlock()

	s.endBake()
	s.setBaking("")
	failed.Log().Log(s.hard, level, "plugin rolled back", "version", b.old.manifest.Version, "cause", cause)
	s.emit(Event{Type: EventRolledBack, From: failed.manifest.Version, Reason: cause.Error()}, b.old)
	if !failed.IsLost() {
		s.quiesce(failed)
	}
	s.activated = s.activate(b.old)
	s.background.Go(func() { s.retireOld(b.swap, failed) })
	return nil
}

// loseOld continues the bake without the old process, which died or must be killed.
func (s *supervisor) loseOld(cause error) {
	old := s.bake.old
	s.bake.stopWatch()
	s.bake.old, s.bake.oldLost, s.bake.oldIdle = nil, nil, nil
	old.Kill()
	old.Log().Error("plugin process lost, it was kept warm", "error", cause)
	s.emit(Event{Type: EventProcessLost, Reason: cause.Error()}, old)
	s.background.Go(func() { s.stop(old) })
}

// recordDrain adds the step drain when the last call has left the old process.
func (s *supervisor) recordDrain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	steps, began := &s.bake.swap.status.Steps, s.bake.began
	*steps = append(*steps, SwapStep{Name: stepDrain, Began: began, Took: time.Since(began)})
	s.bake.oldIdle = nil
}

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
// does not accept the request within Config.ShutdownTimeout is killed; one that does
// not end within the 2 s of go-plugin afterwards is killed, too.
func (m *Manager) stop(p *instance) {
	p.Stop(m.hard, m.config.ShutdownTimeout)
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
	ctx, cancel := context.WithTimeout(m.hard, m.config.DrainTimeout)
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

// quiesce stops background work, and then waits until no callback is under way. It
// reports false if there was no response in time, which on a busy machine proves
// nothing.
func (m *Manager) quiesce(p *instance) bool {
	ctx, cancel := context.WithTimeout(m.hard, m.config.QuiesceTimeout)
	defer cancel()
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

// activate starts background work. A failure does not keep the process from
// serving; the next health check tries again.
func (m *Manager) activate(p *instance) bool {
	ctx, cancel := context.WithTimeout(m.work, m.config.ActivateTimeout)
	defer cancel()
	err := p.Activate(ctx)
	if err != nil && m.work.Err() == nil {
		p.Log().Error("starting the plugin's background work", "error", err)
	}
	return err == nil
}

// setLenient records on disk that a swap to another version has begun: the settings may
// be written for that version, and the host may die before the switch.
func (s *supervisor) setLenient(version string) error {
	if s.live == nil { // a typing error may be the reason
		return nil
	}
	state, err := s.config.Catalogue.LoadState()
	if err == nil && state.Active != version && !state.LenientSettings {
		state.LenientSettings = true
		err = s.config.Catalogue.SaveState(state)
	}
	if err != nil {
		s.config.Log.Error("recording that a swap has begun", "version", version, "error", err)
	}
	return err
}

// setBaking records on disk which version bakes, so that it is not removed; "" if its
// bake ends without being completed, and the host so returns to the active version. If
// the host dies, the next one does that.
func (m *Manager) setBaking(version string) error {
	state, err := m.config.Catalogue.LoadState()
	if err == nil && state.Baking != version {
		state.Baking, state.LenientSettings = version, state.LenientSettings || version == ""
		err = m.config.Catalogue.SaveState(state)
	}
	if err != nil {
		m.config.Log.Error("recording the version that bakes", "version", version, "error", err)
	}
	return err
}
