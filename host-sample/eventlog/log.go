package eventlog

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/personal"
)

// fileLimit is how large the file grows, in bytes: some 400,000 events.
const fileLimit = 64 << 20

// Log appends events to a file. A full one becomes PATH.1, in place of the one
// before: together they take 128 MiB at most. Events are delivered at least once:
// a reader tells a repeated one by its id. A Log is safe for concurrent use.
type Log struct{ lines *durable.Lines }

// line is the form of an event in the file.
type line struct {
	ID        string             `json:"id"`
	Type      personal.EventType `json:"type"`
	Time      time.Time          `json:"time"`
	UserID    int64              `json:"user_id"`
	Address   string             `json:"address,omitempty"`
	RequestID string             `json:"request_id,omitempty"`
	Actor     personal.Actor     `json:"actor,omitempty"`
	ActorName string             `json:"actor_name,omitempty"`
}

// Open opens the log at path, and makes the file if there is none. Whoever opens
// it closes it.
func Open(path string) (*Log, error) { return open(path, fileLimit) }

func open(path string, limit int64) (*Log, error) {
	lines, err := durable.OpenLines(path, limit)
	if err != nil {
		return nil, fmt.Errorf("opening the event log: %w", err)
	}
	return &Log{lines: lines}, nil
}

// Append keeps an event. When it returns nil the event outlives a power cut.
func (l *Log) Append(e personal.Event) error {
	data, err := json.Marshal(line(e))
	if err == nil {
		err = l.lines.Append(data)
	}
	if err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error {
	if err := l.lines.Close(); err != nil {
		return fmt.Errorf("closing the event log: %w", err)
	}
	return nil
}
