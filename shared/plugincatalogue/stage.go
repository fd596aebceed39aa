package plugincatalogue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Stage makes a verified copy of the entry's binary below privateDir, in a
// folder named by its sha256, and returns the copy's path. What was verified is
// the copy, so that it does not matter what happens to the original later. An
// earlier copy is used again if its contents still are what they should be.
//
// Where the catalogue has keys, the signature is checked each time; see
// [WithKeys], and [WithMinVersion] for versions that are too old.
//
// privateDir is made if there is none; it must be closed to others. A binary
// that is not what its manifest says, or a manifest that is not what it was when
// the entry was found, is refused with kind [ErrTampered].
func (c *Catalogue) Stage(ctx context.Context, e Entry, privateDir string) (string, error) {
	path, err := c.stage(ctx, e, privateDir)
	if err != nil {
		return "", fmt.Errorf("staging plugin %s: %w", e.Manifest.Version, err)
	}
	return path, nil
}

func (c *Catalogue) stage(ctx context.Context, e Entry, privateDir string) (string, error) {
	if err := c.recheck(e); err != nil {
		return "", err
	}
	if !validSum(e.Manifest.SHA256) {
		return "", refuse(ErrInvalid, e.Manifest.Version, "its manifest holds no sha256")
	}
	if err := MakePrivate(privateDir); err != nil {
		return "", err
	}
	dir := filepath.Join(privateDir, e.Manifest.SHA256)
	path := filepath.Join(dir, Name)
	if sum, err := sumOf(ctx, path); err == nil && sum == e.Manifest.SHA256 {
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
	if errors.Is(err, errNotRegular) || errors.Is(err, errHuge) || errors.Is(err, os.ErrNotExist) {
		return "", refuse(ErrTampered, e.Manifest.Version, err.Error())
	}
	if err != nil {
		return "", err
	}
	if sum != e.Manifest.SHA256 {
		return "", refuse(ErrTampered, e.Manifest.Version, "its sha256 is "+sum)
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return path, os.Rename(draft, dir)
}

// Verify reports, as a [*RefusedError], why a version could not be staged as it
// lies on disk.
func (c *Catalogue) Verify(ctx context.Context, e Entry) error {
	if err := c.recheck(e); err != nil {
		return err
	}
	sum, err := sumOf(ctx, e.Binary())
	if errors.Is(err, errNotRegular) || errors.Is(err, os.ErrNotExist) {
		return refuse(ErrTampered, e.Manifest.Version, err.Error())
	}
	if err != nil {
		return fmt.Errorf("verifying plugin %s: %w", e.Manifest.Version, err)
	}
	if sum != e.Manifest.SHA256 {
		return refuse(ErrTampered, e.Manifest.Version, "its sha256 is "+sum)
	}
	return nil
}

// recheck makes sure that an entry may be run, by what is on disk now. The bytes
// that it checks say the same as the entry, so the entry may be gone by.
func (c *Catalogue) recheck(e Entry) error {
	m, _, err := c.readManifest(e.Manifest.Version, e.Dir)
	if err != nil {
		return err
	}
	if m != e.Manifest {
		return refuse(ErrTampered, e.Manifest.Version, "its manifest has changed")
	}
	return c.checkFloor(m.Version)
}

// MakePrivate makes a folder that none but this process's user can look into, or
// makes sure that the one that is there is such a folder, and no link to one.
func MakePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is open to others: want a folder of mode 0700, found %v", dir, info.Mode())
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user %d, not to this process's, %d", dir, owner.Uid, os.Geteuid())
	}
	return nil
}

func validSum(sum string) bool {
	if len(sum) != 64 {
		return false
	}
	for _, r := range sum {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}
