package catalogue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"

	"github.com/cms-personal/personal/shared/durable"
)

// copyMode is the mode of a copy: only its owner may read and run it.
const copyMode = 0o500

var validSum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Stage makes a verified copy of the entry's binary below privateDir, in a folder
// named by its sha256, and returns the copy's path. It verifies the copy, so that
// later changes to the original do not matter. It reuses an earlier copy whose
// contents are still correct, also one of an earlier process, and then does not read
// the original: [Catalogue.Verify] does.
//
// A catalogue with keys checks the signature each time; see [WithKeys], and
// [WithMinVersion] for versions that are too old.
//
// privateDir is created if it does not exist; other users must have no access. A
// binary that does not match its manifest, or a manifest that has changed since the
// entry was found, is refused with kind [ErrTampered]. On a full disk nothing stays of
// the copy, and the error wraps a [*durable.FullError].
func (c *Catalogue) Stage(ctx context.Context, e Entry, privateDir string) (path string, err error) {
	defer wrap(&err, "staging plugin "+e.Manifest.Version)
	defer func() { err = durable.ExplainFull(privateDir, err) }()
	if err := c.recheck(e); err != nil {
		return "", err
	}
	if !validSum.MatchString(e.Manifest.SHA256) {
		return "", refuse(ErrInvalid, e.Manifest.Version, "its manifest has no sha256")
	}
	if err := MakePrivate(privateDir); err != nil {
		return "", err
	}
	dir := filepath.Join(privateDir, e.Manifest.SHA256)
	path = filepath.Join(dir, Name)
	if isCopy(ctx, path, e.Manifest.SHA256) {
		return path, nil
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}

	sweep(privateDir)
	draft, err := os.MkdirTemp(privateDir, stagePrefix) // mode 0700
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(draft)
	sum, err := copyBinary(ctx, e.Binary(), filepath.Join(draft, Name))
	if err := checkSum(e.Manifest, sum, err); err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return path, os.Rename(draft, dir)
}

// Verify returns the reason why a version could not be staged as it is on disk, as a
// [*RefusedError], or an error of reading it.
func (c *Catalogue) Verify(ctx context.Context, e Entry) error {
	if err := c.recheck(e); err != nil {
		return err
	}
	sum, err := sumOf(ctx, e.Binary())
	return checkSum(e.Manifest, sum, err)
}

// recheck checks by the files on disk that an entry may be run. The manifest that it
// verifies equals that of the entry, so the entry can be used afterwards.
func (c *Catalogue) recheck(e Entry) error {
	m, _, err := c.readManifest(e.Manifest.Version, e.Dir)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(m, e.Manifest) {
		return refuse(ErrTampered, e.Manifest.Version, "its manifest has changed")
	}
	return c.checkMinVersion(m.Version)
}

// isCopy reports whether a file is a copy as Stage makes it. A copy outlives its
// process: it may have been restored from a backup, with another mode.
func isCopy(ctx context.Context, path, want string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != copyMode {
		return false
	}
	sum, err := sumOf(ctx, path)
	return err == nil && sum == want
}

// checkSum compares the sha256 of a binary with its manifest. err is that of reading
// the binary: one that is missing or not a binary was tampered with, too.
func checkSum(m Manifest, sum string, err error) error {
	switch {
	case errors.Is(err, errNotRegular), errors.Is(err, errHuge), errors.Is(err, os.ErrNotExist):
		return refuse(ErrTampered, m.Version, err.Error())
	case isUntrusted(err):
		return refuse(ErrUntrusted, m.Version, err.Error())
	case err != nil:
		return fmt.Errorf("the binary of plugin %s: %w", m.Version, err)
	case sum != m.SHA256:
		return refuse(ErrTampered, m.Version, "its sha256 is "+sum)
	}
	return nil
}

// copyBinary copies a binary to a new file with mode copyMode and returns the sha256
// of the copy. What a loss of power leaves of it is not a copy, see isCopy.
func copyBinary(ctx context.Context, from, to string) (sum string, err error) {
	in, err := openChecked(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	return writeFile(to, copyMode, contextReader{ctx, in}, false)
}

// MakePrivate creates a folder that only this process's user can access, or checks
// that the existing one is such a folder, and not a link. Otherwise the error is a
// [*durable.UntrustedError].
func MakePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return durable.CheckPrivate(dir)
}
