//go:build !linux

package pluginmanager

import "os/exec"

// waitGroup waits for the end of a process, has its group killed, and returns
// how it ended.
func waitGroup(cmd *exec.Cmd, kill func()) error {
	err := cmd.Wait()
	kill()
	return err
}
