package pluginmanager

import "time"

// State is what a manager is about.
type State string

// The states of a manager.
const (
	StateStopped    State = "stopped"
	StateStarting   State = "starting"   // the first process is on its way; calls wait
	StateServing    State = "serving"    // calls are answered
	StateRestarting State = "restarting" // another process is on its way; calls wait
	StateDraining   State = "draining"   // stopping; calls are refused
	StateFailed     State = "failed"     // starts fail; calls are refused; tried again now and then
)

// Status describes a manager at one moment.
type Status struct {
	State      State     `json:"state"`
	Version    string    `json:"version,omitempty"`    // of the live process; these four are zero if there is none
	Generation int       `json:"generation,omitempty"` // rises with every process started
	PID        int       `json:"pid,omitempty"`
	Started    time.Time `json:"started,omitzero"`     // when it began to serve
	Restarts   int       `json:"restarts"`             // processes that took the place of a dead one
	LastError  string    `json:"last_error,omitempty"` // why the last process failed or died; for administrators
}

// Status returns the manager's status.
func (m *Manager) Status() Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Status{State: m.state, Restarts: max(0, m.served-1)}
	if m.fault != nil {
		s.LastError = m.fault.Error()
	}
	if p := m.live; p != nil {
		s.Version, s.Generation, s.PID, s.Started = p.version, p.generation, p.child.pid(), p.ready
	}
	return s
}
