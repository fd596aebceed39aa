package pluginmanager

import "time"

// EventType is what a [Event] tells of.
type EventType string

// The kinds of record.
const (
	EventSwapStarted   EventType = "begun"       // a swap was asked for
	EventSwitched      EventType = "switched"    // calls go to the new process, which is on trial
	EventSwapRefused   EventType = "refused"     // a swap came to nothing, at Step for Reason
	EventRolledBack    EventType = "rolled_back" // calls go to the old version again
	EventSwapCompleted EventType = "settled"     // the new version is the active one
	EventProcessLost   EventType = "lost"        // a process that served died or hung
	EventRestarted     EventType = "restarted"   // another one took its place
	EventFellBack      EventType = "fell_back"   // the active version gave way to the last good one
	EventGaveUp        EventType = "gave_up"     // the active version has failed; it is tried again slowly
)

// Event is one event in the plugin's life.
type Event struct {
	Time       time.Time `json:"time"`
	Type       EventType `json:"kind"`
	Version    string    `json:"version,omitempty"` // it is about; of a rollback, the one gone back to
	From       string    `json:"from,omitempty"`    // the version before
	Generation int       `json:"generation,omitempty"`
	PID        int       `json:"pid,omitempty"`
	Step       string    `json:"step,omitempty"`
	Reason     string    `json:"reason,omitempty"` // for administrators
}

// note tells the journal. The caller does not hold the mutex.
func (m *Manager) note(r Event) {
	r.Time = time.Now()
	m.config.OnEvent(r)
}

// of returns a record about a process.
func (k EventType) of(p *process) Event {
	return Event{Type: k, Version: p.version, Generation: p.generation, PID: p.child.pid()}
}
