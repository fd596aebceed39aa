//go:build !linux

package dbconn

import (
	"net"
	"time"
)

// limitSilence does nothing: the system has no such limit, or no common name for it.
func limitSilence(net.Conn, time.Duration) error { return nil }
