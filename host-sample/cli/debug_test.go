package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	// The warning follows the announcement, so that of the first process is there by now.
	if got, want := strings.Contains(h.log.String(), "make build STRIP="), isStripped(testBinary(t)); got != want {
		t.Errorf("got the warning about symbols %v, want %v: go test strips its binaries", got, want)
	}

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

func TestIsStripped_FindsSymbols(t *testing.T) {
	folder := t.TempDir()
	source := filepath.Join(folder, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]bool{"": false, "-s -w": true} {
		program := filepath.Join(folder, "program")
		if out, err := exec.Command("go", "build", "-ldflags", flags, "-o", program, source).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := isStripped(program); got != want {
			t.Errorf("linked with %q: got %v, want %v", flags, got, want)
		}
	}
	if isStripped(source) {
		t.Error("got stripped for a source file, want false")
	}
}
