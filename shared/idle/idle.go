// Package idle keeps small what a program holds while it has nothing to do.
package idle

import "runtime/debug"

// Release gives back to the system what only the start of this program needed: the heap's free memory and, on Linux, the
// mapped pages of its code. Code that runs again is mapped again, from the page cache. It takes a few milliseconds; call
// it once, after the start.
func Release() {
	debug.FreeOSMemory()
	releaseCode()
}
