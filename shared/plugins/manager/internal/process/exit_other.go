//go:build !linux

package process

import "os/exec"

// waitGroup waits for the end of a process, has its group killed, and returns the
// exit status.
func waitGroup(cmd *exec.Cmd, kill func()) error {
	err := cmd.Wait()
	kill()
	return err
}
