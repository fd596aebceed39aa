package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

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
	stuck     string             // why it has not ended although its time is over
	worse     []string           // what the new version does worse
	warned    []string           // of that, what was logged
}

// finishBake completes a bake whose time is over, unless the last health check
// failed: then the bake goes on. A version that was removed since is rolled
// back, because it could not be started again after a crash.
func (s *supervisor) finishBake() {
	s.compareFigures()
	why := errUnhealthy
	if s.unhealthy == 0 {
		err := s.completeBake()
		if err != nil {
			s.config.Log.Error("completing the plugin's bake", "error", err)
		}
		if isRefused(err) {
			s.rollBackIfBetter(err)
		}
		why = err
	}
	if s.bake.swap != nil {
		s.mu.Lock()
		s.bake.stuck = "the bake cannot end: " + why.Error()
		s.bake.showLocked()
		s.mu.Unlock()
		s.bake.over = time.After(s.limits.HealthInterval)
	}
}

// showLocked shows in the status of the swap what there is to say about the bake.
func (b *bake) showLocked() {
	details := b.worse
	if b.stuck != "" {
		details = append([]string{b.stuck}, details...)
	}
	for i := range b.swap.status.Steps {
		if step := &b.swap.status.Steps[i]; step.Name == stepBake {
			step.Detail = strings.Join(details, "; ")
		}
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
	b.stuck = ""
	b.showLocked()
	b.swap.beginStepLocked(stepRetire)
	s.mu.Unlock()
	s.emit(Event{Type: EventSwapSettled, From: b.from}, s.live)
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
	next := catalogue.State{Active: version, LastGood: state.LastGood}
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
	case isPermanent(err) && s.completeRefused(err):
		s.handleLoss(cause)
	default:
		s.live.Log().Warn("plugin is not rolled back, the old version could not serve either", "error", cause, "old", err)
	}
}

// completeRefused completes the bake of a version that failed, because the old version is
// refused, and reports whether it did. The new version is then started again: it is the
// only one that can run.
func (s *supervisor) completeRefused(refusal error) bool {
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
// changed since: a newer version on another node may have migrated it to a schema that the
// old version does not support. The live process gets the calls until then. A
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
	// Not PreflightTimeout: the supervisor does nothing else during a preflight.
	refusal := within(s.work, min(s.limits.PreflightTimeout, s.limits.HealthTimeout), b.old, func(ctx context.Context) error {
		return s.preflight(ctx, b.old, catalogue.Manifest{}, nil, true)
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
