package pluginmanager

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// swap is one swap, from the moment it is asked for until the old process has
// ended. The manager's mutex guards it.
type swap struct {
	status   SwapStatus
	switched bool       // it no longer keeps others from swapping
	over     bool       // nothing of it is under way
	back     bool       // it is a rollback
	result   chan error // takes one: for whoever asked for it
}

// SwapError says at which step a swap was refused, and why. The version before it
// was not touched: a trial goes on.
type SwapError struct {
	Step    string // one of those named at [SwapStatus]
	Version string // asked for
	Err     error
}

// Error names the version, the step and the reason.
func (e *SwapError) Error() string {
	if e.Version == "" { // no version was named, and none found
		return "rolling the plugin back: " + e.Err.Error()
	}
	return "swapping to plugin " + e.Version + ": " + e.Step + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *SwapError) Unwrap() error { return e.Err }

// BusyError says that another swap is under way.
type BusyError struct{ Swap SwapStatus }

// Error names the other swap.
func (e *BusyError) Error() string {
	return fmt.Sprintf("a swap from plugin %s to %s is under way since %s (%s)",
		e.Swap.From, e.Swap.To, e.Swap.Started.Format(time.RFC3339), e.Swap.Step)
}

var errNoLastGood = errors.New("there is no version to go back to")

// Use swaps to an installed version. It returns nil once calls go to it, its
// background work has begun, and it is on trial; a [*SwapError] if it was
// refused; a [*BusyError] if another swap is under way. For the active version it
// is a restart with fresh settings. A trial under way is settled right before the
// switch, for its version. If no process serves, nothing is tried: the version is
// the active one at once.
//
// The end of ctx ends the wait alone; the swap goes on.
func (m *Manager) Use(ctx context.Context, version string) error {
	return m.swapTo(ctx, &swap{status: SwapStatus{To: version}})
}

// Rollback goes back to the version before: at once while its process is warm,
// by a swap to the last good version after that. It takes the same time and gives
// the same errors as [Manager.Use]; after such a swap there is no last good
// version, because the one left was not good enough.
func (m *Manager) Rollback(ctx context.Context) error {
	return m.swapTo(ctx, &swap{back: true})
}

// swapTo begins a swap and waits for its result.
func (m *Manager) swapTo(ctx context.Context, s *swap) error {
	if err := m.beginSwap(s); err != nil {
		return err
	}
	select {
	case err := <-s.result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the swap, which goes on: %w", ctx.Err())
	}
}

// beginSwap starts the goroutine in which the new process is prepared. It ends
// with the switch, a refusal, or the manager.
func (m *Manager) beginSwap(s *swap) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.done == nil || m.work.Err() != nil {
		return ErrStopped
	}
	if m.swap != nil && !m.swap.switched {
		return &BusyError{m.swap.snapshot()}
	}
	s.result = make(chan error, 1)
	s.status.Started = time.Now()
	if m.live != nil {
		s.status.From = m.live.version
	}
	s.begin("find")
	before := m.swap
	m.swap = s
	m.disposal.Go(func() { m.carryOut(s, before) })
	return nil
}

// carryOut takes a swap up to its result.
func (m *Manager) carryOut(s, before *swap) {
	if s.back {
		if back, err := m.rollBack(s); back {
			m.drop(s, before)
			s.result <- nil
			return
		} else if err != nil {
			s.result <- m.refuse(s, before, err)
			return
		}
	}
	if err := m.attempt(s); err != nil {
		s.result <- m.refuse(s, before, err)
		return
	}
	s.result <- nil
}

// attempt returns nil when the owner has switched.
func (m *Manager) attempt(s *swap) error {
	m.note(Event{Type: EventSwapStarted, Version: s.status.To, From: s.status.From})
	entry, err := m.find(s.status.To)
	if err != nil {
		return err
	}
	p, err := m.bringUp(m.work, entry, m.wayBack(), func(step string) { m.step(s, step) })
	if err != nil {
		return err
	}
	m.detail(s, "preflight", strings.Join(p.warnings, "; "))
	err = m.replace(s, p)
	if err != nil {
		p.end(m.hard, m.config.ShutdownTimeout)
	}
	return err
}

