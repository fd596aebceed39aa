package pluginmanager

import "time"

// Kind is what a [Record] tells of.
type Kind string

// The kinds of record.
const (
	KindBegun      Kind = "begun"       // a swap was asked for
	KindSwitched   Kind = "switched"    // calls go to the new process, which is on trial
	KindRefused    Kind = "refused"     // a swap came to nothing, at Step for Reason
	KindRolledBack Kind = "rolled_back" // calls go to the old version again
	KindSettled    Kind = "settled"     // the new version is the active one
	KindLost       Kind = "lost"        // a process that served died or hung
	KindRestarted  Kind = "restarted"   // another one took its place
	KindFellBack   Kind = "fell_back"   // the active version gave way to the last good one
	KindGaveUp     Kind = "gave_up"     // the active version has failed; it is tried again slowly
)

// Record is one event in the plugin's life.
type Record struct {
	Time       time.Time `json:"time"`
	Kind       Kind      `json:"kind"`
	Version    string    `json:"version,omitempty"` // it is about; of a rollback, the one gone back to
	From       string    `json:"from,omitempty"`    // the version before
	Generation int       `json:"generation,omitempty"`
	PID        int       `json:"pid,omitempty"`
	Step       string    `json:"step,omitempty"`
	Reason     string    `json:"reason,omitempty"` // for administrators
}

// note tells the journal. The caller does not hold the mutex.
func (m *Manager) note(r Record) {
	r.Time = time.Now()
	m.config.Journal(r)
}

// of returns a record about a process.
func (k Kind) of(p *process) Record {
	return Record{Kind: k, Version: p.version, Generation: p.generation, PID: p.child.pid()}
}
