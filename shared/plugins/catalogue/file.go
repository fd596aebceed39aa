package catalogue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cms-personal/personal/shared/durable"
)

const (
	maxSmall  = 64 << 10  // size of a manifest, a signature, a state or a file of keys, in bytes
	maxBinary = 512 << 20 // size of a binary, in bytes
)

var (
	errTooLarge   = errors.New("larger than 64 KiB")
	errHuge       = errors.New("larger than 512 MiB")
	errNotRegular = errors.New("not a regular file")
)

// openBinary opens a regular file of up to 512 MiB for reading. It does not follow
// a link in the last part of the path, and does not wait for the writer of a FIFO.
func openBinary(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("open %s: %w", path, errNotRegular)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("open %s: %w", path, errNotRegular)
	case info.Size() > maxBinary:
		err = fmt.Errorf("open %s: %w", path, errHuge)
	default:
		return f, nil
	}
	_ = f.Close()
	return nil, err
}

// openChecked is openBinary for a file that decides what runs: the error wraps a
// [*durable.UntrustedError] if other users can change it.
func openChecked(path string) (*os.File, error) {
	f, err := openBinary(path)
	if err != nil {
		return nil, err
	}
	if err := durable.CheckFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readSmall reads a regular file of up to 64 KiB that other users cannot change.
func readSmall(path string) ([]byte, error) {
	f, err := openChecked(path)
	if errors.Is(err, errHuge) {
		return nil, errTooLarge
	}
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

// readPart reads a small file of a version's folder. If it is missing, too large or
// not a file, the error is a refusal.
func readPart(version, dir, name string) ([]byte, error) {
	data, err := readSmall(filepath.Join(dir, name))
	if errors.Is(err, errTooLarge) || errors.Is(err, errNotRegular) || errors.Is(err, fs.ErrNotExist) {
		return nil, refuse(ErrInvalid, version, "its "+name+": "+err.Error())
	}
	if isUntrusted(err) {
		return nil, refuse(ErrUntrusted, version, err.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of plugin %s: %w", name, version, err)
	}
	return data, nil
}

// writeFile writes what it reads, up to 512 MiB, to a new file, and returns its sha256. A loss of power may lose
// it unless it is synced.
func writeFile(path string, mode os.FileMode, r io.Reader, sync bool) (sum string, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, hash), io.LimitReader(r, maxBinary+1))
	if err == nil && n > maxBinary {
		err = errHuge
	}
	if sync {
		err = errors.Join(err, f.Sync())
	}
	return hex.EncodeToString(hash.Sum(nil)), errors.Join(err, f.Close())
}

// sumOf returns the sha256 of a binary that other users cannot change.
func sumOf(ctx context.Context, path string) (string, error) {
	f, err := openChecked(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return sumOfAll(ctx, f)
}

// sumOfAll returns the sha256 of what it reads.
func sumOfAll(ctx context.Context, r io.Reader) (string, error) {
	hash := sha256.New()
	_, err := io.Copy(hash, contextReader{ctx, r})
	return hex.EncodeToString(hash.Sum(nil)), err
}

// contextReader fails once its context has ended.
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
