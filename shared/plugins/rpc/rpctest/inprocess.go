// Package rpctest serves a module over go-plugin and gRPC within the process of a
// test. Except for the process, everything is as in production.
package rpctest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// NewService serves the service that build makes and returns a client of it. host
// serves its callbacks. Everything stops when the test ends.
func NewService(t testing.TB, build func(host personal.Host) personal.Service, host personal.Host) personal.Service {
	t.Helper()
	return rpc.NewClient(NewConn(t, build, host), host)
}

// NewConn is [NewService] but returns the connection. It also serves the
// personal.Administration of a service that implements one.
func NewConn(t testing.TB, build func(host personal.Host) personal.Service, host personal.Host) grpc.ClientConnInterface {
	t.Helper()
	builder := func(_ context.Context, _ rpc.Configuration, host personal.Host) (rpc.Module, error) {
		return bareModule{service: build(host)}, nil
	}
	connection := Start(t, builder, host, slog.New(slog.DiscardHandler))
	if err := connection.Configure(t.Context(), rpc.Configuration{}); err != nil {
		t.Fatalf("configuring the module: %v", err)
	}
	return connection.Conn()
}

// Start serves the module that build makes and returns the host's connection, which is
// not configured yet. Both sides log to log. Everything stops when the test ends.
func Start(t testing.TB, build rpc.Builder, host personal.Host, log *slog.Logger) *rpc.Connection {
	t.Helper()
	return StartTraced(t, build, host, log, nil, nil)
}

// StartTraced is [Start] with the providers of the spans of both sides.
func StartTraced(t testing.TB, build rpc.Builder, host personal.Host, log *slog.Logger, ofHost,
	ofPlugin trace.TracerProvider) *rpc.Connection {
	t.Helper()
	stopped := make(chan struct{})
	ready := make(chan *plugin.ReattachConfig, 1)
	go func() {
		defer close(stopped)
		rpc.Serve(build, rpc.ServeOptions{
			Logger: log, TracerProvider: ofPlugin,
			Test: &plugin.ServeTestConfig{ReattachConfigCh: ready},
		})
	}()
	var address *plugin.ReattachConfig
	select {
	case address = <-ready:
	case <-stopped:
		t.Fatal("the plugin stopped before it served")
	}
	address.ReattachFunc = func() (runner.AttachedRunner, error) { return attached{stopped: stopped}, nil }

	protocol := connect(t, address, rpc.VersionedPlugins(host, log, ofHost))
	t.Cleanup(func() {
		_ = protocol.Close() // asks the plugin to stop
		<-stopped
	})
	dispensed, err := protocol.Dispense(rpc.PluginName)
	if err != nil {
		t.Fatalf("dispensing the plugin: %v", err)
	}
	connection, ok := dispensed.(*rpc.Connection)
	if !ok {
		t.Fatalf("dispensing the plugin: got %T, want a connection", dispensed)
	}
	return connection
}

func connect(t testing.TB, address *plugin.ReattachConfig, plugins map[int]plugin.PluginSet) plugin.ClientProtocol {
	t.Helper()
	protocol, err := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  rpc.Handshake(),
		Plugins:          plugins[address.ProtocolVersion],
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		GRPCDialOptions:  rpc.DialOptions(),
		Reattach:         address,
		Logger:           hclog.NewNullLogger(),
	}).Client()
	if err != nil {
		t.Fatalf("connecting to the plugin: %v", err)
	}
	return protocol
}

// attached stands for the plugin process, which is the test's own process: it counts as
// stopped when Serve has returned.
type attached struct{ stopped <-chan struct{} }

func (a attached) Wait(ctx context.Context) error {
	select {
	case <-a.stopped:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a attached) Kill(context.Context) error { return nil }

func (a attached) ID() string { return "within the test" }

func (a attached) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

func (a attached) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// bareModule is a module with a service and steps that do nothing.
type bareModule struct{ service personal.Service }

func (m bareModule) Service() personal.Service { return m.service }

func (m bareModule) Administration() personal.Administration {
	if a, ok := m.service.(personal.Administration); ok {
		return a
	}
	return &personaltest.Administration{}
}

func (m bareModule) Preflight(context.Context) (rpc.PreflightResult, error) {
	return rpc.PreflightResult{}, nil
}

func (m bareModule) Migrate(context.Context, time.Duration) error { return nil }
func (m bareModule) Activate(context.Context) error               { return nil }
func (m bareModule) Quiesce(context.Context) error                { return nil }
func (m bareModule) Health(context.Context) ([]string, error)     { return nil, nil }
func (m bareModule) Settle(context.Context) error                 { return nil }
func (m bareModule) CheckDatabase(context.Context) error          { return nil }

func (m bareModule) Accepts(context.Context, personal.Credentials, []byte) (bool, error) {
	return false, nil
}

func (m bareModule) Turn(context.Context, time.Duration, bool, bool) (rpc.Turn, error) {
	return rpc.Turn{}, rpc.ErrNotScratch
}

func (m bareModule) Metrics(context.Context) ([]byte, error) { return nil, nil }

func (m bareModule) Close() error { return nil }
