package plugincatalogue

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/durable"
)

// Folders of work under way begin with one of these; files with
// [durable.DraftPrefix], as folders of earlier versions did.
const (
	installPrefix = ".install-"
	removePrefix  = ".remove-"
	stagePrefix   = ".stage-"
)

// staleAfter is the age from which such work is taken for what a killed process
// left behind.
const staleAfter = time.Hour

// Prune removes all but the highest keep versions, and those that are active,
// the last good one or on trial. It returns the versions it removed, the highest first, also
// beside an error.
func (c *Catalogue) Prune(keep int) ([]string, error) {
	if keep < 0 {
		return nil, fmt.Errorf("pruning the plugin catalogue: cannot keep %d versions", keep)
	}
	entries, err := c.List()
	if err != nil {
		return nil, err
	}
	var removed []string
	for _, e := range entries[min(keep, len(entries)):] {
		err := c.Remove(e.Manifest.Version)
		switch {
		case err == nil:
			removed = append(removed, e.Manifest.Version)
		case errors.Is(err, ErrInUse), errors.Is(err, ErrNotFound): // stays, or somebody was faster
		default:
			return removed, err
		}
	}
	return removed, nil
}

// bury removes a folder below parent, from the view of others at once: whatever
// happens meanwhile, no one sees half of it.
func bury(parent, name string) error {
	grave, err := os.MkdirTemp(parent, removePrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(grave)
	return os.Rename(filepath.Join(parent, name), filepath.Join(grave, "it"))
}

// sweep removes what killed processes left behind in a folder. What cannot be
// removed is left for the next time: it is in nobody's way.
func sweep(dir string) {
	folders, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, f := range folders {
		switch {
		case !stale(f):
		case !f.IsDir(), strings.HasPrefix(f.Name(), removePrefix):
			_ = os.RemoveAll(filepath.Join(dir, f.Name()))
		default:
			_ = bury(dir, f.Name())
		}
	}
}

// stale reports whether f is a folder or file of work that ended long ago.
func stale(f fs.DirEntry) bool {
	work := strings.HasPrefix(f.Name(), durable.DraftPrefix) && (f.IsDir() || f.Type().IsRegular())
	for _, prefix := range []string{installPrefix, removePrefix, stagePrefix} {
		work = work || f.IsDir() && strings.HasPrefix(f.Name(), prefix)
	}
	if !work {
		return false
	}
	info, err := f.Info()
	return err == nil && time.Since(info.ModTime()) > staleAfter
}
