package dbconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// hostLeaves is how long LockForHost waits for another host: plugins of one that was killed end within
// two seconds.
const hostLeaves = 3 * time.Second

// InUseError means that another host uses a SQLite file.
type InUseError struct{ Path, Host string }

// Error names the host that has the file.
func (e *InUseError) Error() string {
	return fmt.Sprintf("another host uses the SQLite file %s: %s; stop it, or use PostgreSQL for several hosts", e.Path, e.Host)
}

// LockForHost locks a SQLite database for the processes of a host, until the lock is closed or they
// end. A file beside the database holds the lock and the name of the host, which is one line. The error
// is an [*InUseError] if another host has the lock. On PostgreSQL the lock is nil. Programs that
// do not ask for the lock, such as commands, are not kept out.
func LockForHost(ctx context.Context, databaseURL, host string) (io.Closer, error) {
	path, ok := strings.CutPrefix(databaseURL, "sqlite://")
	if !ok {
		return nil, nil
	}
	path, err := filepath.EvalSymlinks(path) // a database has one lock, whatever it is called
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, hostLeaves)
	defer cancel()
	for {
		err := tryHost(lock, path, host)
		if err == nil {
			return lock, nil
		}
		if _, ok := errors.AsType[*InUseError](err); !ok {
			return nil, errors.Join(err, lock.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, lock.Close())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tryHost writes the name of the host if no process has the lock, and shares it with the processes of
// the same host. Another host may write its name while the lock is made a shared one: so the name
// is read with the lock that stays.
func tryHost(lock *os.File, path, host string) error {
	fd := int(lock.Fd())
	err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		if err := errors.Join(lock.Truncate(0), writeAt(lock, host)); err != nil {
			return err
		}
	} else if !errors.Is(err, syscall.EWOULDBLOCK) {
		return os.NewSyscallError("flock", err)
	}
	err = syscall.Flock(fd, syscall.LOCK_SH|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		return os.NewSyscallError("flock", err)
	}
	name := make([]byte, 512)
	n, readErr := lock.ReadAt(name, 0)
	if readErr != nil && !errors.Is(readErr, io.EOF) {
		return readErr
	}
	if other := strings.TrimSpace(string(name[:n])); err != nil || other != host {
		_ = syscall.Flock(fd, syscall.LOCK_UN)
		return &InUseError{path, other}
	}
	return nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text+"\n"), 0)
	return err
}
