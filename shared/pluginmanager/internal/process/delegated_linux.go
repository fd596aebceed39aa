package process

import "golang.org/x/sys/unix"

// isDelegated reports whether a control group was delegated to its processes: systemd
// marks such groups. Writing into others, which root may, disturbs their owner.
func isDelegated(group string) bool {
	mark := make([]byte, 2)
	n, err := unix.Getxattr(group, "user.delegate", mark)
	return err == nil && string(mark[:n]) == "1"
}
