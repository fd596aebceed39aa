package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cms-personal/personal/shared/pluginrpc"
)

// ErrOutOfMemory says that the kernel killed the process because memory ran out.
var ErrOutOfMemory = errors.New("the kernel killed the plugin process because memory ran out")

const (
	groupPrefix  = "personal-plugin-"
	groupRetries = 20 // attempts to remove a group whose last process is ending
	groupWait    = 10 * time.Millisecond

	// goShare is the share of the limit that Go's runtime may use, in percent. The rest
	// is for what the runtime does not count: the program itself, and the memory that
	// SQLite maps.
	goShare = 80
)

// Memory limits the memory of plugin processes, and tells whether the kernel killed
// one because memory ran out. Every process gets a soft limit: Go's runtime collects
// garbage more often before it uses more. Where a control group (cgroup v2) is
// delegated to the host, every process also gets a group with a hard limit: the kernel
// kills a process that needs more. RLIMIT_AS is no substitute: Go reserves address
// space that it never uses.
type Memory struct {
	limit     int64  // in bytes; 0 for none
	own       string // folder of the host's group; empty if there is no cgroup v2
	delegated string // folder of the group in which each process gets its own; empty for none
}

// OpenMemory returns the limit for the processes of one manager; a limit of 0 only
// tells why processes were killed. The error says why there is no hard limit; the
// result can be used nevertheless. Files of the kernel are read below root, which is
// "/" except in tests.
func OpenMemory(root string, limit int64) (*Memory, error) {
	m := &Memory{limit: limit}
	path, err := ownGroup(root)
	if err != nil {
		return m, err
	}
	m.own = filepath.Join(root, "sys/fs/cgroup", path)
	if limit == 0 {
		return m, nil
	}
	if path == "/" {
		return m, errors.New("the host is in the root of the control groups, not in a group below a delegated one")
	}
	parent := filepath.Dir(m.own)
	if !isDelegated(parent) {
		return m, fmt.Errorf("the control group %s is not delegated to the host (systemd: Delegate=yes with DelegateSubgroup=)", parent)
	}
	if err := enableMemory(parent); err != nil {
		return m, err
	}
	m.delegated = parent
	m.sweep()
	return m, nil
}

// ownGroup returns the path of the host's control group in the one hierarchy of
// cgroup v2.
func ownGroup(root string) (string, error) {
	data, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return "", fmt.Errorf("this system has no control groups: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		path, found := strings.CutPrefix(strings.TrimSpace(line), "0::/")
		if !found || strings.Contains(path, "..") { // outside of this namespace
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "sys/fs/cgroup", path, "cgroup.controllers")); err == nil {
			return "/" + path, nil
		}
	}
	return "", errors.New("this system has no cgroup v2 at /sys/fs/cgroup")
}

// enableMemory lets the groups below a group limit memory.
func enableMemory(group string) error {
	control := filepath.Join(group, "cgroup.subtree_control")
	if enabled, err := os.ReadFile(control); err == nil && hasWord(string(enabled), "memory") {
		return nil
	}
	err := os.WriteFile(control, []byte("+memory"), 0)
	if errors.Is(err, syscall.EBUSY) { // cgroup v2: groups that limit others hold no processes
		return fmt.Errorf("the control group %s holds processes itself: start the host in a group below it (systemd: DelegateSubgroup=): %w", group, err)
	}
	if err != nil {
		return fmt.Errorf("the control group %s cannot limit memory: %w", group, err)
	}
	return nil
}

func hasWord(text, word string) bool {
	for w := range strings.FieldsSeq(text) {
		if w == word {
			return true
		}
	}
	return false
}

// sweep removes the groups that a killed host left. A group with a process cannot be
// removed.
func (m *Memory) sweep() {
	left, _ := filepath.Glob(filepath.Join(m.delegated, groupPrefix+"*"))
	for _, group := range left {
		_ = syscall.Rmdir(group)
	}
}

// environment returns the variables by which a process learns of its limit.
func (m *Memory) environment() []string {
	if m == nil || m.limit == 0 {
		return nil
	}
	return []string{
		fmt.Sprintf("GOMEMLIMIT=%d", m.limit/100*goShare),
		fmt.Sprintf("%s=%d", pluginrpc.MemoryLimitEnv, m.limit),
	}
}

// group is the control group of one process.
type group struct {
	dir   string
	limit int64 // in bytes; 0 if it is the host's own group
	kills int   // by the kernel, for lack of memory, before the process was started
}

// enter puts a process that was started a moment ago into a group with a hard limit.
// Without one, and if that fails, the process stays in the host's group. (Starting it
// in the group takes clone3, which systemd's RestrictNamespaces= forbids.)
func (m *Memory) enter(pid int) (*group, error) {
	if m == nil {
		return &group{}, nil
	}
	own := &group{dir: m.own, kills: memoryEvents(m.own, "oom_kill")}
	if m.delegated == "" {
		return own, nil
	}
	g := &group{dir: filepath.Join(m.delegated, groupPrefix+strconv.Itoa(pid)), limit: m.limit}
	if err := os.Mkdir(g.dir, 0o755); err != nil { // it may exist, for a process of a host with another PID namespace
		return own, fmt.Errorf("making a control group: %w", err)
	}
	if err := g.fill(pid); err != nil {
		g.remove()
		return own, fmt.Errorf("making a control group: %w", err)
	}
	return g, nil
}

func (g *group) fill(pid int) error {
	// Without a swap limit the kernel would move what is beyond the limit to disk. A
	// kernel without swap has no such file.
	_ = g.write("memory.swap.max", "0")
	err := g.write("memory.max", strconv.FormatInt(g.limit, 10))
	if err == nil {
		err = g.write("memory.oom.group", "1")
	}
	if err == nil {
		err = g.write("cgroup.procs", strconv.Itoa(pid))
	}
	return err
}

func (g *group) write(name, value string) error {
	return os.WriteFile(filepath.Join(g.dir, name), []byte(value), 0o644)
}

// lossCause returns [ErrOutOfMemory] and what to do if the kernel has killed a process
// of the group for lack of memory, and nil otherwise.
func (g *group) lossCause() error {
	switch {
	case g.dir == "" || memoryEvents(g.dir, "oom_kill") <= g.kills:
		return nil
	case g.limit > 0 && memoryEvents(g.dir, "oom") > 0: // not the limit of a group above, nor the machine's memory
		return fmt.Errorf("%w: its limit is %d MiB; raise the limit", ErrOutOfMemory, g.limit>>20)
	}
	return fmt.Errorf("%w: give the host's service or the machine more memory, or the plugin a lower limit", ErrOutOfMemory)
}

// remove removes the group of a process that has ended, if it had one of its own, and
// kills the processes that it started and that still run.
func (g *group) remove() {
	if g.limit == 0 {
		return
	}
	for range groupRetries {
		if err := syscall.Rmdir(g.dir); !errors.Is(err, syscall.EBUSY) {
			return
		}
		_ = g.write("cgroup.kill", "1")
		time.Sleep(groupWait)
	}
}

// memoryEvents returns how often the event happened in a control group: "oom_kill" is a
// process that the kernel killed for lack of memory anywhere, "oom" that the limit of the
// group, or of one below it, was reached. It is 0 if the kernel does not say.
func memoryEvents(dir, event string) int {
	data, _ := os.ReadFile(filepath.Join(dir, "memory.events"))
	for line := range strings.Lines(string(data)) {
		if count, found := strings.CutPrefix(line, event+" "); found {
			n, _ := strconv.Atoi(strings.TrimSpace(count))
			return n
		}
	}
	return 0
}
