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

func (c *clients) told(own *conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		if c.open == nil {
			c.open = map[*conn]struct{}{}
		}
		c.open[own] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(c.open, own)
	}
}

// linger lets clients that were not told of the stop send one more request. It closes connections that bring
// none, and returns once each of the others has a request that the server waits for.
func (c *clients) linger(ctx context.Context) {
	stopped := time.Now()
	look := time.NewTicker(lingerTime / 20)
	defer look.Stop()
	for c.close(stopped) > 0 {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// close closes connections whose time is over, and returns how many have time left.
func (c *clients) close(stopped time.Time) (left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for own := range c.open {
		switch remaining, idle := own.remaining(stopped); {
		case remaining > 0:
			left++
		case idle:
			delete(c.open, own)
			_ = own.Close()
		}
	}
	return left
}

// remaining returns how long a connection may take to bring a request, and whether it is still to bring one.
func (c *conn) remaining(stopped time.Time) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.since
	if from.Before(stopped) {
		from = stopped
	}
	switch {
	case c.hijacked || c.state == http.StateActive:
		return 0, false
	case c.asking:
		return time.Until(from.Add(headTime)), true
	}
	return time.Until(from.Add(lingerTime)), true
}
