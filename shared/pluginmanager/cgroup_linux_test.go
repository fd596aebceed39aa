package pluginmanager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cms-personal/personal/shared/pluginmanager"
)

// delegatedEnv names the variable with the folder of a delegated control group, in
// the process that a test runs in again, in a group below it.
const delegatedEnv = "TEST_DELEGATED_GROUP"

// inDelegatedGroup runs the calling test again, in a process with a control group as
// systemd makes one with Delegate=yes and DelegateSubgroup=host, and returns the
// delegated group there. To the first process it returns "" once the other has ended,
// and the test returns. It skips the test without root and the memory controller of
// cgroup v2.
func inDelegatedGroup(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv(delegatedEnv); dir != "" {
		return dir
	}
	const root = "/sys/fs/cgroup"
	controllers, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil || !strings.Contains(string(controllers), "memory") {
		t.Skip("this system has no cgroup v2 with the memory controller at " + root)
	}
	dir := filepath.Join(root, fmt.Sprintf("personal-test-%d", os.Getpid()))
	group := filepath.Join(dir, "host")
	err = errors.Join(os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0), os.MkdirAll(group, 0o755))
	if err != nil {
		t.Skipf("this process may not make control groups: %v", err)
	}
	defer func() {
		if err := errors.Join(os.Remove(group), os.Remove(dir)); err != nil {
			t.Errorf("a group is left: %v", err)
		}
	}()
	if err := unix.Setxattr(dir, "user.delegate", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", `echo $$ > "$0" && exec "$@"`, filepath.Join(group, "cgroup.procs"),
		os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), delegatedEnv+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("in a control group: %v\n%s", err, out)
	}
	return ""
}

func TestMemory_HardLimitEndsAProcessThatGrows(t *testing.T) {
	delegated := inDelegatedGroup(t)
	if delegated == "" {
		return
	}
	const limit = 96
	groups := func() []string {
		list, _ := filepath.Glob(filepath.Join(delegated, "personal-plugin-*"))
		return list
	}
	r := newSwapRig(t, func(c *pluginmanager.Config) {
		c.MemoryLimit, c.ActivateTimeout = limit<<20, generous
		c.StartTimeout, c.ConfigureTimeout, c.HealthTimeout = generous, generous, generous // the machine may be an emulated one
	})
	r.start(t)
	if !strings.Contains(r.log.String(), "plugin memory has a hard limit") {
		t.Errorf("got the log %s, want that the limit is hard", r.log)
	}
	if got := groups(); len(got) != 1 {
		t.Errorf("got the groups %q, want one for the process", got)
	}
	r.folder.write("mode 2.0.0", growsActive)
	err := r.Use(limited(t), "2.0.0")
	wantSwapError(t, err, "workers")
	if want := fmt.Sprintf("memory ran out: its limit is %d MiB", limit); !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got %v, want a text with %q", err, want)
	}
	r.wantServing(t, "1.0.0")
	eventually(t, "the end of the group", func() bool { return len(groups()) == 1 })

	r.folder.write("mode 2.0.0", hasLostGrandchild)
	ctx, cancel := context.WithTimeout(t.Context(), 4*generous)
	defer cancel()
	if err := r.Use(ctx, "2.0.0"); err != nil {
		t.Fatal(err)
	}
	child := grandchild(t, r.rig)
	if err := r.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if got := groups(); len(got) > 0 {
		t.Errorf("after the stop: got the groups %q, want none", got)
	}
	eventually(t, "the end of the grandchild", func() bool { return dead(child) })
}
