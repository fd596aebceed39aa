package process

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/unix"
)

// waitGroup waits for the end of a process, has its group killed, and returns the
// exit status. The group is killed before the process is reaped: until then its ID
// cannot belong to another group.
func waitGroup(cmd *exec.Cmd, kill func()) error {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	kill()
	return cmd.Wait()
}
