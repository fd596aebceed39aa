package durable

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Lock tries again that often: for up to half a second.
const (
	lockTries   = 50
	lockBackoff = 10 * time.Millisecond
)

// Lock locks a file exclusively until it is closed or the process ends. The error wraps
// [syscall.EWOULDBLOCK] if another process holds the lock, and keeps it for half a second:
// a process that has just closed the file may have a child that still has it open until
// it executes another program, and a process may only look whether there is a lock.
func Lock(f *os.File) error {
	err := tryLock(f)
	for tries := 1; errors.Is(err, syscall.EWOULDBLOCK) && tries < lockTries; tries++ {
		time.Sleep(lockBackoff)
		err = tryLock(f)
	}
	return err
}

func tryLock(f *os.File) error {
	return os.NewSyscallError("flock", syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
}
