package eventlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/personal"
)

// Position is a place between two events. The zero value is the beginning.
type Position struct {
	Before int64 // bytes before it, counted from the beginning of the older file
	Older  int64 // size of that file, which tells whether it is still the same
}

// End is the position behind the newest event, whichever that is by then.
func End() Position { return Position{Before: math.MaxInt64} }

// Reader reads events, the newest first. It holds a block of the file in memory,
// however large the file is.
type Reader struct {
	older, newer durable.Part
	lines        backward
}

// Read returns a reader of what was logged before a position. It sees what was
// there when it was made, and must be closed. A position survives one turn of the
// log; after more it may be another one's.
func (l *Log) Read(from Position) (*Reader, error) {
	older, newer, err := l.lines.Parts()
	if err != nil {
		return nil, fmt.Errorf("reading the event log: %w", err)
	}
	r := &Reader{older: older, newer: newer}
	r.lines = backward{source: r, at: r.place(from)}
	return r, nil
}

// place returns how many bytes lie before a position now. When the files have
// changed places since, what was the newer one is the older one.
func (r *Reader) place(p Position) int64 {
	if p.Older != r.older.Size() {
		p.Before -= p.Older
	}
	return max(0, min(p.Before, r.older.Size()+r.newer.Size()))
}

// Next returns the event before the one it returned last, or [io.EOF]. It passes
// over lines that are none.
func (r *Reader) Next() (personal.Event, error) {
	for {
		data, err := r.lines.next()
		if err != nil {
			return personal.Event{}, err
		}
		var l line
		if json.Unmarshal(data, &l) == nil && l.Type != "" {
			return personal.Event(l), nil
		}
	}
}

// Position is where the last event begins: a reader from there goes on with the
// one before.
func (r *Reader) Position() Position {
	return Position{Before: r.lines.before(), Older: r.older.Size()}
}

// ReadAt reads from the two files as if they were one.
func (r *Reader) ReadAt(p []byte, at int64) (int, error) {
	if at >= r.older.Size() {
		return r.newer.ReadAt(p, at-r.older.Size())
	}
	n := min(int64(len(p)), r.older.Size()-at)
	read, err := r.older.ReadAt(p[:n], at)
	if err != nil || n == int64(len(p)) {
		return read, err
	}
	more, err := r.newer.ReadAt(p[n:], 0)
	return read + more, err
}

// Close closes the files.
func (r *Reader) Close() error { return errors.Join(r.older.Close(), r.newer.Close()) }

var _ io.ReaderAt = (*Reader)(nil)
