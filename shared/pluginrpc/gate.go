package pluginrpc

import (
	"context"
	"sync"
)

// gate counts calls in and out, until it is shut. The zero gate is open.
type gate struct {
	mu     sync.Mutex
	inside int
	empty  chan struct{} // not nil once the gate is shut; closed when nobody is inside
}

// enter reports whether the gate is open, and counts the caller in if so.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.empty != nil {
		return false
	}
	g.inside++
	return true
}

// leave counts the caller out.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.signal()
}

// shut lets nobody in any more and waits until nobody is inside. It is called
// once.
func (g *gate) shut(ctx context.Context) error {
	g.mu.Lock()
	g.empty = make(chan struct{})
	g.signal()
	g.mu.Unlock()

	select {
	case <-g.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) signal() {
	if g.empty != nil && g.inside == 0 {
		close(g.empty)
	}
}
