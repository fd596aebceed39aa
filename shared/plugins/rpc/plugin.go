// Package rpc carries the contract of package personal between a host and a
// plugin process, with go-plugin and gRPC.
//
// A plugin's main calls [Serve] with a [Builder]. A host starts the process with
// go-plugin, using [Handshake], [VersionedPlugins] and [DialOptions], and dispenses
// [PluginName] to get a [Connection], through which it drives the module's life
// cycle. [NewClient] returns the module's personal.Service and personal.Administration
// over a connection, or over anything that forwards calls to one.
//
// The values of personal.Call travel as gRPC metadata. An error of the contract
// crosses completely except for its cause, which is logged in the process where it
// arose. Any other error crosses as an internal one, without its text. An unclear
// outcome is always an error, never a success.
//
// No other package sees protobuf types. The package requires Unix.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/hashicorp/go-plugin"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

const (
	// PluginName is the name a host dispenses to get a [*Connection].
	PluginName = "personal"

	// ProtocolVersion is the version of the protocol between host and plugin. It
	// increases only when one side can no longer talk to an older one; compatible
	// additions do not change it.
	ProtocolVersion = 1

	// MaxMessageSize bounds every message between host and plugin, in both
	// directions, in bytes.
	MaxMessageSize = 4 << 20
)

// Handshake returns the values that host and plugin must share before they talk.
// The cookie is not a secret: it prevents starting a plugin by mistake.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   "PERSONAL_PLUGIN_COOKIE",
		MagicCookieValue: "7f0c1d52-personal-account-module",
	}
}

// ProtocolMismatch says that a plugin that speaks the protocols from low to high
// cannot talk to this host, and what to do about it.
func ProtocolMismatch(low, high int) string {
	advice := "install a newer version of the plugin"
	if low > ProtocolVersion {
		advice = "update the host, or install an older version of the plugin"
	}
	return fmt.Sprintf("it supports the protocols %d to %d, this host speaks %d: %s", low, high, ProtocolVersion, advice)
}

// UnderHandshake reports whether a host started this process as its plugin. A
// plugin that is run by hand can print its help instead.
func UnderHandshake() bool {
	h := Handshake()
	return os.Getenv(h.MagicCookieKey) == h.MagicCookieValue
}

// VersionedPlugins returns the host's side for plugin.ClientConfig. The plugin's
// callbacks are served by host; failures of callbacks are logged to log. spans makes
// spans of the callbacks that the plugin traces; nil for none.
func VersionedPlugins(host personal.Host, log *slog.Logger, spans trace.TracerProvider) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{
		ProtocolVersion: {PluginName: &hostSide{host: host, log: log, tracer: tracerOf(spans)}},
	}
}

// DialOptions returns the options for plugin.ClientConfig.GRPCDialOptions.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithIdleTimeout(0),
		grpc.WithStaticStreamWindowSize(windowSize),
		grpc.WithStaticConnWindowSize(windowSize),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(MaxMessageSize),
			grpc.MaxCallSendMsgSize(MaxMessageSize),
			grpc.ForceCodecV2(newCodec()),
		),
	}
}

// windowSize is the size of HTTP/2's flow control windows, in bytes. It is static,
// because gRPC otherwise sends pings between calls to estimate one.
const windowSize = 1 << 20

// newServer returns a gRPC server with the package's message limits, whose calls go
// through the interceptor.
func newServer(options []grpc.ServerOption, interceptor grpc.UnaryServerInterceptor) *grpc.Server {
	return grpc.NewServer(append(options,
		grpc.StaticStreamWindowSize(windowSize),
		grpc.StaticConnWindowSize(windowSize),
		grpc.MaxRecvMsgSize(MaxMessageSize),
		grpc.MaxSendMsgSize(MaxMessageSize),
		grpc.UnaryInterceptor(interceptor),
	)...)
}

// hostSide is the host's half of the go-plugin plugin.
type hostSide struct {
	plugin.NetRPCUnsupportedPlugin
	host   personal.Host
	log    *slog.Logger
	tracer trace.Tracer
}

// GRPCClient returns a *Connection. ctx is cancelled after the process has ended.
func (s *hostSide) GRPCClient(ctx context.Context, broker *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &Connection{
		lifecycle: personalv1.NewLifecycleServiceClient(conn),
		ctx:       ctx,
		broker:    broker,
		conn:      conn,
		host:      s.host,
		log:       s.log,
		tracer:    s.tracer,
		cut:       make(chan struct{}),
	}, nil
}

// GRPCServer fails: a host dispenses the plugin and does not serve it.
func (s *hostSide) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the host's side cannot serve the plugin")
}

// pluginSide is the plugin's half of the go-plugin plugin.
type pluginSide struct {
	plugin.NetRPCUnsupportedPlugin
	process *process
}

// GRPCServer registers the services of the plugin.
func (s *pluginSide) GRPCServer(broker *plugin.GRPCBroker, server *grpc.Server) error {
	personalv1.RegisterPersonalServiceServer(server, &serviceServer{process: s.process})
	personalv1.RegisterAdministrationServiceServer(server, &administrationServer{process: s.process})
	personalv1.RegisterLifecycleServiceServer(server, &lifecycleServer{process: s.process, broker: broker})
	return nil
}

// GRPCClient fails: a plugin serves and does not dispense itself.
func (s *pluginSide) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the plugin's side cannot dispense the plugin")
}
