package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager/rehearsal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// RehearsePolicy says what the result of a rehearsal decides.
type RehearsePolicy string

// The policies.
const (
	RehearseRefuse RehearsePolicy = "refuse" // a failed check refuses a swap, and so does a difference that the version does not declare
	RehearseWarn   RehearsePolicy = "warn"   // a failed check refuses a swap, a difference is a warning
	RehearseOff    RehearsePolicy = "off"    // swaps have no rehearsal
)

// Valid reports whether p is a policy. The zero value is, and means RehearseRefuse.
func (p RehearsePolicy) Valid() bool {
	return slices.Contains([]RehearsePolicy{"", RehearseRefuse, RehearseWarn, RehearseOff}, p)
}

// Ignore names what an administrator's swap goes on in spite of.
type Ignore int

// What can be ignored.
const (
	AcceptDifferences Ignore = iota + 1 // what the rehearsal has found, which is shown
	IgnoreMinAge                        // [Options.MinAge]
)

// The checks of the manager. The others are those of package rehearsal.
const (
	checkRehearsal     = "rehearsal" // that there was none
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

// Rehearse does the steps of a swap from find to preflight, and stops the new process again: neither
// calls nor the database are affected. [Manager.Status] has the result. Rehearse returns the
// errors of [Manager.Use], and nil if a swap would go on. Any version is rehearsed, also with
// [RehearseOff]. A rollback ends a rehearsal.
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

// needsRehearsal reports whether the step rehearse is one of w.
func (m *Manager) needsRehearsal(w *swap) bool {
	return w.status.RehearsalOnly || !w.rollback && m.config.Rehearse != RehearseOff && !m.returns(w.status.To)
}

// rehearse plays the script to the version and to the one that serves, or would, and returns why the
// swap must not go on. A version that has served here is not refused.
func (m *Manager) rehearse(w *swap, entry catalogue.Entry) error {
	m.mu.Lock()
	w.beginStepLocked(stepRehearse)
	m.rehearsal = &RehearsalStatus{Version: w.status.To, Time: time.Now(), Checks: []rpc.RehearsalCheck{}}
	m.mu.Unlock()
	m.setRehearsing(w, true)
	ctx, cancel := context.WithTimeout(w.work, m.limits.RehearseTimeout)
	defer cancel()
	checks, err := m.playScript(ctx, entry)
	m.setRehearsing(w, false)
	if ended := context.Cause(w.work); ended != nil {
		m.showRehearsal(w, nil, rpc.RehearsalSkipped)
		return &StepError{stepRehearse, w.status.To, ended}
	}
	if _, ok := errors.AsType[*StepError](err); ok {
		return err
	}
	if err != nil {
		checks = []rpc.RehearsalCheck{{Name: checkRehearsal, Outcome: rpc.RehearsalFailed, Reason: err.Error()}}
	}
	if err := m.decide(w, nil, checks...); err != nil {
		return &StepError{stepRehearse, w.status.To, err}
	}
	return nil
}

// setRehearsing says whether a rollback may end the swap, which then has the cause errOvertaken.
func (m *Manager) setRehearsing(w *swap, rehearsing bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.rehearsing = rehearsing
}

// playScript rehearses a version against the active one. Without an active one that can be started
// there is nothing to compare, which the first check says.
func (m *Manager) playScript(ctx context.Context, entry catalogue.Entry) ([]rpc.RehearsalCheck, error) {
	c := rehearsal.Config{Dir: m.run.Scratch, Sockets: m.run.Sockets, AccountURL: m.config.AccountURL, Env: m.config.Env}
	if m.config.Locales != nil {
		c.Locales = m.config.Locales()
	}
	var err error
	if c.Settings, err = m.readSettings(ctx); err != nil {
		return nil, err
	}
	binary, release, err := m.copies.stage(ctx, entry)
	if err != nil {
		return nil, &StepError{stepStage, entry.Manifest.Version, err}
	}
	defer m.sweep()
	defer release()
	c.New = rehearsal.Version{Manifest: entry.Manifest, Binary: binary}
	none := rpc.RehearsalCheck{Name: checkRehearsal, Outcome: rpc.RehearsalPassed}
	if before, err := m.find(m.servingVersion()); err != nil {
		none.Reason = "there is no version to compare with: " + err.Error()
	} else {
		binary, release, err := m.copies.stage(ctx, before)
		if err != nil {
			return nil, err
		}
		defer release()
		c.Old = &rehearsal.Version{Manifest: before.Manifest, Binary: binary}
		if c.Changes, err = m.config.Catalogue.ChangesBetween(before.Manifest.Version, entry.Manifest.Version); err != nil {
			return nil, err
		}
	}
	if err := cmp.Or(os.RemoveAll(c.Dir), os.Mkdir(c.Dir, 0o700)); err != nil { // an earlier one may be left
		return nil, err
	}
	defer os.RemoveAll(c.Dir)
	result, err := m.config.script(ctx, c)
	if none.Reason != "" {
		result.Checks = append([]rpc.RehearsalCheck{none}, result.Checks...)
	}
	return result.Checks, err
}

// servingVersion returns the version that serves, or else the one that is active on disk.
func (m *Manager) servingVersion() string {
	m.mu.Lock()
	live := m.live
	m.mu.Unlock()
	if live != nil {
		return live.manifest.Version
	}
	return m.activeVersion()
}

// maxNamed is how many checks an error names. The status has all.
const maxNamed = 5

// decide shows checks beside those that were decided before, records them, and returns why the swap must not go on.
func (m *Manager) decide(w *swap, before []rpc.RehearsalCheck, checks ...rpc.RehearsalCheck) error {
	all := slices.Concat(before, checks)
	m.showRehearsal(w, all, worst(all))
	f := describe(checks, m.config.Rehearse != RehearseWarn)
	if before == nil || len(f.refusals)+len(f.warnings) > 0 {
		m.recordRehearsal(w, worst(checks), f)
	}
	if len(f.refusals) == 0 {
		return nil
	}
	names := strings.Join(f.refusals[:min(len(f.refusals), maxNamed)], "; ")
	if more := len(f.refusals) - maxNamed; more > 0 {
		names += fmt.Sprintf("; and %d more checks", more)
	}
	if slices.Contains(w.ignore, AcceptDifferences) {
		m.emit(Event{Type: EventAccepted, Version: w.status.To, From: w.status.From, Reason: names}, nil)
		m.config.Log.Warn("plugin rehearsal found differences, which the administrator accepts", "version", w.status.To, "differences", names)
		return nil
	}
	if m.returns(w.status.To) {
		m.config.Log.Warn("plugin rehearsal found differences in a version that has served here", "version", w.status.To, "differences", names)
		return nil
	}
	return errors.New(names)
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

// worst returns the worst outcome of the checks.
func worst(checks []rpc.RehearsalCheck) rpc.RehearsalOutcome {
	for _, outcome := range []rpc.RehearsalOutcome{rpc.RehearsalFailed, rpc.RehearsalDiffers} {
		if slices.ContainsFunc(checks, func(c rpc.RehearsalCheck) bool { return c.Outcome == outcome }) {
			return outcome
		}
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
			where = append(where, d.String())
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
		case c.Outcome == rpc.RehearsalDiffers, c.Name == checkRehearsal:
			f.warnings = append(f.warnings, text)
		}
	}
	return f
}
