// Package atomicfile writes files all at once, so that readers and crashes meet
// the old contents or the new, never a part.
package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write puts data in place of path's contents, readable by its owner alone. When
// it returns nil the file outlives a power cut.
func Write(path string, data []byte) error {
	if err := write(path, data); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func write(path string, data []byte) error {
	dir := filepath.Dir(path)
	draft, err := os.CreateTemp(dir, ".write-*") // mode 0600
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
	return syncDir(dir)
}

// syncDir makes a rename in a folder outlive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
