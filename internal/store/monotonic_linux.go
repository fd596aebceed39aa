package store

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns a clock that, unlike Go's, also runs while the machine is suspended:
// a laptop that wakes up has the right time at once.
func monotonic() func() time.Duration {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return monotonicOfProcess()
	}
	return func() time.Duration {
		var now unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // it did not fail before
		return time.Duration(now.Nano())
	}
}
