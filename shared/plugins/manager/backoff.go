package manager

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager/internal/process"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// maxWaitingStarts is how many starts in a row may fail until calls are refused
// instead of waiting for the next start.
const maxWaitingStarts = 3

// attempts counts failed starts and crashes, to decide when to try again.
type attempts struct {
	limits  limits
	failed  int    // starts in a row that failed
	deaths  int    // of them, how many in a row ended with the death of the process
	crashes int    // processes of version in a row that died soon after they were ready
	version string // the version that died last
}

// failure says what follows from a failed start or from too many crashes.
type failure struct {
	cause       error
	wait        time.Duration // before the next start
	refuseCalls bool          // until then, instead of letting them wait
	permanent   bool          // another attempt is not expected to help
	fallBack    bool          // the last good version may help
}

// succeeded counts a start that succeeded.
func (a *attempts) succeeded() { a.failed, a.deaths = 0, 0 }

// startFailed counts a failed start. The backoff has full jitter, so that hosts
// that lost the same database do not return to it in step.
func (a *attempts) startFailed(err error) failure {
	a.failed++
	if a.deaths++; !isDeath(err) {
		a.deaths = 0
	}
	f := failure{cause: err, fallBack: a.deaths >= a.limits.CrashLimit || isRefused(err)}
	if errors.Is(err, catalogue.ErrNoExec) { // which holds for every version
		f.fallBack = false
	}
	if isPermanent(err) {
		f.wait, f.refuseCalls, f.permanent = a.limits.FailureRetry, true, true
		return f
	}
	limit := a.limits.BackoffMax
	if doublings := a.failed - 1; doublings < 16 {
		limit = min(limit, a.limits.BackoffMin<<doublings)
	}
	f.wait, f.refuseCalls = 1+rand.N(limit), a.failed >= maxWaitingStarts
	return f
}

// died counts the death of a process that had been ready for some time, and returns
// a failure if the version has crashed too often. A process that was killed from
// outside has not crashed.
func (a *attempts) died(version string, err error, lived time.Duration) *failure {
	if a.version != version {
		a.version, a.crashes = version, 0
	}
	if errors.Is(err, process.ErrKilled) {
		return nil
	}
	if lived >= crashWindow {
		a.crashes = 0
		return nil
	}
	if a.crashes++; a.crashes < a.limits.CrashLimit {
		return nil
	}
	return &failure{
		cause: fmt.Errorf("crashed %d times in a row within %v of being ready: %w", a.crashes, crashWindow, err),
		wait:  a.limits.FailureRetry, refuseCalls: true, permanent: true, fallBack: true,
	}
}

// isDeath reports whether the process did not complete the handshake, or ended
// during a later step.
func isDeath(err error) bool {
	var at *StepError
	return errors.As(err, &at) && at.Step == stepStart || errors.Is(err, process.ErrExited) || errors.Is(err, process.ErrKilled)
}

// isRefused reports whether the catalogue refused the version as it is on disk.
func isRefused(err error) bool {
	var refused *catalogue.RefusedError
	return errors.As(err, &refused)
}

// isPermanent reports whether another attempt is not expected to help.
func isPermanent(err error) bool {
	var permanent *rpc.PermanentError
	return errors.As(err, &permanent) || isRefused(err)
}
