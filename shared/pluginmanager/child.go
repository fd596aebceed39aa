package pluginmanager

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// pipeGrace is how long the rest of a dead process's output is waited for.
const pipeGrace = 500 * time.Millisecond

// child is an operating system process in a group of its own, as go-plugin's
// runner. It is started once.
type child struct {
	path string
	env  []string
	log  *pluginLog

	stdout   *os.File
	lifeline *os.File      // our end of it, see pluginrpc.LifelineEnv
	logged   chan struct{} // closed when the last line was logged
	exited   chan struct{} // closed when the process has ended and its group was killed
	err      error         // of the process; to be read once exited is closed

	mu     sync.Mutex
	number int  // the process's; 0 before it was started
	killed bool // it must not be started any more
	reaped bool // its number may be another's
}

func newChild(path string, log *pluginLog) *child {
	return &child{
		path:   path,
		log:    log,
		logged: make(chan struct{}),
		exited: make(chan struct{}),
	}
}

// Start starts the process.
func (c *child) Start(ctx context.Context) error {
	return plugincatalogue.StartWritten(ctx, c.path, c.start)
}

func (c *child) start() error {
	var output, log, life pipe
	if err := openPipes(&output, &log, &life); err != nil {
		return err
	}
	cmd := exec.Command(c.path)
	cmd.Env = append(c.env[:len(c.env):len(c.env)], pluginrpc.LifelineEnv+"=3")
	cmd.Stdout, cmd.Stderr = output.w, log.w
	cmd.ExtraFiles = []*os.File{life.r} // descriptor 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	err := c.launch(cmd)
	closeAll(output.w, log.w, life.r)
	if err != nil {
		closeAll(output.r, log.r, life.w)
		return err
	}
	c.stdout, c.lifeline = output.r, life.w
	c.log.pid.Store(int64(cmd.Process.Pid))
	go c.forwardLog(log.r)
	go c.reap(cmd, log.r)
	return nil
}

func (c *child) launch(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed {
		return errors.New("the start was called off")
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.number = cmd.Process.Pid
	return nil
}

// forwardLog logs what the process writes to its standard error. It ends soon
// after the process, whoever else holds the pipe.
func (c *child) forwardLog(r *os.File) {
	defer close(c.logged)
	defer r.Close()
	c.log.forward(r)
}

// reap waits for the end of the process and takes its group along.
func (c *child) reap(cmd *exec.Cmd, log *os.File) {
	c.err = waitGroup(cmd, c.kill)
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	deadline := time.Now().Add(pipeGrace)
	_ = c.stdout.SetReadDeadline(deadline)
	_ = log.SetReadDeadline(deadline)
	close(c.exited)
}

// kill kills the process and its group, if they are alive. A process that was
// not started yet never will be.
func (c *child) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	if c.number != 0 && !c.reaped {
		_ = syscall.Kill(-c.number, syscall.SIGKILL)
	}
}

// release lets go of the lifeline.
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

// awaitExited waits for the end of the process, but not for ever.
func (c *child) awaitExited(ctx context.Context, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// wasKilled reports whether the process, which has ended, was ended by SIGKILL.
func (c *child) wasKilled() bool {
	var exit *exec.ExitError
	if !errors.As(c.err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// outcome says how the process ended.
func (c *child) outcome() string {
	if c.err != nil {
		return c.err.Error()
	}
	return "exit status 0"
}
