package dbconn

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// quiet reports whether an idle socket is open and nothing lies there to be
// read: a server that closes a connection sends its reason, then the end.
func quiet(c net.Conn) bool {
	source, ok := c.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := source.SyscallConn()
	if err != nil {
		return false
	}
	// The deadline of the last use may have passed meanwhile.
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return false
	}
	var peeked error
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, peeked = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	})
	return err == nil && (errors.Is(peeked, syscall.EAGAIN) || errors.Is(peeked, syscall.EWOULDBLOCK))
}
