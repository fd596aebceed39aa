package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager/internal/process"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// RehearsePolicy says what the result of a rehearsal decides.
type RehearsePolicy string

// The policies.
const (
	RehearseWarn   RehearsePolicy = "warn"   // a failed check refuses a swap, a difference is a warning
	RehearseRefuse RehearsePolicy = "refuse" // a difference refuses a swap, too
	RehearseOff    RehearsePolicy = "off"    // swaps have no rehearsal
)

// Valid reports whether p is a policy. The zero value is, and means RehearseWarn.
func (p RehearsePolicy) Valid() bool {
	return slices.Contains([]RehearsePolicy{"", RehearseWarn, RehearseRefuse, RehearseOff}, p)
}

// Ignore names what an administrator's swap goes on in spite of.
type Ignore int

// What can be ignored.
const (
	IgnoreRehearsal Ignore = iota + 1 // the result of the rehearsal, which is made and shown
	IgnoreMinAge                      // [Options.MinAge]
)

// The checks of the manager. The others are the version's own.
const (
	checkRehearsal     = "rehearsal" // whether there was one in the new process
	checkSameResponses = "same_answers"
)

var errOvertaken = errors.New("a rollback was requested")

// RehearsalStatus is the rehearsal of a version, which is under way or was the last one.
type RehearsalStatus struct {
	Version string               `json:"version"`
	Time    time.Time            `json:"time"`              // when it began
	Outcome rpc.RehearsalOutcome `json:"outcome,omitempty"` // the worst of the checks; empty while it is under way
	Checks  []rpc.RehearsalCheck `json:"checks"`
}

// AgeError says that the host has had a version for too short a time, see
// [Options.MinAge].
type AgeError struct {
	Since  time.Time // UTC
	MinAge time.Duration
}

// Error says when the version can be used.
func (e *AgeError) Error() string {
	return fmt.Sprintf("this host has had the version since %s only, less than the minimum age of %v: wait until %s, or ask for it with \"now\"",
		e.Since.Format(time.RFC3339), e.MinAge, e.Since.Add(e.MinAge).Format(time.RFC3339))
}

// Rehearse brings an installed version up to the step rehearse of a swap, and stops it
// again. Calls are not affected. If the version needs it, the database is migrated, as by a
// swap; migrations only add. [Manager.Status] has the result. Rehearse returns the errors of
// [Manager.Use], and nil if a swap would go on. A version that has served here is rehearsed,
// too, and so is any version with [RehearseOff]. A rollback ends a rehearsal.
//
// When ctx ends, Rehearse returns; the rehearsal goes on.
func (m *Manager) Rehearse(ctx context.Context, version string, ignore ...Ignore) error {
	w := &swap{status: SwapStatus{To: version, RehearsalOnly: true}, ignore: ignore}
	return m.startSwap(ctx, w, func(w *swap) error {
		if err := m.do(func(*supervisor) error { return nil }); err != nil {
			return err
		}
		p, err := m.prepare(w)
		if p != nil {
			m.stop(p)
		}
		m.finishSwap(w)
		return err
	})
}

// returns reports whether a version has served here and so is no news: it serves now, or
// it is the active or the last good one. To swap to it is to restart or to go back, and
// nothing may get in the way of that.
func (m *Manager) returns(version string) bool {
	m.mu.Lock()
	live := m.live
	m.mu.Unlock()
	state, err := m.config.Catalogue.LoadState()
	return live != nil && live.manifest.Version == version || err == nil && (version == state.Active || version == state.LastGood)
}

// checkAge refuses a version that this host has not had for long enough.
func (m *Manager) checkAge(w *swap, entry catalogue.Entry) error {
	version := entry.Manifest.Version
	if m.config.MinAge <= 0 || w.rollback || m.returns(version) {
		return nil
	}
	since, err := m.config.Catalogue.FirstSeen(entry)
	if err == nil && time.Since(since) < m.config.MinAge {
		err = &AgeError{Since: since, MinAge: m.config.MinAge}
	}
	if err != nil && slices.Contains(w.ignore, IgnoreMinAge) {
		m.config.Log.Warn("plugin version is younger than the minimum age, which the administrator ignores",
			"version", version, "age", time.Since(since).Round(time.Second), "min_age", m.config.MinAge, "reason", err)
		return nil
	}
	return err
}

// noteVersions records since when the host has the installed versions.
func (m *Manager) noteVersions() {
	entries, err := m.config.Catalogue.List()
	for _, e := range entries {
		if _, failure := m.config.Catalogue.FirstSeen(e); failure != nil {
			err = errors.Join(err, failure)
		}
	}
	if err != nil {
		m.config.Log.Warn("recording since when plugin versions are installed", "error", err)
	}
}

// needsRehearsal reports whether the step rehearse is one of w; nil for a start.
func (m *Manager) needsRehearsal(w *swap) bool {
	switch {
	case w == nil || w.rollback:
		return false
	case w.status.RehearsalOnly:
		return true
	}
	return m.config.Rehearse != RehearseOff && !m.returns(w.status.To)
}

