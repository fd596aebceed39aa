package rpc

import (
	"context"
	"errors"
	"testing"
)

func TestGate_ClosedGateAdmitsNoCalls(t *testing.T) {
	var g gate
	if !g.enter() {
		t.Fatal("enter: got false, want true for an open gate")
	}
	g.leave()
	if err := g.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if g.enter() {
		t.Error("enter: got true, want false for a closed gate")
	}
}

func TestGate_CloseWaitsForRunningCalls(t *testing.T) {
	var g gate
	g.enter()
	g.enter()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.close(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancelled context: two calls are running", err)
	}

	g = gate{}
	g.enter()
	g.enter()
	closed := make(chan error, 1)
	go func() { closed <- g.close(t.Context()) }()
	g.leave()
	g.leave()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
