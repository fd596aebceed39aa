package pluginmanager

import (
	"io"
	"os"
)

// pipe is a pipe of the operating system. No child inherits an end of it unless
// it is handed over.
type pipe struct{ r, w *os.File }

// openPipes opens all of the pipes or none.
func openPipes(pipes ...*pipe) error {
	for i, p := range pipes {
		var err error
		if p.r, p.w, err = os.Pipe(); err != nil {
			for _, opened := range pipes[:i] {
				closeAll(opened.r, opened.w)
			}
			return err
		}
	}
	return nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// eof is a reader of nothing.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }
