package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

const (
	// closeTimeout bounds closing the module. go-plugin kills the process two seconds
	// after asking it to stop.
	closeTimeout = 1800 * time.Millisecond

	// streamWorkers is how many goroutines are kept for calls; further concurrent calls
	// start a new one each. A new goroutine spends more time on growing its stack than on
	// a small call.
	streamWorkers = 32

	// How long a plugin may run on after its host is gone: orphanQuiesceTimeout for
	// background work, orphanTimeout in total.
	orphanQuiesceTimeout = time.Second
	orphanTimeout        = 1900 * time.Millisecond
)

// LifelineEnv names the environment variable by which a host passes a lifeline to its
// plugin: the number of the file descriptor of the read end of a pipe (3 for the
// first of exec.Cmd.ExtraFiles). The host writes nothing and keeps the other end
// open. When the pipe closes, the host is gone, and the plugin stops within two
// seconds. Without the variable there is no lifeline.
const LifelineEnv = "PERSONAL_LIFELINE"

// MemoryLimitEnv names the environment variable by which a host tells its plugin how
// much memory the process may use, in bytes. See [MemoryLimit].
const MemoryLimitEnv = "PERSONAL_MEMORY_LIMIT"

// HostEnv names the environment variable by which a host names itself to its plugins, in a line of
// 500 bytes at most: no other host has this name.
const HostEnv = "PERSONAL_HOST"

// ProfilesEnv names the environment variable by which a host asks its plugin for runtime
// profiles: the path of a unix socket on which the process then serves net/http/pprof, for
// its own user only.
const ProfilesEnv = "PERSONAL_PROFILES"

// MemoryLimit returns how much memory the host allows this plugin process, in bytes; 0
// means no limit. A plugin that needs more refuses its configuration.
func MemoryLimit() int64 {
	limit, _ := strconv.ParseInt(os.Getenv(MemoryLimitEnv), 10, 64)
	return max(0, limit)
}

var errNotConfigured = errors.New("the plugin is not configured")

// ServeOptions are the options of [Serve].
type ServeOptions struct {
	Logger  *slog.Logger // nil for NewLogger(os.Stderr, LogLevel())
	Observe Observer     // nil for none

	// TracerProvider makes spans of the calls that the host traces; nil for none. What it
	// has recorded must be exported after Serve has returned.
	TracerProvider trace.TracerProvider

	// Test, if not nil, serves within the process of a test, as go-plugin's own
	// test mode does: Serve then leaves the process itself unchanged.
	Test *plugin.ServeTestConfig
}

// Serve serves the module that build makes until the host stops the process or is
// gone itself, and closes the module. Call it at the end of a plugin's main, if
// [UnderHandshake] is true. Nothing may be written to standard output before. The
// process exits if it was not started by a host.
//
// Serve disables core dumps, which would contain secrets, and sets a umask that
// keeps new files private to the process's user.
func Serve(build Builder, o ServeOptions) {
	if o.Logger == nil {
		o.Logger = NewLogger(os.Stderr, LogLevel())
	}
	p := &process{build: build, log: o.Logger, tracer: tracerOf(o.TracerProvider), observe: o.Observe}
	if o.Test == nil {
		p.harden()
		p.watchHost()
		o.Logger.Debug("plugin starts")
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		VersionedPlugins: map[int]plugin.PluginSet{
			ProtocolVersion: {PluginName: &pluginSide{process: p}},
		},
		GRPCServer: func(options []grpc.ServerOption) *grpc.Server {
			server := newServer(append(options, grpc.NumStreamWorkers(streamWorkers)), p.intercept)
			p.server.Store(server)
			return server
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
		Test:   o.Test,
	})
	p.close()
}

// process is the state of a plugin process. It has no module until it is configured.
type process struct {
	build      Builder
	log        *slog.Logger
	tracer     trace.Tracer                // nil for none
	observe    Observer                    // nil for none
	server     atomic.Pointer[grpc.Server] // nil until plugin.Serve made it
	calls      sync.RWMutex                // held for reading by each call, and by close for ever
	configured atomic.Bool                 // Configure was called
	parts      atomic.Pointer[parts]       // nil until Configure succeeded
}

// parts are the parts of a configured process.
type parts struct {
	module         Module
	service        personal.Service
	administration personal.Administration
	host           io.Closer // the connection to the host
}

