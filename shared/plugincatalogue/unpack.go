package plugincatalogue

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
)

// maxPadding bounds the zeros behind a tar's end, in bytes: GNU tar fills up to
// a record of 10 KiB.
const maxPadding = 10 << 10

// unpacked is what a bundle held. The binary is on disk.
type unpacked struct {
	sum       string // sha256 of the binary
	manifest  []byte
	signature []byte // nil if there is none
}

// unpack reads a bundle to its end and writes the binary, and nothing else, into
// dir. Every fault of the bundle is a refusal of kind [ErrInvalid]; a reader
// that fails is not.
func unpack(ctx context.Context, r io.Reader, dir string) (unpacked, error) {
	source := &sourceReader{r: contextReader{ctx, r}}
	raw := bufio.NewReader(source)
	zip, err := gzip.NewReader(raw)
	if err != nil {
		return unpacked{}, source.judge(err)
	}
	zip.Multistream(false)

	u, err := source.unpackTar(tar.NewReader(zip), dir)
	if err != nil {
		return unpacked{}, err
	}
	if err := source.checkPadding(zip); err != nil {
		return unpacked{}, err
	}
	if _, err := raw.ReadByte(); !errors.Is(err, io.EOF) {
		return unpacked{}, source.judge(errors.New("data behind its end"))
	}
	return u, nil
}

// unpackTar reads the tar's files.
func (s *sourceReader) unpackTar(archive *tar.Reader, dir string) (unpacked, error) {
	var u unpacked
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return u, s.judge(err)
		}
		if err := u.take(h, judgedReader{s, archive}, dir); err != nil {
			return u, err
		}
	}
	if u.sum == "" {
		return u, invalidBundle("no " + Name + " in it")
	}
	if u.manifest == nil {
		return u, invalidBundle("no " + manifestFile + " in it")
	}
	return u, nil
}

// take reads one file, if it is one of the three that a bundle holds and the
// first of its name. The names are compared whole: no path gets through.
func (u *unpacked) take(h *tar.Header, r io.Reader, dir string) (err error) {
	// Records can make a file sparse, and so data out of nothing.
	if h.Typeflag != tar.TypeReg || len(h.PAXRecords) > 0 {
		return invalidBundle(fmt.Sprintf("%.100q is no plain file", h.Name))
	}
	switch {
	case h.Name == Name && u.sum == "":
		if h.Size > maxBinary {
			return invalidBundle(Name + ": " + errHuge.Error())
		}
		u.sum, err = writeBinary(r, filepath.Join(dir, Name))
	case h.Name == manifestFile && u.manifest == nil:
		u.manifest, err = readPacked(h, r)
	case h.Name == signatureFile && u.signature == nil:
		u.signature, err = readPacked(h, r)
	case h.Name == Name || h.Name == manifestFile || h.Name == signatureFile:
		return invalidBundle(h.Name + " is in it twice")
	default:
		return invalidBundle(fmt.Sprintf("%.100q does not belong into it", h.Name))
	}
	return err
}

// readPacked reads a small file of a bundle. It never returns nil data for it.
func readPacked(h *tar.Header, r io.Reader) ([]byte, error) {
	if h.Size > maxSmall {
		return nil, invalidBundle(h.Name + ": " + errTooLarge.Error())
	}
	data := make([]byte, h.Size)
	_, err := io.ReadFull(r, data)
	return data, err
}

// checkPadding makes sure that nothing but zeros follows the tar's end.
func (s *sourceReader) checkPadding(r io.Reader) error {
	rest, err := io.ReadAll(io.LimitReader(r, maxPadding+1))
	if err != nil {
		return s.judge(err)
	}
	for _, b := range rest {
		if b != 0 {
			return invalidBundle("data behind its end")
		}
	}
	if len(rest) > maxPadding {
		return invalidBundle("data behind its end")
	}
	return nil
}

func invalidBundle(reason string) error { return refuse(ErrInvalid, "", "the bundle: "+reason) }

// sourceReader remembers how reading the bundle's bytes failed, to tell a faulty
// bundle from a broken upload.
type sourceReader struct {
	r   io.Reader
	err error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// judge says whose fault an error is: the reader's, or the bundle's.
func (s *sourceReader) judge(err error) error {
	if s.err != nil {
		return s.err
	}
	return invalidBundle(err.Error())
}

// judgedReader judges errors where they come up, so that those of writing stay
// what they are.
type judgedReader struct {
	source *sourceReader
	r      io.Reader
}

func (j judgedReader) Read(p []byte) (int, error) {
	n, err := j.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = j.source.judge(err)
	}
	return n, err
}
