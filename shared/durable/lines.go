package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Lines is a file of lines that takes more at its end. A full one becomes PATH.1,
// in place of the one before. It is safe for concurrent use, and meant for one
// process.
type Lines struct {
	path  string
	limit int64 // of a file, in bytes

	mu   sync.Mutex
	file *os.File
	size int64 // of file, up to the end of the last whole line
}

// OpenLines opens the file at path, and makes it, with mode 0600, if there is
// none. limit is how many bytes it grows to: both files together take twice that.
// Whoever opens it closes it.
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

// Append adds a line, given without its end. When it returns nil the line
// outlives a power cut; when it fails, there is no part of it: nothing, or where the
// disk could not say, the whole.
func (l *Lines) Append(line []byte) error {
	line = append(line[:len(line):len(line)], '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(line)) > l.limit {
		if err := l.turn(); err != nil {
			return err
		}
	}
	if _, err := l.file.Write(line); err != nil {
		return errors.Join(err, l.file.Truncate(l.size)) // no half line before the next
	}
	l.size += int64(len(line))
	return l.file.Sync()
}

// turn puts the full file aside. If that fails the next line tries again.
func (l *Lines) turn() error {
	full := l.file
	if err := os.Rename(l.path, l.aside()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := l.open(); err != nil {
		return err
	}
	return errors.Join(full.Close(), SyncDir(filepath.Dir(l.path)))
}

func (l *Lines) aside() string { return l.path + ".1" }

// Close closes the file.
func (l *Lines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// Read returns the lines of both files, the older file first.
func (l *Lines) Read() ([]byte, error) {
	l.mu.Lock() // the files do not change places meanwhile
	defer l.mu.Unlock()
	older, err := readIfExists(l.aside())
	if err != nil {
		return nil, err
	}
	newer, err := readIfExists(l.path)
	if err != nil {
		return nil, err
	}
	return append(older, newer[:min(int64(len(newer)), l.size)]...), nil // behind size may stand half a line
}

func readIfExists(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
