package pluginmanager

import (
	"errors"
	"os/exec"

	"golang.org/x/sys/unix"
)

// waitGroup waits for the end of a process, has its group killed, and returns
// how it ended. While nobody has taken note of its end its number stays its own,
// so that no other group can be hit.
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
