package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/cms-personal/personal/bench/harness"
)

// echoArgument makes this program run as the echo plugin.
const echoArgument = "echo-plugin"

var echoHandshake = plugin.HandshakeConfig{ProtocolVersion: 1, MagicCookieKey: "PERSONAL_BENCH_ECHO", MagicCookieValue: "echo"}

// echoService returns every message unchanged. It needs no generated code, because its
// messages have a well-known type.
var echoService = grpc.ServiceDesc{
	ServiceName: "bench.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Echo",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			message := new(wrapperspb.BytesValue)
			return message, decode(message)
		},
	}},
}

// echoPlugin is the client and the server of a minimal go-plugin.
type echoPlugin struct{ plugin.NetRPCUnsupportedPlugin }

func (echoPlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	s.RegisterService(&echoService, nil)
	return nil
}

func (echoPlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

func serveEcho() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: echoHandshake,
		Plugins:         plugin.PluginSet{"echo": echoPlugin{}},
		GRPCServer:      plugin.DefaultGRPCServer,
		Logger:          hclog.NewNullLogger(),
	})
}

// startEcho starts the echo plugin. echo makes one call with a payload of size bytes in
// each direction.
func startEcho(size int) (echo func(context.Context) error, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  echoHandshake,
		Plugins:          plugin.PluginSet{"echo": echoPlugin{}},
		Cmd:              exec.Command(self, echoArgument),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		Logger:           hclog.NewNullLogger(),
	})
	conn, err := dispense(client)
	if err != nil {
		client.Kill()
		return nil, nil, fmt.Errorf("the echo plugin: %w", err)
	}
	message := wrapperspb.Bytes(make([]byte, size))
	return func(ctx context.Context) error {
		return conn.Invoke(ctx, "/bench.Echo/Echo", message, new(wrapperspb.BytesValue))
	}, client.Kill, nil
}

func dispense(client *plugin.Client) (*grpc.ClientConn, error) {
	protocol, err := client.Client()
	if err != nil {
		return nil, err
	}
	conn, err := protocol.Dispense("echo")
	if err != nil {
		return nil, err
	}
	return conn.(*grpc.ClientConn), nil
}

// measuredConn notes the size of the last response.
type measuredConn struct {
	grpc.ClientConnInterface
	size int
}

func (c *measuredConn) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, options...)
	c.size = proto.Size(reply.(proto.Message))
	return err
}

// single measures a function with one caller.
func (c *comparison) single(do func(context.Context) error) func(context.Context) (harness.Sample, error) {
	return func(ctx context.Context) (harness.Sample, error) {
		return harness.Repeat(ctx, 1, c.span, func(int, int) error { return do(ctx) })
	}
}
