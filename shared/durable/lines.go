package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
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

// Close closes the file. Parts that were opened stay open.
func (l *Lines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// Part is one of the two files as it stood when it was opened: whole lines, empty
// where there is no file.
type Part struct {
	*io.SectionReader
	file *os.File // nil where there is none
}

// Parts opens both files for reading, the older first. Whoever asks closes them.
// They stay as they are, whatever is appended meanwhile.
func (l *Lines) Parts() (older, newer Part, err error) {
	l.mu.Lock() // the files do not change places meanwhile
	defer l.mu.Unlock()
	if older, err = openPart(l.aside(), math.MaxInt64); err != nil {
		return Part{}, Part{}, err
	}
	if newer, err = openPart(l.path, l.size); err != nil {
		return Part{}, Part{}, errors.Join(err, older.Close())
	}
	return older, newer, nil
}

// openPart opens a file up to a size: behind it may stand half a line.
func openPart(path string, most int64) (Part, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Part{SectionReader: io.NewSectionReader(strings.NewReader(""), 0, 0)}, nil
	}
	if err != nil {
		return Part{}, err
	}
	info, err := file.Stat()
	if err != nil {
		return Part{}, errors.Join(fmt.Errorf("looking at %s: %w", path, err), file.Close())
	}
	return Part{SectionReader: io.NewSectionReader(file, 0, min(info.Size(), most)), file: file}, nil
}

// Close closes the part's file.
func (p Part) Close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
