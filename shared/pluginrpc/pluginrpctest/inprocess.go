// Package pluginrpctest serves a module over go-plugin and gRPC within the
// process of a test: everything is as in production but the process.
package pluginrpctest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/pluginrpc"
)

// NewService returns the service that build makes, at the other end of a
// connection; host answers its callbacks. All ends with the test.
func NewService(t testing.TB, build func(host personal.Host) personal.Service, host personal.Host) personal.Service {
	t.Helper()
	return pluginrpc.NewService(NewConn(t, build, host), host)
}

// NewConn is NewService, for what goes over the connection. A service that is a
// personal.Administration too offers that as well.
func NewConn(t testing.TB, build func(host personal.Host) personal.Service, host personal.Host) grpc.ClientConnInterface {
	t.Helper()
	builder := func(_ context.Context, _ pluginrpc.Configuration, host personal.Host) (pluginrpc.Module, error) {
		return bareModule{service: build(host)}, nil
	}
	connection := Start(t, builder, host, slog.New(slog.DiscardHandler))
	if err := connection.Configure(t.Context(), pluginrpc.Configuration{}); err != nil {
		t.Fatalf("configuring the module: %v", err)
	}
	return connection.Conn()
}

// Start serves what build makes, and returns the host's connection, not yet
// configured. Both sides log to log. All ends with the test.
func Start(t testing.TB, build pluginrpc.Builder, host personal.Host, log *slog.Logger) *pluginrpc.Connection {
	t.Helper()
	ended := make(chan struct{})
	ready := make(chan *plugin.ReattachConfig, 1)
	go func() {
		defer close(ended)
		pluginrpc.Serve(build, pluginrpc.ServeOptions{
			Logger: log,
			Test:   &plugin.ServeTestConfig{ReattachConfigCh: ready},
		})
	}()
	var address *plugin.ReattachConfig
	select {
	case address = <-ready:
	case <-ended:
		t.Fatal("the plugin does not serve")
	}
	address.ReattachFunc = func() (runner.AttachedRunner, error) { return attached{ended: ended}, nil }

	protocol := connect(t, address, pluginrpc.VersionedPlugins(host, log))
	t.Cleanup(func() {
		_ = protocol.Close() // asks the plugin to end
		<-ended
	})
	dispensed, err := protocol.Dispense(pluginrpc.PluginName)
	if err != nil {
		t.Fatalf("dispensing the plugin: %v", err)
	}
	connection, ok := dispensed.(*pluginrpc.Connection)
	if !ok {
		t.Fatalf("dispensed a %T", dispensed)
	}
	return connection
}

func connect(t testing.TB, address *plugin.ReattachConfig, plugins map[int]plugin.PluginSet) plugin.ClientProtocol {
	t.Helper()
	protocol, err := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  pluginrpc.Handshake(),
		Plugins:          plugins[address.ProtocolVersion],
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		GRPCDialOptions:  pluginrpc.DialOptions(),
		Reattach:         address,
		Logger:           hclog.NewNullLogger(),
	}).Client()
	if err != nil {
		t.Fatalf("connecting to the plugin: %v", err)
	}
	return protocol
}

// attached stands for the process, which is the test's own: it has ended when
// Serve has returned.
type attached struct{ ended <-chan struct{} }

func (a attached) Wait(ctx context.Context) error {
	select {
	case <-a.ended:
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

// bareModule is a module that is a service and nothing else.
type bareModule struct{ service personal.Service }

func (m bareModule) Service() personal.Service { return m.service }

func (m bareModule) Administration() personal.Administration {
	a, _ := m.service.(personal.Administration)
	return a
}

func (m bareModule) Preflight(context.Context) (pluginrpc.Report, error) {
	return pluginrpc.Report{}, nil
}

func (m bareModule) Migrate(context.Context) error  { return nil }
func (m bareModule) Activate(context.Context) error { return nil }
func (m bareModule) Quiesce(context.Context) error  { return nil }
func (m bareModule) Health(context.Context) error   { return nil }
func (m bareModule) Close() error                   { return nil }
