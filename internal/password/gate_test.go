package password

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestAGateWithoutANumberFitsTheProcessors(t *testing.T) {
	if got := cap(newGate(0).running); got != runtime.GOMAXPROCS(0) {
		t.Errorf("got %d", got)
	}
}

func TestNoMoreRunThanTheGateAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(2)
		inside := make(chan func(), 10)
		for range 10 {
			go func() {
				leave, err := g.enter(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				inside <- leave
			}()
		}
		for left := 10; left > 0; left-- {
			synctest.Wait()
			if got, want := len(inside), min(left, 2); got != want {
				t.Fatalf("%d to go: %d are inside, want %d", left, got, want)
			}
			leave := <-inside
			leave()
		}
	})
}

func TestAFullQueueIsBusyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		fill(g.running)
		fill(g.waiting)
		start := time.Now()
		if _, err := g.enter(t.Context()); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestNobodyWaitsLongerThanFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		fill(g.running)
		start := time.Now()
		if _, err := g.enter(t.Context()); !errors.Is(err, ErrBusy) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(start); waited != 5*time.Second {
			t.Errorf("waited %v", waited)
		}
		if len(g.waiting) != 0 {
			t.Error("the place in the queue was kept")
		}
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(1)
		fill(g.running)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := g.enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("waited %v", waited)
		}
		if len(g.waiting) != 0 {
			t.Error("the place in the queue was kept")
		}
	})
}

func TestAnEndedContextGetsNoTurn(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g := newGate(1)
	if _, err := g.enter(ctx); !errors.Is(err, context.Canceled) || len(g.running) != 0 {
		t.Errorf("got %v", err)
	}
}
