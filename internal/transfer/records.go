package transfer

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// maxRecord is the longest record that is read, in bytes. It bounds the memory.
const maxRecord = 1 << 20

// lines reads a file line by line and knows where it is.
type lines struct {
	r      *bufio.Reader
	number int   // of the line read last, from 1
	offset int64 // of what follows it
}

func newLines(file io.Reader) *lines {
	l := &lines{r: bufio.NewReaderSize(file, maxRecord)}
	if mark, _ := l.r.Peek(3); string(mark) == "\ufeff" { // as Excel writes it
		n, _ := l.r.Discard(len(mark))
		l.offset = int64(n)
	}
	return l
}

// errTooLong says that a line is longer than maxRecord. It has been passed over.
var errTooLong = fmt.Errorf("longer than %d bytes", maxRecord)

// next returns the next line with its end, good until the next call, or io.EOF,
// or errTooLong.
func (l *lines) next() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	l.offset += int64(len(line))
	tooLong := false
	for errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		line, err = l.r.ReadSlice('\n')
		l.offset += int64(len(line))
	}
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0 && !tooLong:
		return nil, io.EOF
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("reading the file: %w", err)
	}
	l.number++
	if tooLong {
		return nil, errTooLong
	}
	return line, nil
}

// record is one row of a file.
type record struct {
	line    int   // its first, from 1
	end     int64 // offset of what follows it
	columns map[string]personal.Input
	stored  userfields.Values // the user fields of an export, to be taken as they are
	fault   string            // why it can't be read; "" if it can
}

// records are what a file is read by: one record after another, then io.EOF. An
// error other than that ends the import.
type records interface {
	next() (record, error)
}
