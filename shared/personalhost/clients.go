package personalhost

import (
	"context"
	"net/http"
	"sync"
	"time"
)

const (
	// lingerTime is how long a connection without a request may bring one when a server stops. The response closes it, so
	// that no client is surprised while it sends.
	lingerTime = 300 * time.Millisecond
	// headTime is how long the rest of a request's head may take then.
	headTime = 2 * time.Second
)

// clients are the open connections of a server.
type clients struct {
	mu   sync.Mutex
	open map[*conn]struct{}
}

// setState keeps the connections between [http.StateNew] and their end.
func (c *clients) setState(own *conn, state http.ConnState) {
	if state == http.StateActive || state == http.StateIdle {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if state != http.StateNew {
		delete(c.open, own)
		return
	}
	if c.open == nil {
		c.open = map[*conn]struct{}{}
	}
	c.open[own] = struct{}{}
}

// linger lets clients that do not know of the stop send one more request. It closes connections that bring none. The
// others have a request when it returns, which Shutdown waits for.
func (c *clients) linger(ctx context.Context) {
	stopped := time.Now()
	turns := time.NewTicker(lingerTime / 20)
	defer turns.Stop()
	for c.closeExpired(stopped) > 0 {
		select {
		case <-turns.C:
		case <-ctx.Done():
			return
		}
	}
}

// closeExpired closes connections that have brought no request in time, and returns how many have time left.
func (c *clients) closeExpired(stopped time.Time) (left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for own := range c.open {
		switch remaining, active := own.remaining(stopped); {
		case remaining > 0:
			left++
		case !active:
			delete(c.open, own)
			_ = own.Close()
		}
	}
	return left
}

// remaining returns how much longer a connection may bring another request, and whether it has one. A request that was under
// way at the stop may have a response that keeps the connection alive.
func (c *conn) remaining(stopped time.Time) (left time.Duration, active bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from, limit := c.since, lingerTime
	switch active = c.state == http.StateActive; {
	case c.hijacked || active && from.After(stopped):
		return 0, true
	case from.Before(stopped):
		from = stopped
	}
	if c.headBegun {
		limit = headTime
	}
	return time.Until(from.Add(limit)), active
}
