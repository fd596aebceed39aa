package pluginmanager

import (
	"slices"
	"time"
)

// State is what a manager is about.
type State string

// The states of a manager.
const (
	StateStopped    State = "stopped"
	StateStarting   State = "starting"   // the first process is on its way; calls wait
	StateServing    State = "serving"    // calls are answered
	StateBaking     State = "baking"     // calls are answered by a version on trial; the old process is kept warm
	StateRestarting State = "restarting" // another process is on its way; calls wait
	StateDraining   State = "draining"   // stopping; calls are refused. Of an old process: it gets no new calls
	StateFailed     State = "failed"     // starts fail; calls are refused; tried again now and then
)

// Serves reports whether calls are answered.
func (s State) Serves() bool { return s == StateServing || s == StateBaking }

// Status describes a manager at one moment.
type Status struct {
	State      State     `json:"state"`
	Version    string    `json:"version,omitempty"`    // of the live process; these four are zero if there is none
	Generation int       `json:"generation,omitempty"` // rises with every process started
	PID        int       `json:"pid,omitempty"`
	Started    time.Time `json:"started,omitzero"`     // when it began to serve
	Restarts   int       `json:"restarts"`             // processes that took the place of a dead one
	LastError  string    `json:"last_error,omitempty"` // why the last process failed or died; for administrators

	Previous *VersionStatus `json:"previous,omitempty"` // the process before, kept warm or on its way out
	Swap     *SwapStatus    `json:"swap,omitempty"`     // from Use until the old process has ended
}

// VersionStatus describes one process.
type VersionStatus struct {
	Version    string `json:"version"`
	Generation int    `json:"generation"`
	PID        int    `json:"pid"`
	State      State  `json:"state"`
}

// SwapStatus describes a swap. Its steps are find, stage, start, configure,
// preflight, migrate, check, settle (an earlier swap), switch, workers, bake and
// retire; beside the bake the old process's calls drain.
type SwapStatus struct {
	From    string     `json:"from"`
	To      string     `json:"to"`
	Step    string     `json:"step"` // under way
	Started time.Time  `json:"started"`
	Steps   []SwapStep `json:"steps"`
}

// SwapStep tells of one step.
type SwapStep struct {
	Name   string        `json:"name"`
	Began  time.Time     `json:"began"`
	Took   time.Duration `json:"took"`             // nanoseconds; 0 while it is under way
	Detail string        `json:"detail,omitempty"` // what the preflight warns of
}

// Status returns the manager's status.
func (m *Manager) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Status{State: m.state, Restarts: m.restarts}
	if m.fault != nil {
		s.LastError = m.fault.Error()
	}
	if p := m.live; p != nil {
		s.Version, s.Generation, s.PID, s.Started = p.version, p.generation, p.child.pid(), p.ready
	}
	if p := m.previous; p != nil {
		s.Previous = &VersionStatus{p.version, p.generation, p.child.pid(), StateDraining}
	}
	if m.swap != nil {
		swap := m.swap.snapshot()
		s.Swap = &swap
	}
	return s
}

// snapshot copies the status. The caller holds the mutex.
func (s *swap) snapshot() SwapStatus {
	copied := s.status
	copied.Steps = slices.Clone(copied.Steps)
	return copied
}
