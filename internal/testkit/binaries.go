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
)

// BinariesVariable is the environment variable for a folder that already contains
// host-sample and personal, such as bin after make build.
const BinariesVariable = "PERSONAL_TEST_BINARIES"

// ReleasedVariable is the environment variable for the path of the last release's
// plugin, see .ci/skew.
const ReleasedVariable = "PERSONAL_TEST_RELEASED"

const module = "github.com/cms-personal/personal"

// Paths are the programs under test.
type Paths struct {
	Host   string // the sample host
	Plugin string // the plugin

	folder io.Closer // closing it removes the folder
}

// Binaries returns the sample host and the plugin. Without BinariesVariable they are
// built at the first call, with the race detector if this test has it, and removed when
// the test binary's process ends.
func Binaries(t testing.TB) Paths {
	t.Helper()
	paths, err := binaries()
	if err != nil {
		t.Fatalf("the programs to test: %v", err)
	}
	return paths
}

// PluginVersion returns the path of the plugin stamped with a version. It is built at
// the first call for that version and removed when the test binary's process ends.
func PluginVersion(t testing.TB, version string) string {
	t.Helper()
	path, err := versions.build(version)
	if err != nil {
		t.Fatalf("building plugin %s: %v", version, err)
	}
	return path
}

// versions are the plugins built so far, each in a folder named by its version.
var versions stampedPlugins

type stampedPlugins struct {
	mu     sync.Mutex
	folder string
	inUse  io.Closer // closing it removes the folder
	built  map[string]bool
}

func (s *stampedPlugins) build(version string) (path string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.folder == "" {
		folder, err := os.MkdirTemp("", "personal-versions-")
		if err != nil {
			return "", err
		}
		if s.inUse, err = removeAtExit(folder); err != nil {
			return "", errors.Join(err, os.RemoveAll(folder))
		}
		s.folder, s.built = folder, map[string]bool{}
	}
	path = filepath.Join(s.folder, version, "personal")
	if s.built[version] {
		return path, nil
	}
	if err := build(path, module+"/plugin", "-ldflags", "-X main.version="+version); err != nil {
		return "", err
	}
	s.built[version] = true
	return path, nil
}

// OtherPlugin returns a plugin to swap with one of a version, and its version: the last
// release's if ReleasedVariable is set, else a build of this source.
func OtherPlugin(t testing.TB, than string) (binary, version string) {
	t.Helper()
	if released := os.Getenv(ReleasedVariable); released != "" {
		out, err := exec.Command(released, "version").Output()
		if err != nil {
			t.Fatalf("the last release's plugin: %v", err)
		}
		return released, strings.TrimSpace(string(out))
	}
	version = than + "-before"
	return PluginVersion(t, version), version
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
		build(paths.Host, module+"/host-sample"),
		build(paths.Plugin, module+"/plugin"))
})

func pathsIn(folder string) Paths {
	return Paths{Host: filepath.Join(folder, "host-sample"), Plugin: filepath.Join(folder, "personal")}
}

func build(binary, pkg string, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-o", binary}, flags...)
	if RaceDetector {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, pkg)...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// removeAtExit starts a child that removes the folder when this process ends, also by a
// kill: the child's standard input ends then.
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
