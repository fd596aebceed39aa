// Package durable writes files and lines that survive a crash or a power cut
// completely or not at all, and that only their owner can read. It also locks files.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// DraftPrefix begins the names of the files that WriteFile leaves in the folder of
// its path if the process is killed. They may be removed.
const DraftPrefix = ".write-"

// WriteFile replaces path's contents atomically: readers, and a crash, find the old
// contents or the new. When it returns nil the file survives a power cut. On a full
// disk the error is a [*FullError].
func WriteFile(path string, data []byte) error {
	return place(path, data, os.Rename)
}

// place writes a file and gives it its name once it is complete.
func place(path string, data []byte, name func(from, to string) error) (err error) {
	dir := filepath.Dir(path)
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", path, explainMounted(dir, ExplainFull(dir, err)))
		}
	}()
	draft, err := os.CreateTemp(dir, DraftPrefix+"*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name()) // fails if it is renamed
	_, err = draft.Write(data)
	if err := errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	if err := name(draft.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// explainMounted says what to mount if a file cannot be replaced because of how it, or its folder, is mounted.
func explainMounted(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.EBUSY): // a mount point cannot be renamed to
		return fmt.Errorf("the file is mounted alone and cannot be replaced: mount the folder %s instead (%w)", dir, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("a new file cannot be made beside it: mount the folder %s so that it can be written to (%w)", dir, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("a new file cannot be made beside it: this process, of user %d, needs the right to write to the folder %s (%w)",
			os.Geteuid(), dir, err)
	}
	return err
}

// CreateFile is [WriteFile] for a path that does not exist: it never overwrites. The error
// wraps [fs.ErrExist] if the path exists. On a file system without hard links, a process
// that is killed may leave an empty file.
func CreateFile(path string, data []byte) error {
	return place(path, data, func(from, to string) error { return nameNew(from, to, os.Link) })
}

// nameNew gives a file a name that must be new, by link if the file system can do that.
func nameNew(from, to string, link func(from, to string) error) error {
	if err := link(from, to); err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	claim, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(claim.Close(), os.Rename(from, to)); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}

// SyncDir makes renames in a folder survive a power cut.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
