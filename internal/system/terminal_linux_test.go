package system

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/internal/testkit"
)

// terminal returns both ends of a new terminal: what programs write to the second can be
// read from the first.
func terminal(t *testing.T) (reader, program *os.File) {
	t.Helper()
	reader, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this system has no terminals: %v", err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	number, err := unix.IoctlGetInt(int(reader.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(reader.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("this system has no terminals: %v", err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return reader, program
}

func TestAdminLink_IsPrintedOnATerminal(t *testing.T) {
	t.Parallel()
	reader, program := terminal(t)
	shown := &journal{}
	go func() { _, _ = io.Copy(shown, reader) }() // ends when the terminal is closed
	paths := testkit.Binaries(t)
	host := exec.Command(paths.Host, "serve", "--addr", "127.0.0.1:0", "--plugin", paths.Plugin, "--data", filepath.Join(t.TempDir(), "data"))
	host.Stdout, host.Stderr = program, io.Discard
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = host.Process.Signal(unix.SIGTERM)
		_ = host.Wait()
	})
	eventually(t, "the host prints its addresses", func() bool { return strings.Contains(shown.String(), "Try it:") })
	if !strings.Contains(shown.String(), printedLink) {
		t.Errorf("on a terminal: got %s, want a link", shown)
	}
}
