package durable

import (
	"errors"
	"fmt"
	"syscall"
)

// FullError says that a file could not be written because there is no space left for
// it: what was there before is unchanged. Another attempt succeeds once there is space.
type FullError struct {
	Dir string // a folder on the full disk
	Err error  // wraps syscall.ENOSPC or syscall.EDQUOT
}

// Error names the folder and says what to free.
func (e *FullError) Error() string {
	if errors.Is(e.Err, syscall.EDQUOT) {
		return fmt.Sprintf("the disk quota of this user is used up: remove files from the file system of %s, or raise the quota (%v)", e.Dir,
			e.Err)
	}
	return fmt.Sprintf("the disk is full: free space or inodes on the file system of %s (%v)", e.Dir, e.Err)
}

// Unwrap returns the error of the system call.
func (e *FullError) Unwrap() error { return e.Err }

// ExplainFull returns err, the error of writing below dir, as a [*FullError] if there
// is no space left, and unchanged otherwise.
func ExplainFull(dir string, err error) error {
	var full *FullError
	if !errors.As(err, &full) && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) {
		return &FullError{Dir: dir, Err: err}
	}
	return err
}
