package manager

import (
	"cmp"
	"slices"
	"time"

	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// State is the state of a manager.
type State string

// The states of a manager.
const (
	StateStopped    State = "stopped"
	StateStarting   State = "starting"   // the first process is being started; calls wait
	StateServing    State = "serving"    // calls are served
	StateBaking     State = "baking"     // a new version serves the calls; the old process stays warm
	StateRestarting State = "restarting" // another process is being started; calls wait
	StateDraining   State = "draining"   // the manager stops; calls are refused. Of an old process: it gets no new calls
	StateFailed     State = "failed"     // starts fail; calls are refused; starts are tried again slowly
)

// Serves reports whether calls are served.
func (s State) Serves() bool { return s == StateServing || s == StateBaking }

// Status describes a manager at one moment.
type Status struct {
	Active

	Previous *VersionStatus `json:"previous,omitempty"` // the process before, kept warm or being retired
	Swap     *SwapStatus    `json:"swap,omitempty"`     // from Use until the old process has ended

	Rehearsal *RehearsalStatus `json:"rehearsal,omitempty"` // the one under way, or the last one since the host started
}

// Active describes what serves.
type Active struct {
	Version    string    `json:"version"`    // of the live process; zero, like the next two, if there is none
	Generation int       `json:"generation"` // rises with every process started
	PID        int       `json:"pid"`
	State      State     `json:"state"`
	Started    time.Time `json:"started,omitzero"`     // when the live process began to serve; zero if there is none
	Restarts   int       `json:"restarts"`             // processes that replaced one that was lost
	LastError  string    `json:"last_error,omitempty"` // why the last process failed or was lost; for administrators
	Warnings   []string  `json:"warnings,omitempty"`   // of the live process, which is healthy nevertheless; for administrators

	UnknownSettings []UnknownSetting `json:"unknown_settings,omitempty"` // that the live process ignores
}

// UnknownSetting is a key of the settings file that a version ignores because it does not
// know it. If another installed version knows it, that is a warning. If none does, it is an
// error, which refuses a swap that an administrator asks for.
type UnknownSetting struct {
	rpc.UnknownSetting
	KnownBy string `json:"known_by,omitempty"` // the highest installed version that knows it; empty: none does
}

// String says what is wrong, for administrators.
func (u UnknownSetting) String() string {
	if u.KnownBy != "" {
		return u.Key + " is ignored: version " + u.KnownBy + " knows it, this one does not"
	}
	return "unknown key: " + u.UnknownSetting.String()
}

// VersionStatus describes one process.
type VersionStatus struct {
	Version    string `json:"version"`
	Generation int    `json:"generation"`
	PID        int    `json:"pid"`
	State      State  `json:"state"`
}

// The steps of a swap, in their order. The admin API and plugin events have these names.
const (
	stepFind        = "find"
	stepRehearse    = "rehearse"
	stepStage       = "stage"
	stepStart       = "start"
	stepConfigure   = "configure"
	stepPreflight   = "preflight"
	stepMigrate     = "migrate"
	stepCheck       = "check"
	stepSameAnswers = "same_answers"
	stepSettle      = "settle" // complete an earlier bake
	stepSwitch      = "switch"
	stepWorkers     = "workers"
	stepBake        = "bake"
	stepDrain       = "drain" // the calls under way in the old process; beside the bake
	stepRetire      = "retire"
)

// SwapStatus describes a swap. Its steps are find, rehearse (unless there is no rehearsal, see
// [Manager.Use]), stage, start, configure, preflight, migrate, check, same_answers (with a rehearsal only), settle (complete an earlier bake), switch, workers, bake and retire. The step drain, the
// calls under way in the old process, runs beside the bake.
type SwapStatus struct {
	From    string     `json:"from"`
	To      string     `json:"to"`
	Step    string     `json:"step"` // the current one
	Started time.Time  `json:"started"`
	Steps   []SwapStep `json:"steps"`

	RehearsalOnly bool                 `json:"rehearsal_only,omitempty"` // it ends after preflight: [Manager.Rehearse]
	Rehearsal     []rpc.RehearsalCheck `json:"rehearsal,omitempty"`      // the checks so far
}

// SwapStep describes one step.
type SwapStep struct {
	Name   string        `json:"name"`
	Began  time.Time     `json:"began"`
	Took   time.Duration `json:"took"`             // nanoseconds; 0 while it is under way
	Detail string        `json:"detail,omitempty"` // warnings of the preflight, what the rehearsal has found
}

// Status returns the manager's status.
func (m *Manager) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Status{Active: Active{State: m.state, Restarts: m.restarts}}
	if m.lastErr != nil {
		s.LastError = m.lastErr.Error()
	}
	if p := m.live; p != nil {
		s.Version, s.Generation, s.PID, s.Started = p.manifest.Version, p.generation, p.PID(), p.ready
		if warnings := p.warnings.Load(); warnings != nil {
			s.Warnings = *warnings
		}
		s.UnknownSettings = p.unknown
	}
	s.Rehearsal = m.rehearsal
	if p := m.previous; p != nil {
		s.Previous = &VersionStatus{p.manifest.Version, p.generation, p.PID(), StateDraining}
	}
	if current := cmp.Or(m.pending, m.swap); current != nil {
		swap := current.snapshot()
		s.Swap = &swap
	}
	return s
}

