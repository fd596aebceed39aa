package cli

import (
	"debug/elf"
	"debug/macho"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/cms-personal/personal/shared/personalhost/mailer"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// debugCallTimeout is how long a request to the API may take with --debug-plugin.
const debugCallTimeout = 24 * time.Hour

// checkDebugAddr accepts loopback addresses only: a paused plugin blocks every visitor.
func checkDebugAddr(host string) error {
	if !mailer.IsLoopback(host) {
		return errors.New("it is for development and works only with an --addr on loopback, such as 127.0.0.1:8080")
	}
	return nil
}

// announceDebugged returns a receiver of plugin events that, with --debug-plugin, prints how
// to attach a debugger to each process that begins to serve.
func announceDebugged(w io.Writer, catalogue *catalogue.Catalogue, debug bool, log *slog.Logger) func(manager.Event) {
	if !debug {
		return nil
	}
	serving := []manager.EventType{manager.EventSwitched, manager.EventRestarted, manager.EventRolledBack}
	return func(e manager.Event) {
		if slices.Contains(serving, e.Type) && e.PID != 0 {
			debugPlugin(w, catalogue, e.Version, e.PID, log)
		}
	}
}

// debugPlugin prints how to attach a debugger to a plugin process, and warns if the
// debugger would find no symbols.
func debugPlugin(w io.Writer, versions *catalogue.Catalogue, version string, pid int, log *slog.Logger) {
	fmt.Fprintf(w, "debug plugin %s: dlv attach %d\n", version, pid)
	entry, err := versions.Find(version)
	if err != nil {
		return // removed since
	}
	if file := filepath.Join(entry.Dir, catalogue.Name); isStripped(file) {
		log.Warn("a debugger finds no symbols in this plugin: build it with make build STRIP= and install it", "version", version)
	}
}

// isStripped reports whether a program lacks the symbols that a debugger needs. It is
// false for a file that it cannot read.
func isStripped(path string) bool {
	if f, err := elf.Open(path); err == nil {
		defer f.Close()
		return f.Section(".debug_info") == nil && f.Section(".zdebug_info") == nil
	}
	if f, err := macho.Open(path); err == nil {
		defer f.Close()
		return f.Section("__debug_info") == nil && f.Section("__zdebug_info") == nil
	}
	return false
}
