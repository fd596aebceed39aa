package pluginadmin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cms-personal/personal/shared/pluginmanager"
)

// Journal keeps what happens to the plugin in a file, one JSON object on a line,
// so that it outlives the host. It takes 2 MiB at most: a full file of 1 MiB
// becomes PATH.1, in place of the one before. It is safe for concurrent use, and
// meant for one process.
type Journal struct {
	path  string
	limit int64 // of a file, in bytes
	log   *slog.Logger

	mu   sync.Mutex
	file *os.File
	size int64 // of file, up to the end of the last whole line
}

const (
	journalLimit = 1 << 20
	reasonLimit  = 4 << 10 // in bytes
)

// OpenJournal opens the journal at path and makes the file, with mode 0600, if
// there is none. log is told of records that could not be kept; nil for
// slog.Default(). Whoever opens it closes it, after the manager has stopped.
func OpenJournal(path string, log *slog.Logger) (*Journal, error) {
	if log == nil {
		log = slog.Default()
	}
	j := &Journal{path: path, limit: journalLimit, log: log}
	if err := j.open(); err != nil {
		return nil, fmt.Errorf("opening the plugin journal: %w", err)
	}
	return j, nil
}

// open opens the file. A line that a crash cut short is ended, so that it spoils
// no other; readers pass over it.
func (j *Journal) open() error {
	file, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	size := info.Size()
	last := []byte{'\n'}
	if size > 0 {
		if _, err := file.ReadAt(last, size-1); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	if last[0] != '\n' {
		if _, err := file.Write([]byte{'\n'}); err != nil {
			return errors.Join(err, file.Close())
		}
		size++
	}
	j.file, j.size = file, size
	return nil
}

// Record keeps a record: it is on the disk when Record returns. Its signature is
// that of [pluginmanager.Config.Journal]. The plugin's life does not hang on it:
// what cannot be kept goes to the log.
func (j *Journal) Record(r pluginmanager.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.append(r); err != nil {
		j.log.Error("writing the plugin journal", "error", err, "kind", r.Kind, "version", r.Version)
	}
}

func (j *Journal) append(r pluginmanager.Record) error {
	if len(r.Reason) > reasonLimit {
		r.Reason = strings.ToValidUTF8(r.Reason[:reasonLimit], "") + "…"
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if j.size > 0 && j.size+int64(len(line)) > j.limit {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	if _, err := j.file.Write(line); err != nil {
		return errors.Join(err, j.file.Truncate(j.size)) // no half line before the next
	}
	j.size += int64(len(line))
	return j.file.Sync()
}

// rotate puts the full file aside. If that fails the next record tries again.
func (j *Journal) rotate() error {
	full := j.file
	if err := os.Rename(j.path, j.aside()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := j.open(); err != nil {
		return err
	}
	return errors.Join(full.Close(), syncFolder(filepath.Dir(j.path)))
}

func (j *Journal) aside() string { return j.path + ".1" }

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Recent returns the last n records, the newest first. It passes over lines that
// are none.
func (j *Journal) Recent(n int) ([]pluginmanager.Record, error) {
	data, err := j.read()
	if err != nil {
		return nil, fmt.Errorf("reading the plugin journal: %w", err)
	}
	var records []pluginmanager.Record
	for _, line := range slices.Backward(bytes.Split(data, []byte{'\n'})) {
		if len(records) >= n {
			break
		}
		var r pluginmanager.Record
		if json.Unmarshal(line, &r) == nil && r.Kind != "" {
			records = append(records, r)
		}
	}
	return records, nil
}

// read returns both files, the older first.
func (j *Journal) read() ([]byte, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []byte
	for _, path := range []string{j.aside(), j.path} {
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all = append(append(all, data...), '\n')
	}
	return all, nil
}

// Close closes the file.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.file.Close(); err != nil {
		return fmt.Errorf("closing the plugin journal: %w", err)
	}
	return nil
}
