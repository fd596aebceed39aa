package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// kernel is a folder with files as the kernel has them.
type kernel string

func (k kernel) write(t *testing.T, path, text string) {
	t.Helper()
	path = filepath.Join(string(k), path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (k kernel) read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(string(k), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const (
	service = "sys/fs/cgroup/system.slice/cms.service"
	ownDir  = service + "/host"
)

// newKernel returns the files of a system on which the host runs in the group "host"
// of a service.
func newKernel(t *testing.T) kernel {
	k := kernel(t.TempDir())
	k.write(t, "proc/self/cgroup", "0::/system.slice/cms.service/host\n")
	k.write(t, service+"/cgroup.subtree_control", "cpu pids\n")
	k.write(t, ownDir+"/cgroup.controllers", "cpu memory pids\n")
	k.write(t, ownDir+"/memory.events", "low 0\nhigh 0\nmax 7\noom 3\noom_kill 2\noom_group_kill 0\n")
	return k
}

// delegate marks the service's group as systemd does with Delegate=yes.
func (k kernel) delegate(t *testing.T) {
	t.Helper()
	err := unix.Setxattr(filepath.Join(string(k), service), "user.delegate", []byte("1"), 0)
	if errors.Is(err, unix.ENOTSUP) {
		t.Skip("the file system of temporary files has no extended attributes")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenMemory_SaysWhyThereIsNoHardLimit(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(t *testing.T, k kernel)
		want   string
	}{
		"no control groups": {func(_ *testing.T, k kernel) { _ = os.Remove(filepath.Join(string(k), "proc/self/cgroup")) }, "no control groups"},
		"only cgroup v1":    {func(t *testing.T, k kernel) { k.write(t, "proc/self/cgroup", "4:memory:/a\n1:cpu:/\n") }, "no cgroup v2"},
		"both versions":     {func(t *testing.T, k kernel) { k.write(t, "proc/self/cgroup", "4:memory:/a\n0::/b\n") }, "no cgroup v2 at /sys/fs/cgroup"},
		"another namespace": {func(t *testing.T, k kernel) { k.write(t, "proc/self/cgroup", "0::/../host\n") }, "no cgroup v2"},
		"the root": {func(t *testing.T, k kernel) {
			k.write(t, "proc/self/cgroup", "0::/\n")
			k.write(t, "sys/fs/cgroup/cgroup.controllers", "memory\n")
		}, "the root of the control groups"},
		"not delegated": {func(*testing.T, kernel) {}, "is not delegated to the host (systemd: Delegate=yes with DelegateSubgroup=)"},
		"not writable": {func(t *testing.T, k kernel) {
			k.delegate(t)
			control := filepath.Join(string(k), service, "cgroup.subtree_control")
			if err := errors.Join(os.Remove(control), os.Mkdir(control, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, "cannot limit memory"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(t)
			tt.change(t, k)
			m, err := OpenMemory(string(k), 100<<20)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
			if want := []string{"GOMEMLIMIT=83886080", "PERSONAL_MEMORY_LIMIT=104857600"}; !slices.Equal(m.environment(), want) {
				t.Errorf("got environment %q, want the soft limit %q", m.environment(), want)
			}
			g, err := m.enter(os.Getpid())
			if err != nil || g.limit != 0 {
				t.Errorf("got group %+v (%v), want that the process stays where it is", g, err)
			}
		})
	}
}

func TestMemory_LimitsEachProcessInAGroupOfItsOwn(t *testing.T) {
	k := newKernel(t)
	k.delegate(t)
	stale, busy := filepath.Join(string(k), service, groupPrefix+"1"), service+"/"+groupPrefix+"2/cgroup.procs"
	if err := os.Mkdir(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	k.write(t, busy, "2\n")
	m, err := OpenMemory(string(k), 512<<20)
	if err != nil {
		t.Fatal(err)
	}
	if got := k.read(t, service+"/cgroup.subtree_control"); !strings.Contains(got, "+memory") {
		t.Errorf("got the controllers %q, want that memory is enabled", got)
	}
	if _, err := os.Stat(stale); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the group of a killed host: got %v, want that it is removed", err)
	}
	k.read(t, busy) // of another host: still there

	g, err := m.enter(4711)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"memory.max": "536870912", "memory.swap.max": "0", "memory.oom.group": "1", "cgroup.procs": "4711",
	} {
		if got := k.read(t, service+"/"+groupPrefix+"4711/"+file); got != want {
			t.Errorf("%s: got %q, want %q", file, got, want)
		}
	}
	if err := g.lossCause(); err != nil {
		t.Errorf("got the cause %v, want none: the kernel killed no process", err)
	}
	events := service + "/" + groupPrefix + "4711/memory.events"
	k.write(t, events, "max 0\noom 0\noom_kill 1\n")
	if err := g.lossCause(); !errors.Is(err, ErrOutOfMemory) || strings.Contains(err.Error(), "raise the limit") {
		t.Errorf("after a kill because the machine has no memory: got %v, want that memory ran out, but not the limit", err)
	}
	k.write(t, events, "max 9\noom 1\noom_kill 1\n")
	if err := g.lossCause(); !errors.Is(err, ErrOutOfMemory) || !strings.Contains(err.Error(), "512 MiB") {
		t.Errorf("after a kill: got %v, want that memory ran out, with the limit", err)
	}
}

func TestMemory_FailedGroupLeavesSoftLimit(t *testing.T) {
	k := newKernel(t)
	k.delegate(t)
	k.write(t, service+"/cgroup.subtree_control", "memory\n")
	m, err := OpenMemory(string(k), 512<<20)
	if err != nil {
		t.Fatal(err)
	}
	if got := k.read(t, service+"/cgroup.subtree_control"); got != "memory\n" {
		t.Errorf("got the controllers %q, want them unchanged", got)
	}
	k.write(t, service+"/"+groupPrefix+"4711", "a file in the way")
	g, err := m.enter(4711)
	if err == nil || g.limit != 0 || g.dir != filepath.Join(string(k), ownDir) {
		t.Errorf("got group %+v and error %v, want the host's group and an error", g, err)
	}
}

func TestMemory_GroupOfAnotherHostIsLeftAlone(t *testing.T) {
	k := newKernel(t)
	k.delegate(t)
	m, err := OpenMemory(string(k), 512<<20)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(string(k), service, groupPrefix+"4711") // made after the start
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	g, err := m.enter(4711)
	if err == nil || g.limit != 0 {
		t.Errorf("got group %+v and error %v, want the host's group and an error", g, err)
	}
	if left, err := os.ReadDir(other); err != nil || len(left) > 0 {
		t.Errorf("got %v (%v), want the group as it was", left, err)
	}
}

func TestLossCause_CountsKillsSinceTheStart(t *testing.T) {
	k := newKernel(t)
	m, err := OpenMemory(string(k), 0)
	if err != nil {
		t.Fatal(err)
	}
	if env := m.environment(); len(env) > 0 {
		t.Errorf("without a limit: got environment %q, want none", env)
	}
	g, err := m.enter(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		events string
		oom    bool
	}{
		{"oom_kill 2\n", false}, // from before the start
		{"oom 5\nmax 9\noom_kill 2\noom_group_kill 4\n", false},
		{"oom 5\noom_kill 3\n", true},
		{"oom_kill many\n", false},
		{"", false},
	} {
		k.write(t, ownDir+"/memory.events", tt.events)
		if err := g.lossCause(); errors.Is(err, ErrOutOfMemory) != tt.oom {
			t.Errorf("%q: got %v, want out of memory: %v", tt.events, err, tt.oom)
		}
	}
}
