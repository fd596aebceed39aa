package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// eventLog appends events to a file, one JSON object on a line. Events are
// delivered at least once: a reader tells a repeated one by its id. It is safe
// for concurrent use.
type eventLog struct {
	mu   sync.Mutex
	file *os.File
	size int64 // of the file, up to the end of the last whole line
}

// loggedEvent is the form of a line.
type loggedEvent struct {
	ID        string             `json:"id"`
	Type      personal.EventType `json:"type"`
	Time      time.Time          `json:"time"`
	UserID    int64              `json:"user_id"`
	Address   string             `json:"address,omitempty"`
	RequestID string             `json:"request_id,omitempty"`
}

func openEventLog(path string) (*eventLog, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the event log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the event log: %w", err), file.Close())
	}
	return &eventLog{file: file, size: info.Size()}, nil
}

// append keeps an event. When it returns nil the event outlives a power cut.
func (l *eventLog) append(e personal.Event) error {
	line, err := json.Marshal(loggedEvent(e))
	if err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.file.Write(append(line, '\n'))
	if err == nil {
		l.size += int64(n)
		err = l.file.Sync()
	} else {
		err = errors.Join(err, l.file.Truncate(l.size)) // no half line before the next
	}
	if err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	return nil
}

func (l *eventLog) close() error { return l.file.Close() }
