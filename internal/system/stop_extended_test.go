//go:build extended

package system

import (
	"testing"
	"time"
)

// TestStop_EndsInTime stops the hosts of TestStop_LeavesNothing that wait for their whole drain, one after the other.
// docs/operations.md promises the limit.
func TestStop_EndsInTime(t *testing.T) {
	for name, test := range stops() {
		if test.drain != shortDrain {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if took := test.run(t); took-test.drain > 2*time.Second {
				t.Errorf("the host ended %v after SIGTERM, want 2 s after its drain of %v at the latest", took, test.drain)
			}
		})
	}
}
