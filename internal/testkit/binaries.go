package testkit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/race"
)

// BinariesVariable is the environment variable with a directory that holds the
// programs host-sample and personal, such as bin after make build.
const BinariesVariable = "PERSONAL_TEST_BINARIES"

// OtherPluginVariable is the environment variable with the path of a plugin of another release, see .ci/skew.
const OtherPluginVariable = "PERSONAL_TEST_OTHER_PLUGIN"

// gcFlagsVariable is the environment variable with what make test says to the compiler if it uses
// the race detector.
const gcFlagsVariable = "PERSONAL_TEST_GCFLAGS"

const module = "github.com/cms-personal/personal"

// Paths are the paths of the programs under test.
type Paths struct {
	Host   string // the sample host
	Plugin string // the plugin

	folder io.Closer // keeps the built programs while it is open
}

// Binaries returns the sample host and the plugin: those that BinariesVariable names,
// or ones built at the first call, with the race detector if this test has it. Built
// programs are removed when the process of the test binary ends.
func Binaries(t testing.TB) Paths {
	t.Helper()
	paths, err := binaries()
	if err != nil {
		t.Fatalf("building the programs under test: %v", err)
	}
	return paths
}

// OtherPlugin returns a plugin of another version than the one under test, to swap with, and its version: that of
// OtherPluginVariable, else AnotherBuild(t, 2).
func OtherPlugin(t testing.TB) (binary, version string) {
	t.Helper()
	if other := os.Getenv(OtherPluginVariable); other != "" {
		return other, versionOf(t, other)
	}
	return AnotherBuild(t, 2)
}

// AnotherBuild returns a copy of the plugin under test, and its version. The copy has n more
// bytes. The version of a development build depends on the size, so nothing has to be linked for
// another one.
func AnotherBuild(t testing.TB, n int) (binary, version string) {
	t.Helper()
	program, err := os.ReadFile(Binaries(t).Plugin)
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(t.TempDir(), "personal")
	if err := writeProgram(binary, append(program, make([]byte, n)...)); err != nil {
		t.Fatal(err)
	}
	version = versionOf(t, binary)
	if version == versionOf(t, Binaries(t).Plugin) {
		t.Fatalf("the plugin under test is a release, %s: the tests need a development build", version)
	}
	return binary, version
}

// ScriptVariable is the environment variable with the path of the [Script] that became a program.
const ScriptVariable = "PERSONAL_TEST_SCRIPT"

// Script returns a shell script that becomes the binary. Catalogues and managers read and hash all of
// what they install and start; a script is much shorter.
func Script(t testing.TB, binary string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), filepath.Base(binary))
	text := fmt.Sprintf("#!/bin/sh\nexport %s=\"$0\"\nexec '%s' \"$@\"\n", ScriptVariable, binary)
	if err := writeProgram(script, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return script
}

// writeProgram writes a program while no process is forked: a fork would hold the open file, and
// keep it from being run.
func writeProgram(path string, program []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, program, 0o700)
}

func versionOf(t testing.TB, plugin string) string {
	t.Helper()
	out, err := exec.Command(plugin, "version").Output()
	if err != nil {
		t.Fatalf("the version of the plugin %s: %v", plugin, err)
	}
	return strings.TrimSpace(string(out))
}

var binaries = sync.OnceValues(func() (Paths, error) {
	if given := os.Getenv(BinariesVariable); given != "" {
		folder, err := filepath.Abs(given)
		return pathsIn(folder), err
	}
	folder, err := os.MkdirTemp("", "personal-binaries-")
	if err != nil {
		return Paths{}, err
	}
	paths := pathsIn(folder)
	if paths.folder, err = removeAtExit(folder); err != nil {
		return Paths{}, errors.Join(err, os.RemoveAll(folder))
	}
	return paths, errors.Join(
		build(paths.Host, "host-sample"),
		build(paths.Plugin, "plugin"))
})

func pathsIn(folder string) Paths {
	return Paths{Host: filepath.Join(folder, "host-sample"), Plugin: filepath.Join(folder, "personal")}
}

// build builds the program in a folder of the repository without symbols, which takes less time to link
// and to copy.
func build(binary, folder string) error {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("go list -m %s: %w", module, err)
	}
	args := []string{"-C", filepath.Join(strings.TrimSpace(string(root)), folder), "build", "-o", binary, "-ldflags", "-s -w"}
	if race.Enabled { // with the flags of make test, which has compiled the packages already
		args = append(append(args, "-race"), strings.Fields(os.Getenv(gcFlagsVariable))...)
	} else {
		args = append(args, "-trimpath")
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", folder, err, out)
	}
	return nil
}

// removeAtExit starts a child that removes the folder when this process has ended,
// even if it was killed: the child then reads the end of its standard input.
func removeAtExit(folder string) (io.Closer, error) {
	cmd := exec.Command("/bin/sh", "-c", `read -r _; rm -rf "$1"`, "sh", folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Dir = "/"
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	return lifeline, cmd.Start()
}
