//go:build linux

// Package mounttest gives a test its own file systems: small ones, and ones that
// allow no execution.
package mounttest

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// isolatedEnv marks the process in which a test runs again.
const isolatedEnv = "TEST_MOUNT_NAMESPACE"

// Isolated runs the calling test again, in a process with its own mount namespace,
// and reports true there: the test then calls [Tmpfs] and goes on. To the first process it
// reports false once the other has ended, and the test returns. It skips the test if the
// system allows no namespaces.
func Isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(isolatedEnv) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), isolatedEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, // the former, so that it works without root
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		t.Errorf("in a mount namespace: %v\n%s", err, out)
	case err != nil:
		t.Skipf("this system allows no mount namespace: %v", err)
	}
	return false
}

// Tmpfs mounts an empty file system at a new folder until the test ends. The flags are
// 0 or syscall.MS_NOEXEC, the options such as size=10m.
func Tmpfs(t *testing.T, flags uintptr, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options+",mode=0700"); err != nil {
		t.Fatalf("mounting a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmounting a tmpfs: %v", err)
		}
	})
	return dir
}
