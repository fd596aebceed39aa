package dbconn

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// generations counts how often a pool has lost the server without being told: a
// response did not come in time, or the server reports that it is no longer the
// primary. Connections that are older then are not used again, because they are likely
// to lead to the same place.
type generations struct{ atomic.Int64 }

// end ends a generation, unless it is over already: what connections of an earlier one
// meet says nothing about later ones.
func (g *generations) end(generation int64) { g.CompareAndSwap(generation, generation+1) }

// socket is the network connection below pgdriver, and below TLS if there is any.
type socket struct {
	net.Conn
	generations *generations
	generation  int64
	inUse       bool   // the log-in is over
	heard       []byte // what was read first, at least 5 bytes if there were as many
}

// Read ends the socket's generation if the wait for a response ends without one.
func (s *socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if len(s.heard) < 5 && !s.inUse {
		s.heard = append(s.heard, b[:min(n, 8)]...)
	}
	s.note(err)
	return n, err
}

// Write is like Read: the system gives up when nothing is acknowledged.
func (s *socket) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.note(err)
	return n, err
}

func (s *socket) note(err error) {
	if network, ok := errors.AsType[net.Error](err); ok && s.inUse && network.Timeout() {
		s.generations.end(s.generation)
	}
}

// isQuiet reports whether an idle socket is open and has nothing to read. A server
// that closes a connection sends its reason, then the end of the stream.
func (s *socket) isQuiet() bool {
	source, ok := s.Conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := source.SyscallConn()
	if err != nil {
		return false
	}
	// The deadline of the last use may have passed.
	if err := s.SetReadDeadline(time.Time{}); err != nil {
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
