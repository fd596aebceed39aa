package pluginmanager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/cms-personal/personal/shared/plugincatalogue"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// killTime is how long the kernel may take to end a process that was killed.
const killTime = 2 * time.Second

// process is one plugin process and the connection to it.
type process struct {
	generation int
	version    string
	schema     plugincatalogue.Range // that it can work on
	log        *slog.Logger
	child      *child
	client     *plugin.Client
	conn       *pluginrpc.Connection
	ended      sync.Once
	broken     chan struct{} // closed when the connection is lost; no other takes its place
	unwatch    context.CancelFunc
	copied     *stagedCopy // what it runs
	silent     atomic.Bool // it left its last health check unanswered
	warnings   []string    // of its preflight
	ready      time.Time   // when it began to serve; the manager's mutex guards it and what follows

	calls    int
	idle     chan struct{} // not nil once no call can enter; closed when none is under way
	tally    tally
	overload time.Time // when it last answered a call late, many being under way; see [Manager.overloaded]
}

// startProcess starts a verified binary, which it takes over, and shakes hands
// with it. When ctx ends before that is done, the process is killed; so it is on
// any error.
func (m *Manager) startProcess(ctx context.Context, generation int, e plugincatalogue.Entry, copied *stagedCopy) (*process, error) {
	lines := &pluginLog{log: m.config.Log, version: e.Manifest.Version, generation: generation}
	log := m.config.Log.With(slog.Group("plugin", lines.process()...))
	p := &process{
		generation: generation,
		version:    e.Manifest.Version,
		schema:     e.Manifest.Schema,
		log:        log,
		child:      newChild(copied.path, lines),
		copied:     copied,
		broken:     make(chan struct{}),
	}
	sum, err := hex.DecodeString(e.Manifest.SHA256)
	if err != nil {
		copied.release()
		return nil, fmt.Errorf("the manifest's sha256: %w", err)
	}
	secure := &plugin.SecureConfig{Checksum: sum, Hash: sha256.New()}
	// A runner of our own instead of go-plugin's Cmd: it kills the whole group,
	// is not held up by a grandchild that keeps a pipe, reads the plugin's log
	// without crashing on it, does not lend the host's standard input, and has
	// both sides' sockets in the private folder.
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  pluginrpc.Handshake(),
		VersionedPlugins: pluginrpc.VersionedPlugins(m.config.Host, log),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		GRPCDialOptions:  pluginrpc.DialOptions(),
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     m.config.StartTimeout,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: m.run.sockets},
		Logger:           libraryLogger(log),
		SyncStdout:       lines.writer(),
		SyncStderr:       lines.writer(),
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
			if ok, err := secure.Check(copied.path); err != nil || !ok {
				return nil, errors.Join(plugin.ErrChecksumsDoNotMatch, err)
			}
			p.child.env = append(environment(m.config.Env, m.config.Log), spec.Env...)
			return p.child, nil
		},
	})
	defer context.AfterFunc(ctx, p.child.kill)()
	if err := p.connect(); err != nil {
		p.end(m.hard, 0)
		if ctx.Err() != nil { // go-plugin tells no more than that nothing came
			return nil, fmt.Errorf("no handshake: %w", ctx.Err())
		}
		return nil, err
	}
	p.log = m.config.Log.With(slog.Group("plugin", lines.process()...))
	return p, nil
}

// connect starts the process and gets the connection to it.
func (p *process) connect() error {
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	dispensed, err := protocol.Dispense(pluginrpc.PluginName)
	if err != nil {
		return err
	}
	client, isGRPC := protocol.(*plugin.GRPCClient)
	conn, isOurs := dispensed.(*pluginrpc.Connection)
	if !isGRPC || !isOurs {
		return fmt.Errorf("the plugin is a %T that dispensed a %T", protocol, dispensed)
	}
	p.conn = conn
	var ctx context.Context
	ctx, p.unwatch = context.WithCancel(context.Background())
	go p.watchConnection(ctx, client.Conn)
	return nil
}

// watchConnection tells when the connection is lost, until ctx ends. That is
// known some time before the process has ended, in which calls would be wasted.
func (p *process) watchConnection(ctx context.Context, conn *grpc.ClientConn) {
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return
		}
	}
	if conn.WaitForStateChange(ctx, connectivity.Ready) {
		close(p.broken)
	}
}

// lost reports whether calls are wasted on the process.
func (p *process) lost() bool {
	select {
	case <-p.broken:
		return true
	case <-p.child.exited:
		return true
	default:
		return false
	}
}

// awaitLost waits until the loss of the process is known, but not for long: it
// may not be lost.
func (p *process) awaitLost(ctx context.Context, limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.broken:
	case <-p.child.exited:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// end asks the process to end, makes sure of it after the given time or when ctx
// ends, and frees what belonged to it. Whoever comes second waits for the first.
func (p *process) end(ctx context.Context, patience time.Duration) {
	p.ended.Do(func() { p.endOnce(ctx, patience) })
}

func (p *process) endOnce(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ended := make(chan struct{})
	go func() { // ends with the process: go-plugin waits for that alone
		defer close(ended)
		p.client.Kill()
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		p.child.kill()
		select {
		case <-ended:
		case <-time.After(killTime):
			p.log.Error("plugin process cannot be killed, it is left alone")
		}
	}
	p.child.release()
	p.copied.release()
	if p.unwatch != nil {
		p.unwatch()
	}
}
