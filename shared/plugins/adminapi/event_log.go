package adminapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

const (
	maxEventLog = 1 << 20 // size of a file, in bytes
	maxReason   = 4 << 10 // in bytes
)

// EventLog stores plugin events in a file, one JSON object per line. It takes up to
// 2 MiB: a full file of 1 MiB becomes PATH.1, and replaces the previous one. It is safe
// for concurrent use by one process.
type EventLog struct {
	lines *durable.Lines
	log   *slog.Logger
}

// OpenEventLog opens the file at path, and creates it with mode 0600 if it does not
// exist. log gets errors of writing; nil for slog.Default(). The caller closes the
// EventLog, after the manager has stopped.
func OpenEventLog(path string, log *slog.Logger) (*EventLog, error) {
	return openEventLog(path, maxEventLog, log)
}

func openEventLog(path string, limit int64, log *slog.Logger) (*EventLog, error) {
	lines, err := durable.OpenLines(path, limit)
	if err != nil {
		return nil, fmt.Errorf("opening the plugin's event log: %w", err)
	}
	return &EventLog{lines: lines, log: cmp.Or(log, slog.Default())}, nil
}

// Append stores an event: it is on disk when Append returns. It is meant for
// [manager.Options.OnEvent]. An event that cannot be stored goes to the log,
// because the manager does not depend on it. Append cuts a long reason.
func (l *EventLog) Append(e manager.Event) {
	if len(e.Reason) > maxReason {
		e.Reason = strings.ToValidUTF8(e.Reason[:maxReason], "") + "…"
	}
	line, err := json.Marshal(e)
	if err == nil {
		err = l.lines.Append(line)
	}
	if err != nil {
		l.log.Error("writing the plugin's event log", "error", err, "kind", e.Type, "version", e.Version)
	}
}

// Recent returns the last n events, the latest first. It skips invalid
// lines.
func (l *EventLog) Recent(n int) ([]manager.Event, error) {
	data, err := l.lines.Read()
	if err != nil {
		return nil, fmt.Errorf("reading the plugin's event log: %w", err)
	}
	var events []manager.Event
	for _, line := range slices.Backward(bytes.Split(data, []byte{'\n'})) {
		if len(events) >= n {
			break
		}
		var e manager.Event
		if json.Unmarshal(line, &e) == nil && e.Type != "" {
			events = append(events, e)
		}
	}
	return events, nil
}

// Close closes the file.
func (l *EventLog) Close() error {
	if err := l.lines.Close(); err != nil {
		return fmt.Errorf("closing the plugin's event log: %w", err)
	}
	return nil
}
