package pluginmanager

import (
	"testing"

	"pgregory.net/rapid"
)

func TestATallyJudgesTheLastCallsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.SliceOfN(rapid.Bool(), 0, 200).Draw(t, "calls")
		var got tally
		for _, failed := range calls {
			got.count(failed)
		}
		last := calls[max(0, len(calls)-tallyWindow):]
		faults := 0
		for _, failed := range last {
			if failed {
				faults++
			}
		}
		want := len(last) >= tallyLeast && 2*faults > len(last)
		if got.tooMany() != want {
			t.Fatalf("%d of the last %d calls failed: judged %v", faults, len(last), got.tooMany())
		}
	})
}
