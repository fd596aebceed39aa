package cli

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDebugPlugin_EveryProcessIsAnnounced(t *testing.T) {
	h := start(t, "--debug-plugin", "--bake", "0s", "--rehearse", "off", "--plugin", testBinary(t))
	first := h.awaitAttach(t, "1.0.0", 0)
	if log := h.log.String(); !strings.Contains(log, "--debug-plugin is for development") {
		t.Errorf("got log %q, want a warning", log)
	}

	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	restarted := h.awaitAttach(t, "1.0.0", first)

	code, stdout, stderr := runToEnd(t, "plugin", "install", "--data", h.data, fake(t, "2.0.0"))
	if code != 0 {
		t.Fatalf("installing: got exit code %d, %q, %q", code, stdout, stderr)
	}
	if code, stdout, stderr := runToEnd(t, "plugin", "use", "--data", h.data, "2.0.0"); code != 0 {
		t.Fatalf("swapping: got exit code %d, %q, %q", code, stdout, stderr)
	}
	h.awaitAttach(t, "2.0.0", restarted)
}

// awaitAttach waits for the command to attach to another process than before, which
// serves that version. It returns the process ID.
func (r *running) awaitAttach(t *testing.T, version string, before int) int {
	t.Helper()
	for deadline := time.Now().Add(generous); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		lines := strings.Split(strings.TrimSpace(r.printed.String()), "\n")
		var pid int
		if n, _ := fmt.Sscanf(lines[len(lines)-1], "debug plugin "+version+": dlv attach %d", &pid); n == 1 && pid != before {
			if err := syscall.Kill(pid, 0); err != nil {
				t.Fatalf("process %d: got %v, want that it runs", pid, err)
			}
			return pid
		}
	}
	t.Fatalf("got output %q, want the command to attach to another process than %d of plugin %s", r.printed, before, version)
	return 0
}

func TestDebugPlugin_CallsHaveNoTimeLimit(t *testing.T) {
	f := defaults(t.TempDir())
	f.DebugPlugin, f.ForwardedHeader = true, "x-forwarded-for"
	if c := checked(t, f); c.api.Timeout != debugCallTimeout {
		t.Errorf("got timeout %v of calls, want %v", c.api.Timeout, debugCallTimeout)
	}
}
