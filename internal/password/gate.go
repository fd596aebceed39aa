package password

import (
	"context"
	"runtime"
	"time"
)

const (
	maxWait        = 5 * time.Second
	waitersPerTurn = 64 // callers that may wait, for each hashing that may run
)

// gate bounds how many hashings run at once, how many callers wait for that, and
// how long: Argon2 would exhaust the memory otherwise. Waiters are served in the
// order they came.
type gate struct {
	running chan struct{}
	waiting chan struct{}
}

func newGate(parallel int) *gate {
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	return &gate{running: make(chan struct{}, parallel), waiting: make(chan struct{}, waitersPerTurn*parallel)}
}

// enter waits for a turn, which the caller gives back by calling leave once.
func (g *gate) enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case g.running <- struct{}{}:
		return g.leave, nil
	default:
		return g.wait(ctx)
	}
}

func (g *gate) wait(ctx context.Context) (leave func(), err error) {
	select {
	case g.waiting <- struct{}{}:
		defer func() { <-g.waiting }()
	default:
		return nil, ErrBusy
	}
	timeout := time.NewTimer(maxWait)
	defer timeout.Stop()
	select {
	case g.running <- struct{}{}:
		return g.leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timeout.C:
		return nil, ErrBusy
	}
}

func (g *gate) leave() { <-g.running }
