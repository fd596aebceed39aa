package eventlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// fileLimit is how large the file grows, in bytes: some 400,000 events.
const fileLimit = 64 << 20

// Log appends events to a file. A full one becomes PATH.1, in place of the one
// before: together they take 128 MiB at most. Events are delivered at least once:
// a reader tells a repeated one by its id. A Log is safe for concurrent use.
type Log struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64 // of file, up to the end of the last whole line
}

// line is the form of an event in the file.
type line struct {
	ID        string             `json:"id"`
	Type      personal.EventType `json:"type"`
	Time      time.Time          `json:"time"`
	UserID    int64              `json:"user_id"`
	Address   string             `json:"address,omitempty"`
	RequestID string             `json:"request_id,omitempty"`
}

// Open opens the log at path, and makes the file if there is none. Whoever opens
// it closes it.
func Open(path string) (*Log, error) {
	l := &Log{path: path, limit: fileLimit}
	if err := l.open(); err != nil {
		return nil, fmt.Errorf("opening the event log: %w", err)
	}
	return l, nil
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	size, err := endLine(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	l.file, l.size = file, size
	return nil
}

// endLine ends a line that a crash cut short, so that it spoils no other, and
// returns the file's size.
func endLine(file *os.File) (int64, error) {
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, info.Size()-1); err != nil {
		return 0, err
	}
	if last[0] == '\n' {
		return info.Size(), nil
	}
	_, err = file.Write([]byte{'\n'})
	return info.Size() + 1, err
}

// Append keeps an event. When it returns nil the event outlives a power cut.
func (l *Log) Append(e personal.Event) error {
	data, err := json.Marshal(line(e))
	if err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.append(append(data, '\n')); err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	return nil
}

func (l *Log) append(data []byte) error {
	if l.size > 0 && l.size+int64(len(data)) > l.limit {
		if err := l.turn(); err != nil {
			return err
		}
	}
	if _, err := l.file.Write(data); err != nil {
		return errors.Join(err, l.file.Truncate(l.size)) // no half line before the next
	}
	l.size += int64(len(data))
	return l.file.Sync()
}

// turn puts the full file aside. If that fails the next event tries again.
func (l *Log) turn() error {
	full := l.file
	if err := os.Rename(l.path, l.aside()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := l.open(); err != nil {
		return err
	}
	return errors.Join(full.Close(), syncFolder(filepath.Dir(l.path)))
}

func (l *Log) aside() string { return l.path + ".1" }

// syncFolder makes a rename in a folder outlive a power cut.
func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("closing the event log: %w", err)
	}
	return nil
}
