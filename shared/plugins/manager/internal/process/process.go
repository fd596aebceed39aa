// Package process runs one plugin process: it starts a verified binary in a
// process group of its own, connects to it, forwards its log, and stops or kills
// it.
package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

const (
	// killTime is how long the kernel may take to end a process after SIGKILL.
	killTime = 2 * time.Second
	// ExitNotice is how long the news of an exit may take after the connection broke.
	ExitNotice = 100 * time.Millisecond
)

// The reasons why a process is lost, for errors.Is.
var (
	ErrExited       = errors.New("the plugin process ended")
	ErrKilled       = errors.New("the plugin process was killed from outside, usually by the kernel because memory ran out")
	ErrDisconnected = errors.New("the connection to the plugin process was lost")
)

// Options describe the process to start.
type Options struct {
	Binary       string             // a private copy, verified a moment ago: Start does not verify it
	Manifest     catalogue.Manifest // names the version
	Generation   int                // for the log
	Host         personal.Host      // serves the callbacks of the plugin
	Env          []string           // NAME=value, in addition to the inherited variables
	Sockets      string             // a private folder for both sides' sockets
	StartTimeout time.Duration      // for the handshake
	MemoryLimit  int64              // in bytes; 0 for none
	Log          *slog.Logger

	// Scratch starts a process for a rehearsal: it leaves processors to others (nice 10), uses one at a
	// time, and traces nothing.
	Scratch bool

	TracerProvider trace.TracerProvider // of callbacks; nil for none
}

// Process is a plugin process and the connection to it.
type Process struct {
	*rpc.Connection
	log      *slog.Logger
	child    *child
	client   *plugin.Client
	lost     chan struct{}
	markLost func()
	stop     sync.Once
}

// Start starts a process and completes the handshake. If it fails, or ctx ends
// before it is done, no process is left. The error is a [*catalogue.RefusedError] if
// the system cannot run the binary, a [*rpc.PermanentError] if both sides speak
// different protocols, and wraps [ErrKilled] if the process was killed from outside.
func Start(ctx context.Context, o Options) (*Process, error) {
	began := time.Now()
	lines := &logForwarder{log: o.Log, version: o.Manifest.Version, generation: o.Generation}
	p := &Process{log: lines.logger(), child: newChild(o.Binary, lines, o.Scratch), lost: make(chan struct{})}
	p.markLost = sync.OnceFunc(func() { close(p.lost) })
	// A runner of our own replaces go-plugin's Cmd: it kills the whole group, is
	// not blocked by a grandchild that holds a pipe open, parses the plugin's log
	// without panicking on it, does not share the host's standard input, and puts
	// both sides' sockets into the private folder.
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  rpc.Handshake(),
		VersionedPlugins: rpc.VersionedPlugins(o.Host, p.log, o.TracerProvider),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		GRPCDialOptions:  rpc.DialOptions(),
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     o.StartTimeout,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: o.Sockets},
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       plainText{lines},
		SyncStderr:       plainText{lines},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
			p.child.env = append(environment(o), spec.Env...)
			return p.child, nil
		},
	})
	defer context.AfterFunc(ctx, p.child.kill)()
	if err := p.connect(); err != nil {
		cause := p.startFailure(ctx, err, time.Since(began) < o.StartTimeout)
		p.Stop(ctx, 0)
		if ctx.Err() != nil { // go-plugin's error does not say more
			return nil, fmt.Errorf("no handshake: %w", ctx.Err())
		}
		return nil, cause
	}
	p.log = lines.logger() // now with the PID
	return p, nil
}

// startFailure returns err, why the handshake failed, or a better reason. go-plugin has
// killed a process that was not in time, or that printed something else.
func (p *Process) startFailure(ctx context.Context, err error, inTime bool) error {
	if inTime && !p.child.printed.Load() && p.PID() != 0 && await(ctx, ExitNotice, p.child.alive.Done()) && p.child.wasKilled() {
		return ErrKilled
	}
	return err
}

// connect starts the process and gets the connection to it.
func (p *Process) connect() error {
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	dispensed, err := protocol.Dispense(rpc.PluginName)
	if err != nil {
		return err
	}
	client, isGRPC := protocol.(*plugin.GRPCClient)
	connection, isOurs := dispensed.(*rpc.Connection)
	if !isGRPC || !isOurs {
		return fmt.Errorf("the plugin is a %T that dispensed a %T", protocol, dispensed)
	}
	p.Connection = connection
	go p.watch(client.Conn)
	return nil
}

// watch marks the process as lost when it exits, or before, when its connection
// breaks: calls would fail from then on.
func (p *Process) watch(conn *grpc.ClientConn) {
	defer p.markLost()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(p.child.alive, state) {
			return
		}
	}
	conn.WaitForStateChange(p.child.alive, connectivity.Ready)
}

// PID returns the process ID.
func (p *Process) PID() int { return p.child.pid() }

// Starved returns how long the threads that the process has now have waited for a processor: an estimate,
// for threads that have ended do not count, and such as wait for each other do. Zero
// where the system has no /proc/PID/task/TID/schedstat of Linux, whose second number it is.
func (p *Process) Starved() (waited time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.PID()))
	for _, file := range threads {
		text, _ := os.ReadFile(file)
		var ran, wait int64
		_, _ = fmt.Sscan(string(text), &ran, &wait)
		waited += time.Duration(wait)
	}
	return waited
}

// Log returns a logger whose entries name the process.
func (p *Process) Log() *slog.Logger { return p.log }

// Lost returns a channel that is closed when calls to the process can only fail:
// it exited, its connection broke, or it was killed.
func (p *Process) Lost() <-chan struct{} { return p.lost }

// IsLost reports whether calls to the process can only fail.
func (p *Process) IsLost() bool {
	select {
	case <-p.lost:
		return true
	default:
		return false
	}
}

// LossCause returns why a lost process was lost: [ErrExited] with the exit status,
// [ErrKilled] or [ErrDisconnected]. It waits a moment for the exit status.
func (p *Process) LossCause(ctx context.Context) error {
	switch {
	case !await(ctx, ExitNotice, p.child.alive.Done()):
		return ErrDisconnected
	case p.child.wasKilled():
		return ErrKilled
	case p.child.err == nil:
		return fmt.Errorf("%w: exit status 0", ErrExited)
	}
	return fmt.Errorf("%w: %w", ErrExited, p.child.err)
}

// AwaitLost waits until the process is lost, up to the limit: the news may come
// shortly after the first call failed.
func (p *Process) AwaitLost(ctx context.Context, limit time.Duration) { await(ctx, limit, p.lost) }

// Kill kills the process and its group.
func (p *Process) Kill() {
	p.markLost()
	p.child.kill()
}

// KillAndWait kills the process and its group, and waits for its end.
func (p *Process) KillAndWait(ctx context.Context) {
	p.Kill()
	await(ctx, killTime, p.child.alive.Done())
}

// Stop asks the process to shut down, kills it after the timeout or when ctx ends,
// and releases what belongs to it. A second call waits for the first.
func (p *Process) Stop(ctx context.Context, timeout time.Duration) {
	p.stop.Do(func() {
		ended := make(chan struct{})
		go func() { // ends with the process: go-plugin waits for nothing else
			defer close(ended)
			p.client.Kill()
		}()
		if !await(ctx, timeout, ended) {
			p.Kill()
			if !await(context.WithoutCancel(ctx), killTime, ended) {
				p.log.Error("plugin process does not end after SIGKILL, it is left running")
			}
		}
		p.child.release()
	})
}

// await reports whether done was closed within the timeout and before ctx ended.
func await(ctx context.Context, timeout time.Duration, done <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
