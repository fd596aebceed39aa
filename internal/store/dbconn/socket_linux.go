package dbconn

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// limitSilence lets the system give a TCP connection up when sent data is not
// acknowledged for so long.
func limitSilence(c net.Conn, d time.Duration) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	return errors.Join(err, set)
}
