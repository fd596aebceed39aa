package pluginmanager

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	"github.com/cms-personal/personal/shared/plugincatalogue"
)

// copies counts who uses which verified copy of a binary.
type copies struct {
	dir string

	mu   sync.Mutex // one copy is made, or removed, at a time
	used map[string]int
}

// stagedCopy is one use of a copy.
type stagedCopy struct {
	path    string
	release func() // is called any number of times
}

func newCopies(dir string) *copies { return &copies{dir: dir, used: map[string]int{}} }

// stage returns a verified copy, which stays until it is released and swept.
func (c *copies) stage(ctx context.Context, catalogue *plugincatalogue.Catalogue, e plugincatalogue.Entry) (*stagedCopy, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	path, err := catalogue.Stage(ctx, e, c.dir)
	if err != nil {
		return nil, err
	}
	folder := filepath.Base(filepath.Dir(path))
	c.used[folder]++
	return &stagedCopy{path: path, release: sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.used[folder]--
	})}, nil
}

// sweep removes the copies that nobody uses. It is not done where a process died:
// the next one needs the same copy.
func (c *copies) sweep() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	folders, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, f := range folders {
		if c.used[f.Name()] > 0 {
			continue
		}
		delete(c.used, f.Name())
		if err := os.RemoveAll(filepath.Join(c.dir, f.Name())); err != nil {
			return err
		}
	}
	return nil
}
