package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Lines is a file to whose end lines are added. A full file becomes PATH.1, and
// replaces the previous one. It is safe for concurrent use by one process.
type Lines struct {
	path  string
	limit int64 // of a file, in bytes

	mu   sync.Mutex
	file *os.File
	size int64 // of file, up to the end of the last complete line
}

// OpenLines opens the file at path, and creates it with mode 0600 if it does not
// exist. It grows to limit bytes: both files together take twice that. The caller
// closes it.
func OpenLines(path string, limit int64) (*Lines, error) {
	l := &Lines{path: path, limit: limit}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Lines) open() error {
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

// endLine ends a line that a crash cut short, so that the next line is not added to
// it, and returns the file's size.
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

// Append adds a line, which is given without its line end. When it returns nil the
// line survives a power cut. When it fails, no part of the line is in the file,
// unless syncing failed: then the complete line may be.
func (l *Lines) Append(line []byte) error {
	line = append(line[:len(line):len(line)], '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(line)) > l.limit {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	if _, err := l.file.Write(line); err != nil {
		return errors.Join(err, l.file.Truncate(l.size)) // no partial line before the next
	}
	l.size += int64(len(line))
	return l.file.Sync()
}

// rotate renames the full file and opens a new one. If that fails the next line
// tries again.
func (l *Lines) rotate() error {
	full := l.file
	if err := os.Rename(l.path, l.fullPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := l.open(); err != nil {
		return err
	}
	return errors.Join(full.Close(), SyncDir(filepath.Dir(l.path)))
}

func (l *Lines) fullPath() string { return l.path + ".1" }

// Close closes the file.
func (l *Lines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// Read returns the lines of both files, the full file first.
func (l *Lines) Read() ([]byte, error) {
	l.mu.Lock() // against rotation
	defer l.mu.Unlock()
	full, err := os.ReadFile(l.fullPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	current, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return append(full, current[:min(int64(len(current)), l.size)]...), nil // a partial line may follow
}