// rehearse has the candidate rehearse and compares its answers with those of the process
// that serves. It returns why the swap must not go on.
func (m *Manager) rehearse(ctx context.Context, p *instance, w *swap) error {
	m.mu.Lock()
	old := m.live
	m.rehearsal = &RehearsalStatus{Version: w.status.To, Time: time.Now(), Checks: []rpc.RehearsalCheck{}}
	m.mu.Unlock()
	checks, lost := m.dressRehearsal(ctx, p)
	m.showRehearsal(w, checks, "")
	if lost == nil {
		var same rpc.RehearsalCheck
		same, lost = m.sameResponses(ctx, p, old)
		checks = append(checks, same)
	}
	if err := w.work.Err(); err != nil {
		m.showRehearsal(w, nil, rpc.RehearsalSkipped)
		return err
	}
	outcome := worst(checks)
	m.showRehearsal(w, checks, outcome)
	findings := describe(checks, m.config.Rehearse == RehearseRefuse)
	m.recordRehearsal(w, outcome, findings)
	switch {
	case lost != nil && (p.IsLost() || !slices.Contains(w.ignore, IgnoreRehearsal)):
		return lost
	case len(findings.refusals) == 0:
		return nil
	case slices.Contains(w.ignore, IgnoreRehearsal):
		p.Log().Warn("plugin rehearsal failed, which the administrator ignores", "findings", strings.Join(findings.refusals, "; "))
		return nil
	}
	return errors.New(strings.Join(findings.refusals, "; "))
}

// dressRehearsal has the candidate rehearse, for three fifths of the time. An error means that it
// has not.
func (m *Manager) dressRehearsal(ctx context.Context, p *instance) ([]rpc.RehearsalCheck, error) {
	limit := m.limits.RehearseTimeout * 3 / 5
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result, err := p.Rehearse(ctx)
	none := func(outcome rpc.RehearsalOutcome, reason string) []rpc.RehearsalCheck {
		return []rpc.RehearsalCheck{{Name: checkRehearsal, Outcome: outcome, Reason: reason}}
	}
	switch {
	case err == nil:
		return result.Checks, nil
	case errors.Is(err, context.DeadlineExceeded):
		checks := none(rpc.RehearsalSkipped, fmt.Sprintf("not finished within %v", limit))
		checks[0].Interrupted = true
		return checks, nil
	}
	p.AwaitLost(ctx, process.ExitNotice)
	return none(rpc.RehearsalFailed, err.Error()), err
}

// showRehearsal puts the checks so far into the status; the outcome is empty while there
// will be more.
func (m *Manager) showRehearsal(w *swap, checks []rpc.RehearsalCheck, outcome rpc.RehearsalOutcome) {
	checks = append([]rpc.RehearsalCheck{}, checks...)
	for i, c := range checks {
		checks[i].Differences = c.Differences[:min(len(c.Differences), rpc.MaxDifferences)]
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w.status.Rehearsal = checks
	m.rehearsal = &RehearsalStatus{Version: w.status.To, Time: m.rehearsal.Time, Outcome: outcome, Checks: checks}
}

// recordFailure reports a rehearsal that could not be made.
func (m *Manager) recordFailure(w *swap, reason string) {
	m.mu.Lock()
	m.rehearsal = &RehearsalStatus{Version: w.status.To, Time: w.status.Started}
	m.mu.Unlock()
	checks := []rpc.RehearsalCheck{{Name: checkRehearsal, Outcome: rpc.RehearsalFailed, Reason: reason}}
	m.showRehearsal(w, checks, rpc.RehearsalFailed)
	m.recordRehearsal(w, rpc.RehearsalFailed, describe(checks, false))
}

// recordRehearsal reports a rehearsal that has ended in the step's details, the log, the
// metrics and an event.
func (m *Manager) recordRehearsal(w *swap, outcome rpc.RehearsalOutcome, f findings) {
	all := slices.Concat(f.refusals, f.warnings)
	reason := string(outcome)
	if len(all) > 0 {
		reason += ": " + strings.Join(all, "; ")
	}
	m.mu.Lock()
	w.status.Steps[len(w.status.Steps)-1].Detail = strings.Join(all, "; ")
	m.rehearsals[outcome]++
	m.mu.Unlock()
	for _, warning := range f.warnings {
		m.config.Log.Warn("plugin rehearsal", "version", w.status.To, "warning", warning)
	}
	m.emit(Event{Type: EventRehearsed, Version: w.status.To, From: w.status.From, Reason: reason}, nil)
}

// worst returns the worst outcome of the checks: skipped only if one was interrupted, or none
// was made.
func worst(checks []rpc.RehearsalCheck) rpc.RehearsalOutcome {
	has := func(f func(rpc.RehearsalCheck) bool) bool { return slices.ContainsFunc(checks, f) }
	for _, outcome := range []rpc.RehearsalOutcome{rpc.RehearsalFailed, rpc.RehearsalDiffers} {
		if has(func(c rpc.RehearsalCheck) bool { return c.Outcome == outcome }) {
			return outcome
		}
	}
	if has(func(c rpc.RehearsalCheck) bool { return c.Interrupted }) ||
		!has(func(c rpc.RehearsalCheck) bool { return c.Outcome == rpc.RehearsalPassed }) {
		return rpc.RehearsalSkipped
	}
	return rpc.RehearsalPassed
}

// findings are what administrators should know of a rehearsal, without values of accounts.
type findings struct {
	refusals []string // what keeps a swap from going on
	warnings []string
}

// describe names the checks that did not pass, with operations and fields. With strict, a
// difference is a refusal.
func describe(checks []rpc.RehearsalCheck, strict bool) (f findings) {
	for _, c := range checks {
		text := c.Name + " " + string(c.Outcome)
		var where []string
		for _, d := range c.Differences[:min(len(c.Differences), rpc.MaxDifferences)] {
			where = append(where, strings.TrimSpace(d.Operation+" "+d.Field))
		}
		if len(where) > 0 {
			text += " in " + strings.Join(where, ", ")
		}
		if c.Reason != "" {
			text += " (" + c.Reason + ")"
		}
		switch {
		case c.Outcome == rpc.RehearsalFailed, c.Outcome == rpc.RehearsalDiffers && strict:
			f.refusals = append(f.refusals, text)
		case c.Outcome == rpc.RehearsalDiffers, c.Name == checkRehearsal, c.Interrupted:
			f.warnings = append(f.warnings, text)
		}
	}
	return f
}
