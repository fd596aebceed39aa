package pluginadmin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/pluginmanager"
)

// EventLog keeps what happens to the plugin in a file, one JSON object on a line,
// so that it outlives the host. It takes 2 MiB at most: a full file of 1 MiB
// becomes PATH.1, in place of the one before. It is safe for concurrent use, and
// meant for one process.
type EventLog struct {
	lines *durable.Lines
	log   *slog.Logger
}

const (
	journalLimit = 1 << 20
	reasonLimit  = 4 << 10 // in bytes
)

// OpenEventLog opens the journal at path and makes the file, with mode 0600, if
// there is none. log is told of records that could not be kept; nil for
// slog.Default(). Whoever opens it closes it, after the manager has stopped.
func OpenEventLog(path string, log *slog.Logger) (*EventLog, error) {
	return openJournal(path, journalLimit, log)
}

func openJournal(path string, limit int64, log *slog.Logger) (*EventLog, error) {
	if log == nil {
		log = slog.Default()
	}
	lines, err := durable.OpenLines(path, limit)
	if err != nil {
		return nil, fmt.Errorf("opening the plugin journal: %w", err)
	}
	return &EventLog{lines: lines, log: log}, nil
}

// Record keeps a record: it is on the disk when Record returns. Its signature is
// that of [pluginmanager.Config.EventLog]. The plugin's life does not hang on it:
// what cannot be kept goes to the log.
func (j *EventLog) Record(r pluginmanager.Event) {
	if len(r.Reason) > reasonLimit {
		r.Reason = strings.ToValidUTF8(r.Reason[:reasonLimit], "") + "…"
	}
	line, err := json.Marshal(r)
	if err == nil {
		err = j.lines.Append(line)
	}
	if err != nil {
		j.log.Error("writing the plugin journal", "error", err, "kind", r.Type, "version", r.Version)
	}
}

// Recent returns the last n records, the newest first. It passes over lines that
// are none.
func (j *EventLog) Recent(n int) ([]pluginmanager.Event, error) {
	data, err := j.lines.Read()
	if err != nil {
		return nil, fmt.Errorf("reading the plugin journal: %w", err)
	}
	var records []pluginmanager.Event
	for _, line := range slices.Backward(bytes.Split(data, []byte{'\n'})) {
		if len(records) >= n {
			break
		}
		var r pluginmanager.Event
		if json.Unmarshal(line, &r) == nil && r.Type != "" {
			records = append(records, r)
		}
	}
	return records, nil
}

// Close closes the file.
func (j *EventLog) Close() error {
	if err := j.lines.Close(); err != nil {
		return fmt.Errorf("closing the plugin journal: %w", err)
	}
	return nil
}
