package plugincatalogue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// maxSmall bounds what is read of a manifest or a state, in bytes.
const maxSmall = 64 << 10

// maxBinary bounds the size of a binary, in bytes.
const maxBinary = 512 << 20

var (
	errTooLarge   = errors.New("larger than 64 KiB")
	errHuge       = errors.New("larger than 512 MiB")
	errNotRegular = errors.New("not a regular file")
)

// openRegular opens a regular file for reading. It does not follow a link in
// the last part of the path, and does not wait for the other end of a FIFO.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("open %s: %w", path, errNotRegular)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: %w", path, errNotRegular)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// readSmall reads a regular file of 64 KiB at most.
func readSmall(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(data) > maxSmall {
		err = errTooLarge
	}
	return data, err
}

// openBinary opens a regular file of 512 MiB at most.
func openBinary(path string) (*os.File, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > maxBinary {
		err = fmt.Errorf("open %s: %w", path, errHuge)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// copyBinary copies the regular file at from as [writeBinary] says.
func copyBinary(ctx context.Context, from, to string) (sum string, err error) {
	in, err := openBinary(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	return writeBinary(contextReader{ctx, in}, to)
}

// writeBinary writes what it reads, 512 MiB at most, to a new file that its
// owner alone may read and run, safely on disk, and returns the sha256 of that.
func writeBinary(r io.Reader, to string) (sum string, err error) {
	hash := sha256.New()
	err = writeNew(to, 0o500, func(out io.Writer) error {
		n, err := io.Copy(io.MultiWriter(out, hash), io.LimitReader(r, maxBinary+1))
		if err == nil && n > maxBinary {
			err = errHuge
		}
		return err
	})
	return hex.EncodeToString(hash.Sum(nil)), err
}

// sumOf returns the sha256 of a regular file.
func sumOf(ctx context.Context, path string) (string, error) {
	f, err := openRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, contextReader{ctx, f})
	return hex.EncodeToString(hash.Sum(nil)), err
}

// writeNew creates a file, which must not exist, and syncs it.
func writeNew(path string, mode os.FileMode, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Sync(), f.Close())
}

// writeData creates a file that its owner alone may read.
func writeData(path string, data []byte) error {
	return writeNew(path, 0o600, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// contextReader ends a long copy when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
