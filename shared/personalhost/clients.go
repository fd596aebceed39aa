package personalhost

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// How long a connection may take when a server stops, in turns of the server. On a busy machine a turn takes longer, and
// so do clients.
const (
	turn = 15 * time.Millisecond
	// lingerTurns, 300 ms, are for a request on a connection without one. The response closes it, so that no client is
	// surprised while it sends.
	lingerTurns = 20
	// headTurns, 2 s, are for the rest of a request's head.
	headTurns = 134
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
	turns := time.NewTicker(turn)
	defer turns.Stop()
	for c.closeExpired(stopped) > 0 {
		select {
		case <-turns.C:
		case <-ctx.Done():
			return
		}
	}
}

// closeExpired closes connections that have brought no request in time, and returns how many may bring one.
func (c *clients) closeExpired(stopped time.Time) (left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for own := range c.open {
		switch waits, expired := own.nextTurn(stopped); {
		case expired:
			delete(c.open, own)
			_ = own.Close()
		case waits:
			left++
		}
	}
	return left
}

// nextTurn reports whether a connection may bring another request, or has used up its turns. The response of a request that
// was under way at the stop may keep the connection alive.
func (c *conn) nextTurn(stopped time.Time) (waits, expired bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hijacked {
		return false, false
	}
	c.turns++
	over := c.turns > lingerTurns
	if c.state == http.StateActive {
		return c.since.Before(stopped) && !over, false
	}
	return true, over && !c.headBegun || c.turns > headTurns
}
