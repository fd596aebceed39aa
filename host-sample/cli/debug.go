package cli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cms-personal/personal/shared/plugins/manager"
)

// debugCallTimeout is how long a request to the API may take with --debug-plugin.
const debugCallTimeout = 24 * time.Hour

// announceDebugged returns a receiver of plugin events that, with --debug-plugin, prints how
// to attach a debugger to each process that begins to serve.
func announceDebugged(w io.Writer, debug bool) func(manager.Event) {
	if !debug {
		return nil
	}
	serving := []manager.EventType{manager.EventSwitched, manager.EventRestarted, manager.EventRolledBack}
	return func(e manager.Event) {
		if slices.Contains(serving, e.Type) && e.PID != 0 {
			debugPlugin(w, e.Version, e.PID)
		}
	}
}

// debugPlugin prints how to attach a debugger to a plugin process.
func debugPlugin(w io.Writer, version string, pid int) {
	fmt.Fprintf(w, "debug plugin %s: dlv attach %d\n", version, pid)
}
