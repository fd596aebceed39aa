package catalogue

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"
)

// maxPadding bounds the zeros after the end of a tar, in bytes: GNU tar fills up to
// a record of 10 KiB.
const maxPadding = 10 << 10

// WriteBundle writes a bundle: a gzipped tar with the binary, its manifest with the
// binary's sha256, and, unless sign is nil, the minisign signature that sign returns
// for the manifest's bytes. The same input gives the same bytes.
//
// [ManifestOf] returns a binary's manifest. Only notes may be added to it: no
// catalogue accepts a bundle with other changes. A binary for another system cannot be
// asked here: its manifest is that of the same source built for this one, but for OS and
// Arch.
func WriteBundle(w io.Writer, binary string, m Manifest, sign func(manifest []byte) ([]byte, error)) (err error) {
	defer wrap(&err, "writing a bundle")
	if err := m.validateAnywhere(); err != nil {
		return err
	}
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	if m.SHA256, err = packBinary(archive, binary); err != nil {
		return err
	}
	manifest, err := encodeManifest(m)
	if err != nil {
		return err
	}
	if err := packSmall(archive, manifestFile, manifest); err != nil {
		return err
	}
	if sign != nil {
		signature, err := sign(manifest)
		if err != nil {
			return fmt.Errorf("signing the manifest: %w", err)
		}
		if err := packSmall(archive, signatureFile, signature); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return zip.Close()
}

// packBinary adds the binary and returns its sha256.
func packBinary(archive *tar.Writer, path string) (sum string, err error) {
	f, err := openBinary(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	err = pack(archive, Name, 0o755, info.Size(), io.TeeReader(f, hash))
	return hex.EncodeToString(hash.Sum(nil)), err
}

func packSmall(archive *tar.Writer, name string, data []byte) error {
	if len(data) > maxSmall {
		return fmt.Errorf("%s: %w", name, errTooLarge)
	}
	return pack(archive, name, 0o644, int64(len(data)), bytes.NewReader(data))
}

// pack adds a file. Its header reveals nothing about the machine or the time.
func pack(archive *tar.Writer, name string, mode, size int64, r io.Reader) error {
	err := archive.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size,
		ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
	})
	if err == nil {
		_, err = io.Copy(archive, r)
	}
	return err
}

// unpacked is the contents of a bundle. The binary is on disk.
type unpacked struct {
	sum       string // sha256 of the binary
	manifest  []byte
	signature []byte // nil if there is none
}

// unpack reads a bundle to its end and writes the binary, and nothing else, into
// dir. If the bundle is invalid, the error is a refusal of kind [ErrInvalid]; if
// reading it or writing the binary fails, it is that error.
func unpack(ctx context.Context, r io.Reader, dir string) (unpacked, error) {
	source := &sourceReader{r: contextReader{ctx, r}}
	u, err := unpackTar(bufio.NewReader(source), dir)
	var refused *RefusedError
	var local *fs.PathError
	switch {
	case err == nil, errors.As(err, &refused):
		return u, err
	case source.err != nil:
		return u, source.err
	case errors.As(err, &local): // writing the binary
		return u, err
	}
	return u, invalidBundle(err.Error())
}

func unpackTar(raw *bufio.Reader, dir string) (u unpacked, err error) {
	zip, err := gzip.NewReader(raw)
	if err != nil {
		return u, err
	}
	zip.Multistream(false)
	archive := tar.NewReader(zip)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return u, err
		}
		if err := u.take(h, archive, dir); err != nil {
			return u, err
		}
	}
	if u.sum == "" {
		return u, invalidBundle("no " + Name + " in it")
	}
	if u.manifest == nil {
		return u, invalidBundle("no " + manifestFile + " in it")
	}
	padding, err := io.ReadAll(io.LimitReader(zip, maxPadding+1))
	if err != nil {
		return u, err
	}
	_, err = raw.ReadByte()
	if err == nil || len(padding) > maxPadding || len(bytes.Trim(padding, "\x00")) > 0 {
		return u, invalidBundle("data after its end")
	}
	if !errors.Is(err, io.EOF) {
		return u, err
	}
	return u, nil
}

// take reads one file, if it is one of the three of a bundle and the first of its
// name. It compares complete names: no path is accepted.
func (u *unpacked) take(h *tar.Header, r io.Reader, dir string) (err error) {
	// PAX records can make a file sparse: much data from few bytes.
	if h.Typeflag != tar.TypeReg || len(h.PAXRecords) > 0 {
		return invalidBundle(fmt.Sprintf("%.100q is no plain file", h.Name))
	}
	switch {
	case h.Name == Name && u.sum == "":
		if h.Size > maxBinary {
			return invalidBundle(Name + ": " + errHuge.Error())
		}
		u.sum, err = writeFile(filepath.Join(dir, Name), 0o500, r, true)
	case h.Name == manifestFile && u.manifest == nil:
		u.manifest, err = readPacked(h, r)
	case h.Name == signatureFile && u.signature == nil:
		u.signature, err = readPacked(h, r)
	case h.Name == Name || h.Name == manifestFile || h.Name == signatureFile:
		return invalidBundle(h.Name + " is in it twice")
	default:
		return invalidBundle(fmt.Sprintf("%.100q is not part of a bundle", h.Name))
	}
	return err
}

// readPacked reads a small file of a bundle. Its data is never nil.
func readPacked(h *tar.Header, r io.Reader) ([]byte, error) {
	if h.Size > maxSmall {
		return nil, invalidBundle(h.Name + ": " + errTooLarge.Error())
	}
	data := make([]byte, h.Size)
	_, err := io.ReadFull(r, data)
	return data, err
}

func invalidBundle(reason string) error { return refuse(ErrInvalid, "", "the bundle: "+reason) }

// sourceReader remembers how reading the bundle failed, to tell a broken upload
// from an invalid bundle.
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
