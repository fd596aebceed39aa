package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin/runner"

	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// pipeGrace is how long to read the output of a process after its end.
const pipeGrace = 500 * time.Millisecond

// scratchNice is the priority of a scratch process.
const scratchNice = 10

// child is an operating system process in its own group, as a runner for
// go-plugin. It is started once.
type child struct {
	path string
	env  []string
	log  *logForwarder
	nice bool // it leaves processors to others

	stdout   *os.File
	lifeline *os.File      // the host's end, see rpc.LifelineEnv
	logged   chan struct{} // closed when the last line was logged
	alive    context.Context
	exited   context.CancelFunc // ends alive, once the process has exited and its group was killed
	err      error              // exit status; valid once alive has ended
	printed  atomic.Bool        // it has printed something

	mu     sync.Mutex
	number int  // process ID; 0 before the start
	killed bool // it must not be started any more
	reaped bool // the process ID may belong to another process
}

var _ runner.Runner = (*child)(nil)

func newChild(path string, log *logForwarder, nice bool) *child {
	c := &child{path: path, log: log, nice: nice, logged: make(chan struct{})}
	c.alive, c.exited = context.WithCancel(context.Background())
	return c
}

// Start starts the process.
func (c *child) Start(ctx context.Context) error {
	return catalogue.RetryBusy(ctx, c.path, c.start)
}

func (c *child) start() error {
	var files []*os.File // both ends of the pipes for standard output, log and lifeline
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(files...)
			return err
		}
		files = append(files, r, w)
	}
	stdout, log, lifeline := files[0], files[2], files[5]
	cmd := exec.Command(c.path)
	cmd.Env = append(c.env[:len(c.env):len(c.env)], rpc.LifelineEnv+"=3")
	cmd.Stdout, cmd.Stderr = files[1], files[3]
	cmd.ExtraFiles = files[4:5] // descriptor 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	err := c.launch(cmd)
	closeAll(files[1], files[3], files[4])
	if err != nil {
		closeAll(stdout, log, lifeline)
		return err
	}
	c.stdout, c.lifeline = stdout, lifeline
	c.log.pid.Store(int64(cmd.Process.Pid))
	go c.forwardLog(log)
	go c.reap(cmd, log)
	return nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

func (c *child) launch(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return errors.New("the start was cancelled")
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.number = cmd.Process.Pid
	if c.nice { // the group has all threads, and those that they make inherit it
		_ = syscall.Setpriority(syscall.PRIO_PGRP, c.number, scratchNice)
	}
	return nil
}

// forwardLog logs what the process writes to its standard error. It ends soon
// after the process, even if a grandchild still holds the pipe.
func (c *child) forwardLog(r *os.File) {
	defer close(c.logged)
	defer r.Close()
	c.log.forward(r)
}

// reap waits for the end of the process and kills the rest of its group.
func (c *child) reap(cmd *exec.Cmd, log *os.File) {
	c.err = waitGroup(cmd, c.kill)
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	deadline := time.Now().Add(pipeGrace)
	_ = c.stdout.SetReadDeadline(deadline)
	_ = log.SetReadDeadline(deadline)
	c.exited()
}

// kill kills the process and its group, if they are alive. A process that was not
// started yet is never started.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	if c.number != 0 && !c.reaped {
		_ = syscall.Kill(-c.number, syscall.SIGKILL)
	}
}

// release closes the lifeline.
func (c *child) release() {
	if c.lifeline != nil {
		_ = c.lifeline.Close()
	}
}

func (c *child) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.number
}

// wasKilled reports whether SIGKILL ended the process, which has exited.
func (c *child) wasKilled() bool {
	var exit *exec.ExitError
	if !errors.As(c.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Wait waits for the end of the process. go-plugin calls it after it has read the
// output.
func (c *child) Wait(context.Context) error {
	<-c.alive.Done()
	<-c.logged
	return errors.Join(c.err, c.stdout.Close())
}

// Kill kills the process and its group.
func (c *child) Kill(context.Context) error {
	c.kill()
	return nil
}

// Stdout returns the output of the process: the handshake.
func (c *child) Stdout() io.ReadCloser { return output{c.stdout, &c.printed} }

// output notes whether a process has printed something.
type output struct {
	*os.File
	printed *atomic.Bool
}

// Read reads what the process prints.
func (o output) Read(p []byte) (int, error) {
	n, err := o.File.Read(p)
	if n > 0 {
		o.printed.Store(true)
	}
	return n, err
}

// Stderr returns nothing: go-plugin would parse the log, and panics on a line
// whose @message is not a string.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name returns the path of the binary.
func (c *child) Name() string { return c.path }

// ID returns the process ID.
func (c *child) ID() string { return strconv.Itoa(c.pid()) }

// Diagnose adds nothing to an error.
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost returns the address unchanged: both sides see the same files.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

// HostToPlugin returns the address unchanged.
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// inherited names the variables of the host that the plugin gets: the folder for
// temporary files, the time zone, the certificates to trust, and the limits of
// Go's runtime and its race detector. It also gets those of OpenTelemetry. All others, among them secrets,
// stay with the host.
var inherited = []string{"TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "GORACE"}

// goShare is the share of the memory limit that Go's runtime may use, in percent. The
// rest is for what the runtime does not count: the program itself, and the memory that
// SQLite maps.
const goShare = 80

// environment returns the plugin's environment: the lowest level that the host
// logs, the inherited variables, the limit of its memory, and the given ones, which take
// precedence.
func environment(o Options) []string {
	level := slog.LevelDebug
	for level < slog.LevelError && !o.Log.Enabled(context.Background(), level) {
		level += slog.LevelInfo - slog.LevelDebug
	}
	env := []string{rpc.LogLevelEnv + "=" + level.String()}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "OTEL_") && !o.Scratch {
			env = append(env, variable)
		}
	}
	if o.MemoryLimit > 0 {
		env = append(env, fmt.Sprintf("GOMEMLIMIT=%d", o.MemoryLimit/100*goShare), fmt.Sprintf("%s=%d", rpc.MemoryLimitEnv, o.MemoryLimit))
	}
	env = append(env, o.Env...)
	if o.Scratch {
		env = append(env, "GOMAXPROCS=1", "GOGC=400")
	}
	return env
}
