package pluginrpc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
)

// LifelineEnv names the environment variable by which a host announces a
// lifeline: the number of the descriptor at which the plugin finds the read end
// of a pipe (3 for the first of exec.Cmd.ExtraFiles). The host writes nothing
// and keeps the other end open: when the pipe ends, the host is gone, however it
// went, and the plugin ends too, within two seconds. Without the variable there
// is no lifeline.
const LifelineEnv = "PERSONAL_LIFELINE"

// openLifeline returns the pipe from the host, or nil if there is none. No
// process that this one starts inherits it.
func openLifeline() (*os.File, error) {
	value := os.Getenv(LifelineEnv)
	if value == "" {
		return nil, nil
	}
	_ = os.Unsetenv(LifelineEnv)
	descriptor, err := strconv.Atoi(value)
	if err != nil || descriptor <= syscall.Stderr {
		return nil, fmt.Errorf("%s is %q, not the number of an extra descriptor", LifelineEnv, value)
	}
	syscall.CloseOnExec(descriptor)
	file := os.NewFile(uintptr(descriptor), "lifeline")
	if file == nil {
		return nil, errors.New("the lifeline is not open")
	}
	return file, nil
}

// waitForEnd returns when the pipe ends, or cannot be read: a lifeline that
// cannot be relied on is none.
func waitForEnd(lifeline io.Reader) { _, _ = io.Copy(io.Discard, lifeline) }
