package eventlog

import (
	"bytes"
	"fmt"
	"io"
)

const (
	blockSize = 64 << 10
	lineLimit = 1 << 20 // no event is as long; what is, is no event
)

// backward gives out the lines of a source from a place on back to its beginning.
type backward struct {
	source io.ReaderAt
	at     int64  // where buffer begins in the source
	buffer []byte // what has been read and not been given out; ends with a line
}

// next returns the line before the last one, without its end, or [io.EOF].
func (b *backward) next() ([]byte, error) {
	for {
		rest := bytes.TrimSuffix(b.buffer, []byte{'\n'})
		if i := bytes.LastIndexByte(rest, '\n'); i >= 0 {
			b.buffer = b.buffer[:i+1]
			return rest[i+1:], nil
		}
		if b.at == 0 && len(b.buffer) == 0 {
			return nil, io.EOF
		}
		if b.at == 0 {
			b.buffer = nil
			return rest, nil
		}
		if err := b.read(); err != nil {
			return nil, fmt.Errorf("reading back: %w", err)
		}
	}
}

// read puts the block before in front of the buffer.
func (b *backward) read() error {
	if len(b.buffer) > lineLimit {
		b.buffer = nil
	}
	size := min(b.at, blockSize)
	block := make([]byte, size, size+int64(len(b.buffer)))
	if n, err := b.source.ReadAt(block, b.at-size); n < len(block) {
		return err
	}
	b.at -= size
	b.buffer = append(block, b.buffer...)
	return nil
}

// before returns how many bytes of the source have not been given out.
func (b *backward) before() int64 { return b.at + int64(len(b.buffer)) }
