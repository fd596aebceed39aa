package pluginrpc

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
)

// How long a plugin without a host goes on: quiesceTime for background work,
// orphanTime for everything.
const (
	quiesceTime = time.Second
	orphanTime  = 1900 * time.Millisecond
)

// ServeOptions are the options of [Serve].
type ServeOptions struct {
	Logger *slog.Logger // nil for NewLogger(os.Stderr, LogLevel())

	// Test, if not nil, serves within the process of a test, as go-plugin's own
	// test mode does: nothing about the process is changed.
	Test *plugin.ServeTestConfig
}

// Serve serves the module that build makes, until the host ends the process or
// goes away itself, and closes the module. It belongs at the end of a plugin's
// main, after [UnderHandshake] was asked. Nothing may be written to standard
// output before; the process ends if it was not started by a host.
//
// It forbids core dumps, which would hold secrets, and files that others can
// read.
func Serve(build Builder, o ServeOptions) {
	if o.Logger == nil {
		o.Logger = NewLogger(os.Stderr, LogLevel())
	}
	s := &server{process: &process{build: build, log: o.Logger}}
	if o.Test == nil {
		s.harden()
		s.watchHost()
		o.Logger.Debug("plugin starts")
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: Handshake(),
		VersionedPlugins: map[int]plugin.PluginSet{
			ProtocolVersion: {PluginName: &pluginSide{process: s.process}},
		},
		GRPCServer: s.newGRPCServer,
		Logger:     hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: os.Stderr, JSONFormat: true}),
		Test:       o.Test,
	})
	s.process.close()
}

// server is a process and the gRPC server in front of it.
type server struct {
	process *process
	grpc    atomic.Pointer[grpc.Server]
}

func (s *server) newGRPCServer(options []grpc.ServerOption) *grpc.Server {
	options = append(options, sizeLimits()...)
	made := grpc.NewServer(append(options, grpc.UnaryInterceptor(s.process.answer))...)
	s.grpc.Store(made)
	return made
}

// harden changes what a plugin process inherited. A broken pipe must not kill
// it: when the host is gone, so is the other end of standard error.
func (s *server) harden() {
	syscall.Umask(0o077)
	signal.Ignore(syscall.SIGPIPE)
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		s.process.log.Warn("core dumps cannot be switched off", "error", err)
	}
}

// watchHost ends the process after its host. The goroutine ends with it.
func (s *server) watchHost() {
	lifeline, err := openLifeline()
	if err != nil {
		s.process.log.Error("opening the lifeline", "error", err)
		os.Exit(1)
	}
	if lifeline == nil {
		return
	}
	go func() {
		waitForEnd(lifeline)
		s.endAlone()
	}()
}

// endAlone ends the process when there is nobody left to end it.
func (s *server) endAlone() {
	time.AfterFunc(orphanTime, func() { os.Exit(1) })
	ctx, cancel := context.WithTimeoutCause(context.Background(), quiesceTime, errors.New("the host is gone"))
	defer cancel()
	s.process.quiesce(ctx)
	if running := s.grpc.Load(); running != nil {
		running.Stop() // Serve goes on to close the module
		return
	}
	os.Exit(0)
}
