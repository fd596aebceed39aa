package pluginrpc

import (
	"context"
	"errors"
	"testing"
)

func TestGate_ClosedGateAdmitsNoCalls(t *testing.T) {
	var g gate
	if !g.enter() {
		t.Fatal("an open gate keeps a caller out")
	}
	g.leave()
	if err := g.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if g.enter() {
		t.Error("a shut gate lets a caller in")
	}
}

func TestGate_CloseWaitsForRunningCalls(t *testing.T) {
	var g gate
	g.enter()
	g.enter()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.close(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v with two inside", err)
	}

	g = gate{}
	g.enter()
	g.enter()
	shut := make(chan error, 1)
	go func() { shut <- g.close(t.Context()) }()
	g.leave()
	g.leave()
	if err := <-shut; err != nil {
		t.Error(err)
	}
}