// snapshot copies the status. The caller holds the mutex.
func (w *swap) snapshot() SwapStatus {
	copied := w.status
	copied.Steps = slices.Clone(copied.Steps)
	return copied
}

// beginStep ends the current step of a swap and begins another. A nil swap, of a
// start, has no steps.
func (m *Manager) beginStep(w *swap, name string) {
	if w == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w.beginStepLocked(name)
}

func (w *swap) beginStepLocked(name string) {
	now := time.Now()
	for i := range w.status.Steps { // the drain, which has ended, may be the last
		if step := &w.status.Steps[i]; step.Took == 0 {
			step.Took = now.Sub(step.Began)
		}
	}
	w.status.Step = name
	w.status.Steps = append(w.status.Steps, SwapStep{Name: name, Began: now})
}

// EventType is the type of an [Event].
type EventType string

// The types of events.
const (
	EventSwapStarted EventType = "begun"       // a swap was requested
	EventSwitched    EventType = "switched"    // calls go to the new process, which bakes
	EventSwapRefused EventType = "refused"     // a swap failed at Step for Reason
	EventRolledBack  EventType = "rolled_back" // calls go to the old version again
	EventSwapSettled EventType = "settled"     // the new version is the active one
	EventRehearsed   EventType = "rehearsed"   // a rehearsal has ended; Reason begins with its outcome
	EventAccepted    EventType = "accepted"    // an administrator goes on in spite of the differences that Reason names
	EventProcessLost EventType = "lost"        // a process that served died or hung
	EventRestarted   EventType = "restarted"   // another process replaced it
	EventFellBack    EventType = "fell_back"   // the last good version replaced the active one, or that one returned because the other is refused
	EventGaveUp      EventType = "gave_up"     // the active version has failed; it is tried again slowly
)

// Event is an entry of the plugin's log.
type Event struct {
	Time       time.Time `json:"time"`
	Type       EventType `json:"kind"`
	Version    string    `json:"version,omitempty"` // of a rollback, the version that serves again
	From       string    `json:"from,omitempty"`    // the previous version
	Generation int       `json:"generation,omitempty"`
	PID        int       `json:"pid,omitempty"`
	Step       string    `json:"step,omitempty"`
	Reason     string    `json:"reason,omitempty"` // for administrators
}

// emit reports an event, about process p unless that is nil. The caller does not
// hold the mutex.
func (m *Manager) emit(e Event, p *instance) {
	e.Time = time.Now()
	if p != nil {
		e.Version, e.Generation, e.PID = p.manifest.Version, p.generation, p.PID()
	}
	if e.Type != EventSwapRefused || e.Step != stepWorkers { // after the switch: it was rolled back
		m.mu.Lock()
		m.events[e.Type]++
		m.mu.Unlock()
	}
	m.config.OnEvent(e)
}
