// Package durable writes files and lines that survive a crash or a power cut
// completely or not at all, and that only their owner can read. It also locks files.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
			err = fmt.Errorf("writing %s: %w", path, ExplainFull(dir, err))
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

// CreateFile is [WriteFile] for a path that does not exist: it never overwrites. The error
// wraps [fs.ErrExist] if the path exists. The file system must have hard links.
func CreateFile(path string, data []byte) error {
	return place(path, data, os.Link)
}

// SyncDir makes renames in a folder survive a power cut.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
