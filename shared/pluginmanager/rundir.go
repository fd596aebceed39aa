package pluginmanager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cms-personal/personal/shared/plugincatalogue"
)

const (
	socketPrefix = "personal-"
	// maxTemp keeps the paths of sockets, which go on for 50 bytes, below the
	// 104 of the least generous system.
	maxTemp = 40
)

// runDir is the private folder of one running manager:
//
//	RUN/lock     locked while the manager runs
//	RUN/staged/  verified copies of binaries
//	RUN/sockets  a link to the folder with the sockets, whose path has to be short
type runDir struct {
	lock    *os.File
	staged  string
	sockets string // the folder itself
	link    string
}

// openRunDir takes possession of dir and removes what an earlier manager left
// there.
func openRunDir(dir string) (_ *runDir, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := plugincatalogue.MakePrivate(dir); err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	r := &runDir{lock: lock, staged: filepath.Join(dir, "staged"), link: filepath.Join(dir, "sockets")}
	if err := r.fill(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return r, nil
}

func (r *runDir) fill() error {
	if err := os.RemoveAll(r.staged); err != nil {
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
	sockets, err := os.MkdirTemp(shortTemp(), socketPrefix) // mode 0700
	if err != nil {
		return err
	}
	r.sockets = sockets
	if err := os.Symlink(sockets, r.link); err != nil {
		return errors.Join(err, os.Remove(sockets))
	}
	return nil
}

// close removes the sockets and lets others have the folder.
func (r *runDir) close() error {
	return errors.Join(os.RemoveAll(r.sockets), os.Remove(r.link), os.RemoveAll(r.staged), r.lock.Close())
}

func shortTemp() string {
	if temp := os.TempDir(); len(temp) <= maxTemp {
		return temp
	}
	return "/tmp"
}

// lockFile locks a file until it is closed, or the process ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s is in use by another process: %w", filepath.Dir(path), err), f.Close())
	}
	return f, nil
}
