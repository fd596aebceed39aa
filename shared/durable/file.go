// Package durable keeps what hosts write down: files and lines that outlive a
// crash and a power cut whole or not at all, readable by their owner alone.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// DraftPrefix begins the names of the files that WriteFile leaves in the folder of
// its path when the process is killed. They may be removed.
const DraftPrefix = ".write-"

// WriteFile puts data in place of path's contents, all at once: readers and
// crashes meet the old contents or the new, never a part. When it returns nil the
// file outlives a power cut.
func WriteFile(path string, data []byte) error {
	if err := writeFile(path, data); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func writeFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	draft, err := os.CreateTemp(dir, DraftPrefix+"*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name()) // finds nothing once it is renamed
	_, err = draft.Write(data)
	if err := errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	if err := os.Rename(draft.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// SyncDir makes renames in a folder outlive a power cut.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
