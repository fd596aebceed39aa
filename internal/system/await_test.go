package system

import (
	"testing"
	"time"
)

// patience bounds every wait. It is generous: a busy machine is no fault.
const patience = 20 * time.Second

// eventually waits for ok to hold.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("waited %v in vain: %s", patience, what)
		case <-tick.C:
		}
	}
}

// pass waits until d has passed since start, and a little more: it is for what
// must be over by then, where nothing tells of it.
func pass(start time.Time, d time.Duration) {
	<-time.After(time.Until(start.Add(d + d/4)))
}
