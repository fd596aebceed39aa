package pluginmanager

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// patience is how many starts may fail in a row before calls no longer wait for
// the next.
const patience = 3

// record is what the owner remembers of the attempts to run the plugin.
type record struct {
	config   Config
	failures int    // starts that failed, in a row
	deaths   int    // of them, and in a row, those that the process did not survive
	crashes  int    // processes of version that died young, in a row
	version  string // that served last
}

// verdict is what follows from a failure.
type verdict struct {
	fault  error
	wait   time.Duration // before the next attempt
	refuse bool          // calls meanwhile, instead of letting them wait
	final  bool          // trying again is not expected to help
	dying  bool          // the version's processes die in every start
}

// served notes that a process became ready.
func (r *record) served() { r.failures, r.deaths = 0, 0 }

// turnTo notes which version what follows is about.
func (r *record) turnTo(version string) {
	if r.version != version {
		r.version, r.crashes = version, 0
	}
}

// failed notes a start that failed. The waits have full jitter, so that hosts
// that lost the same database do not return to it in step.
func (r *record) failed(err error) verdict {
	r.failures++
	if r.deaths++; !isDeath(err) {
		r.deaths = 0
	}
	if isFinal(err) {
		return verdict{fault: err, wait: r.config.FailureRetry, refuse: true, final: true}
	}
	limit := r.config.BackoffMax
	if doublings := r.failures - 1; doublings < 16 {
		limit = min(limit, r.config.BackoffMin<<doublings)
	}
	return verdict{fault: err, wait: 1 + rand.N(limit), refuse: r.failures >= patience, dying: r.deaths >= r.config.CrashLimit}
}

// died notes that a process died that had been ready for so long. A pause is due
// only if it was one crash too many. That it was killed from outside is no fault
// of its version.
func (r *record) died(err error, lived time.Duration) (verdict, bool) {
	if errors.Is(err, errKilled) {
		return verdict{}, false
	}
	if lived >= r.config.CrashWindow {
		r.crashes = 0
		return verdict{}, false
	}
	if r.crashes++; r.crashes < r.config.CrashLimit {
		return verdict{}, false
	}
	fault := fmt.Errorf("crashed %d times in a row within %v of being ready: %w", r.crashes, r.config.CrashWindow, err)
	return verdict{fault: fault, wait: r.config.FailureRetry, refuse: true, final: true}, true
}

// isDeath reports whether a process was not good enough to be asked anything, or
// ended while it was.
func isDeath(err error) bool {
	var at *StepError
	return errors.As(err, &at) && at.Step == "start" || errors.Is(err, errEnded)
}

// isFinal reports whether trying again is not expected to help.
func isFinal(err error) bool {
	var refusal *pluginrpc.PermanentError
	var refused *plugincatalogue.RefusedError
	return errors.As(err, &refusal) || errors.As(err, &refused)
}