// replace has the owner switch to a process that is ready, once the trial that
// may be under way is settled. A rollback is against the version on trial.
func (m *Manager) replace(s *swap, p *process) error {
	if !s.back {
		m.step(s, "settle")
		if err := m.order(&order{kind: orderSettle, swap: s}); err != nil {
			return err
		}
	}
	m.step(s, "switch")
	return m.order(&order{kind: orderSwitch, swap: s, process: p})
}

// wayBack describes the version that a swap can go back to: the one that serves,
// or would if it were not being started anew. It is zero if there is none.
func (m *Manager) wayBack() plugincatalogue.Manifest {
	m.mu.Lock()
	live, state := m.live, m.state
	m.mu.Unlock()
	if live != nil {
		return plugincatalogue.Manifest{Version: live.version, Schema: live.schema}
	}
	if state != StateRestarting {
		return plugincatalogue.Manifest{}
	}
	active, err := m.find(m.activeVersion())
	if err != nil { // one that cannot run is no way back
		return plugincatalogue.Manifest{}
	}
	return active.Manifest
}

// rollBack switches back to the warm process, if there is one. If not it finds
// the version to swap to: the one before the trial, or else the last good one.
func (m *Manager) rollBack(s *swap) (back bool, err error) {
	err = m.order(&order{kind: orderSwitchBack, swap: s})
	if !errors.Is(err, errNotWarm) {
		return err == nil, err
	}
	state, err := m.config.Catalogue.LoadState()
	to := state.LastGood
	if state.Trial != "" {
		to = state.Active
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && (to == "" || m.live != nil && to == m.live.version) {
		err = errNoLastGood
	}
	s.status.To = to
	return false, err
}

// drop ends a swap that brought no process. The one before, whose old process may
// be there still, takes its place again.
func (m *Manager) drop(s, before *swap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finish(s)
	if m.swap == nil && before != nil && !before.over {
		m.swap = before
	}
}

// refuse ends a swap that came to nothing.
func (m *Manager) refuse(s, before *swap, cause error) error {
	m.mu.Lock()
	refusal := &SwapError{Step: s.status.Step, Version: s.status.To, Err: cause}
	var at *StepError
	if errors.As(cause, &at) {
		refusal.Step, refusal.Err = at.Step, at.Err
	}
	m.mu.Unlock()
	m.drop(s, before)
	m.sweep()
	if m.work.Err() != nil {
		return fmt.Errorf("%w: %w", ErrStopped, refusal)
	}
	m.note(Event{Type: EventSwapRefused, Version: refusal.Version, From: s.status.From, Step: refusal.Step, Reason: refusal.Err.Error()})
	m.config.Log.Error("plugin swap refused", "version", refusal.Version, "step", refusal.Step, "error", refusal.Err)
	return refusal
}

// sweep removes copies of binaries that are not in use.
func (m *Manager) sweep() {
	if err := m.copies.sweep(); err != nil {
		m.config.Log.Warn("removing unused copies of plugins", "error", err)
	}
}

// step ends the step under way and begins another.
func (m *Manager) step(s *swap, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.begin(name)
}

// detail adds to a step that is over.
func (m *Manager) detail(s *swap, step, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range s.status.Steps {
		if s.status.Steps[i].Name == step {
			s.status.Steps[i].Detail = text
		}
	}
}

// begin is step for those who hold the mutex.
func (s *swap) begin(name string) {
	now := time.Now()
	for i := range s.status.Steps { // the drain, which may stand behind it, took its time
		if step := &s.status.Steps[i]; step.Took == 0 {
			step.Took = now.Sub(step.Began)
		}
	}
	s.status.Step = name
	s.status.Steps = append(s.status.Steps, SwapStep{Name: name, Began: now})
}

// drained notes that the old process's last call has left. The caller holds the
// mutex.
func (s *swap) drained(since time.Time) {
	s.status.Steps = append(s.status.Steps, SwapStep{Name: "drain", Began: since, Took: time.Since(since)})
}

// finish takes a swap off the status. The caller holds the mutex.
func (m *Manager) finish(s *swap) {
	s.over = true
	if m.swap == s {
		m.swap = nil
	}
}