// harden changes what the process inherited. SIGPIPE is ignored because standard
// error is a broken pipe once the host is gone, and the plugin must still stop in
// order.
func (p *process) harden() {
	syscall.Umask(0o077)
	signal.Ignore(syscall.SIGPIPE)
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		p.log.Warn("core dumps cannot be disabled", "error", err)
	}
}

// watchHost stops the process after its host is gone. Its goroutine lives as long as
// the process.
func (p *process) watchHost() {
	lifeline, err := openLifeline()
	if err != nil {
		p.log.Error("opening the lifeline", "error", err)
		os.Exit(1)
	}
	if lifeline == nil {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, lifeline) // a read error ends the lifeline too: it cannot be relied on
		p.stopWithoutHost()
	}()
}

// openLifeline returns the pipe from the host, or nil if there is none. Processes
// that this one starts do not inherit it.
func openLifeline() (*os.File, error) {
	value := os.Getenv(LifelineEnv)
	if value == "" {
		return nil, nil
	}
	_ = os.Unsetenv(LifelineEnv)
	descriptor, err := strconv.Atoi(value)
	if err != nil || descriptor <= syscall.Stderr {
		return nil, fmt.Errorf("%s is %q, want the number of a file descriptor above 2", LifelineEnv, value)
	}
	syscall.CloseOnExec(descriptor)
	return os.NewFile(uintptr(descriptor), "lifeline"), nil
}

// stopWithoutHost stops the process when there is no host to do it.
func (p *process) stopWithoutHost() {
	time.AfterFunc(orphanTimeout, func() { os.Exit(1) })
	ctx, cancel := context.WithTimeoutCause(context.Background(), orphanQuiesceTimeout, errors.New("the host is gone"))
	defer cancel()
	if parts := p.parts.Load(); parts != nil {
		if err := parts.module.Quiesce(ctx); err != nil {
			p.log.Warn("stopping background work", "error", err)
		}
	}
	if server := p.server.Load(); server != nil {
		server.Stop() // Serve continues and closes the module
		return
	}
	os.Exit(0)
}

// configure builds the module, after one callback that proves that the host can be
// reached.
func (p *process) configure(ctx context.Context, c Configuration, conn *grpc.ClientConn) error {
	host := &hostClient{client: personalv1.NewHostServiceClient(contractConn{ClientConnInterface: conn, timeout: callbackTimeout})}
	if _, err := host.UserFields(ctx); err != nil {
		return fmt.Errorf("asking the host for the user fields: %w", err)
	}
	module, err := p.build(ctx, c, host)
	if err != nil {
		return err
	}
	p.parts.Store(&parts{module: module, service: module.Service(), administration: module.Administration(), host: conn})
	return nil
}

// intercept is the interceptor of every unary call to the plugin. Calls to
// go-plugin's own services pass unchanged.
func (p *process) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	i := interceptor{log: p.log, tracer: p.tracer, status: contractStatus}
	observe := p.observe
	switch info.Server.(type) {
	case *serviceServer, *administrationServer:
	case *lifecycleServer:
		i.status, observe = lifecycleStatus, nil
	default:
		return next(ctx, request)
	}
	began := time.Now()
	response, err := i.intercept(ctx, request, info, func(ctx context.Context, request any) (any, error) {
		if !p.calls.TryRLock() { // the module stays open while a call is running
			return nil, &personal.Error{Code: personal.CodeUnavailable, RetryAfter: defaultRetryAfter}
		}
		defer p.calls.RUnlock()
		if p.parts.Load() == nil && info.FullMethod != personalv1.LifecycleService_Configure_FullMethodName {
			return nil, &personal.Error{Code: personal.CodeUnavailable, RetryAfter: defaultRetryAfter, Cause: errNotConfigured}
		}
		return next(ctx, request)
	})
	observe.call(info.FullMethod, err, time.Since(began))
	return response, err
}

// close waits for running calls, whose contexts are already cancelled, and closes the
// module, both within closeTimeout.
func (p *process) close() {
	closed := make(chan error, 1)
	go func() { // ends with the process, if a call or the module does not end
		p.calls.Lock()
		var err error
		if parts := p.parts.Load(); parts != nil {
			err = errors.Join(parts.module.Close(), parts.host.Close())
		}
		closed <- err
	}()
	select {
	case err := <-closed:
		if err != nil {
			p.log.Error("closing the module", "error", err)
		}
	case <-time.After(closeTimeout):
		p.log.Error("calls are still running, or closing the module takes too long")
	}
}
