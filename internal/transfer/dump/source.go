package dump

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Error says why a dump cannot be read, and where. It holds no value of the dump.
type Error struct {
	Line   int // from 1
	Reason string
}

// Error names the line.
func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// source reads a file byte by byte and counts its lines. Its memory does not depend on
// the length of lines.
type source struct {
	r        io.Reader
	buf      []byte
	pos, end int // the bytes that are read and not yet taken
	line     int // of the next byte
	err      error
}

func newSource(r io.Reader) *source { return &source{r: r, buf: make([]byte, 64<<10), line: 1} }

// head returns the first bytes, up to n, at the begin of the file. It takes none.
func (s *source) head(n int) []byte {
	for s.end < n && s.err == nil {
		var read int
		read, s.err = s.r.Read(s.buf[s.end:])
		s.end += read
	}
	return s.buf[:min(n, s.end)]
}

// more reports whether there is a next byte. At the end of the file, and after an error,
// there is none.
func (s *source) more() bool { return s.pos < s.end || s.fill() }

// fill reads on once everything is taken, and reports whether there is a byte.
func (s *source) fill() bool {
	for s.pos == s.end && s.err == nil {
		s.pos = 0
		s.end, s.err = s.r.Read(s.buf)
	}
	return s.pos < s.end
}

// peek returns the next byte without taking it; 0 at the end.
func (s *source) peek() byte {
	if !s.more() {
		return 0
	}
	return s.buf[s.pos]
}

// follows reports whether the next two bytes are a and b.
func (s *source) follows(a, b byte) bool {
	if s.peek() != a || !s.more() {
		return false
	}
	for s.end-s.pos < 2 && s.err == nil {
		s.buf[0] = s.buf[s.pos]
		s.pos, s.end = 0, 1
		var n int
		n, s.err = s.r.Read(s.buf[1:])
		s.end += n
	}
	return s.end-s.pos >= 2 && s.buf[s.pos+1] == b
}

// take takes the next byte, which more has found.
func (s *source) take() byte {
	c := s.buf[s.pos]
	s.pos++
	if c == '\n' {
		s.line++
	}
	return c
}

// accept takes the next byte if it is c.
func (s *source) accept(c byte) bool {
	if !s.more() || s.buf[s.pos] != c {
		return false
	}
	s.take()
	return true
}

// skipTo takes everything up to the next c, and c itself. It returns the first bytes that it
// took, up to the capacity of head, and false if there is no c.
func (s *source) skipTo(c byte, head []byte) ([]byte, bool) {
	head = head[:0]
	for s.more() {
		chunk := s.buf[s.pos:s.end]
		i := bytes.IndexByte(chunk, c)
		if i >= 0 {
			chunk = chunk[:i+1]
		}
		head = append(head, chunk[:min(len(chunk), cap(head)-len(head))]...)
		s.line += bytes.Count(chunk, newline)
		s.pos += len(chunk)
		if i >= 0 {
			return head, true
		}
	}
	return head, false
}

var newline = []byte{'\n'}

// failed returns the error that ended reading, if it was not the end of the file.
func (s *source) failed() error {
	if s.err == nil || errors.Is(s.err, io.EOF) {
		return nil
	}
	return &Error{s.line, "reading the file: " + s.err.Error()}
}

func (s *source) fail(line int, format string, args ...any) error {
	if err := s.failed(); err != nil { // the cause of an early end
		return err
	}
	return &Error{line, fmt.Sprintf(format, args...)}
}
