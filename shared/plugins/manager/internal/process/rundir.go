package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cms-personal/personal/shared/durable"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

const (
	socketPrefix = "personal-"
	// maxTemp keeps the paths of sockets, which add about 50 bytes, below 104
	// bytes, the lowest limit of the supported systems.
	maxTemp = 40
)

// RunDir is the private folder of one running manager:
//
//	RUN/lock     locked while the manager runs
//	RUN/staged/  copies of binaries, each verified before its start; the copy of the
//	             active version outlives the manager
//	RUN/scratch/ the databases of a rehearsal, while there is one
//	RUN/sockets  a link to the folder with the sockets, whose path must be short
type RunDir struct {
	Staged  string
	Scratch string // there is none without a rehearsal
	Sockets string // the folder, not the link
	link    string
	lock    *os.File
}

// OpenRunDir creates and locks the folder and removes the sockets that an earlier
// manager left. It fails if another process holds the lock, or if other users can read
// the folder.
func OpenRunDir(dir string) (_ *RunDir, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := catalogue.MakePrivate(dir); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := durable.Lock(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is in use by another process: %w", dir, err), lock.Close())
	}
	r := &RunDir{lock: lock, Staged: filepath.Join(dir, "staged"), Scratch: filepath.Join(dir, "scratch"), link: filepath.Join(dir, "sockets")}
	if err := r.fill(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return r, nil
}

func (r *RunDir) fill() (err error) {
	if err := catalogue.MakePrivate(r.Staged); err != nil {
		return err
	}
	if err := os.RemoveAll(r.Scratch); err != nil { // of a host that was killed
		return err
	}
	if stale, err := os.Readlink(r.link); err == nil {
		if strings.HasPrefix(filepath.Base(stale), socketPrefix) {
			_ = os.RemoveAll(stale)
		}
		if err := os.Remove(r.link); err != nil {
			return err
		}
	}
	temp := os.TempDir()
	if len(temp) > maxTemp {
		temp = "/tmp"
	}
	if r.Sockets, err = os.MkdirTemp(temp, socketPrefix); err != nil { // mode 0700
		return err
	}
	if err := os.Symlink(r.Sockets, r.link); err != nil {
		return errors.Join(err, os.Remove(r.Sockets))
	}
	return nil
}

// Close removes the sockets and releases the lock.
func (r *RunDir) Close() error {
	return errors.Join(os.RemoveAll(r.Scratch), os.RemoveAll(r.Sockets), os.Remove(r.link), r.lock.Close())
}
