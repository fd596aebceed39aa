package personalhost

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// limits say how slow a client of a server may be.
type limits struct {
	body     time.Duration // for a request's body
	rest     time.Duration // for what is left of it when the server stops, or the response is ready
	progress time.Duration // of a response without a byte that is taken
	response time.Duration // from the first byte of a response to the last
}

func defaultLimits() limits {
	return limits{body: 30 * time.Second, rest: 2 * time.Second, progress: 30 * time.Second, response: 10 * time.Minute}
}

// limit limits what the clients of a server may take, where the server does not, and returns the
// listener to serve on.
func (m *Module) limit(server *http.Server, l net.Listener) net.Listener {
	server.ReadHeaderTimeout = cmp.Or(server.ReadHeaderTimeout, 10*time.Second)
	server.IdleTimeout = cmp.Or(server.IdleTimeout, 2*time.Minute)
	server.MaxHeaderBytes = cmp.Or(server.MaxHeaderBytes, 32<<10)
	server.Handler = m.limitBodies(server, server.Handler)
	told := server.ConnState
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if own, ok := c.(*conn); ok {
			own.setState(state)
			m.clients.setState(own, state)
		}
		if told != nil {
			told(c, state)
		}
	}
	return &listener{l, m.limits}
}

// limitBodies serves requests whose bodies come in time. A handler that reads a longer one sets a
// read deadline of its own, by [http.ResponseController].
func (m *Module) limitBodies(server *http.Server, next http.Handler) http.Handler {
	limit := m.limits.body
	if server.ReadTimeout > 0 {
		limit = 0 // the CMS has chosen one
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.stopping.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body, control: http.NewResponseController(w), limited: limit > 0}
		if b.limited {
			_ = b.control.SetReadDeadline(time.Now().Add(limit))
		}
		defer context.AfterFunc(m.stopping, func() { b.hurry(m.limits.rest) })()
		defer b.leave(m.limits.rest) // the server reads the rest before it sends the response
		read := *r                   // the server looks at the body in its own
		read.Body = b
		next.ServeHTTP(w, &read)
	})
}

// body is a request's body with a deadline.
type body struct {
	io.ReadCloser
	control *http.ResponseController
	limited bool

	mu    sync.Mutex
	ended bool // no deadline is to be set any more
}

// Read ends the deadline at the end of the body: a later one would cancel the request's context.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.ended = true; b.limited && err == io.EOF {
			_ = b.control.SetReadDeadline(time.Time{})
		}
	}
	return n, err
}

// hurry bounds the time for the rest of the body.
func (b *body) hurry(rest time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		_ = b.control.SetReadDeadline(time.Now().Add(rest))
	}
}

// leave is hurry at the end of the handler.
func (b *body) leave(rest time.Duration) {
	b.hurry(rest)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
}

// listener has connections that end when a client takes a response too slowly.
type listener struct {
	net.Listener
	limits limits
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, limits: l.limits}, nil
}

// conn is the connection of a client.
type conn struct {
	net.Conn
	limits limits

	mu       sync.Mutex
	end      time.Time // of the response; zero: none
	started  bool      // end is that of the current response
	hijacked bool

	state     http.ConnState
	headBegun bool      // of a request, which is StateActive once its head is complete
	since     time.Time // when one of both changed
	turns     int       // that the connection has waited since then
}

// setState is called when net/http changes the state.
func (c *conn) setState(state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.headBegun, c.since, c.turns = state, false, time.Now(), 0
	if state == http.StateIdle {
		c.started = false // what is written then is another response
	}
}

// Read notes that a request begins.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.state != http.StateActive && !c.headBegun {
			c.headBegun, c.since, c.turns = true, time.Now(), 0
		}
	}
	return n, err
}

// Write fails once the client has taken nothing for a while, or the response takes too long.
func (c *conn) Write(p []byte) (written int, err error) {
	for {
		deadline, limited := c.deadline()
		if limited {
			if err := c.Conn.SetWriteDeadline(deadline); err != nil {
				return written, err
			}
		}
		n, err := c.Conn.Write(p[written:])
		if written += n; !limited || n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
	}
}

// deadline returns the time until which the client must take something; false if it need not.
func (c *conn) deadline() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.started {
		c.started, c.end = true, now.Add(c.limits.response)
	}
	next := now.Add(c.limits.progress)
	if !c.end.IsZero() && c.end.Before(next) {
		next = c.end
	}
	return next, !c.hijacked
}

// SetWriteDeadline sets the end of the response, for the server's WriteTimeout and for handlers;
// zero for none.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started, c.end = true, t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline is called when a handler takes the connection over, which has no limits then.
func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hijacked = true
	return c.Conn.SetDeadline(t)
}
