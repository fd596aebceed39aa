package catalogue

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

const thisMachine = runtime.GOOS + "/" + runtime.GOARCH

// explainStart adds to the system's error of starting a binary what usually causes it, as
// a [*RefusedError]: of kind [ErrInvalid] if the file cannot run on this machine, of kind
// [ErrNoExec] if it may not be run where it is. Other errors it returns unchanged.
func explainStart(binary string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return refuse(ErrInvalid, "", fmt.Sprintf("%v: it is not a program for %s: use the build for this machine", err, thisMachine))
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return refuse(ErrNoExec, "", fmt.Sprintf("%v: the file system is mounted with noexec, the file is not executable, "+
			"or a security policy forbids it (SELinux, AppArmor, fapolicyd)", err))
	case errors.Is(err, syscall.ENOENT) && exists(binary):
		return refuse(ErrInvalid, "", fmt.Sprintf("%v: the file exists, but the loader or interpreter that it needs does not: "+
			"use a static build (CGO_ENABLED=0), or install that loader", err))
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
