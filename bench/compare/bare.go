package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"golang.org/x/crypto/argon2"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
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

// startEcho starts the echo plugin. measure measures it with one caller and a payload of
// size bytes in each direction.
func startEcho(size int) (measure func(context.Context, span) (sample, error), stop func(), err error) {
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
	return func(ctx context.Context, s span) (sample, error) {
		return repeat(ctx, 1, s, func() error {
			return conn.Invoke(ctx, "/bench.Echo/Echo", message, new(wrapperspb.BytesValue))
		})
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

// argon2id measures the plugin's default password hash, without a server, on all
// processors.
func argon2id(ctx context.Context, s span) (sample, error) {
	return repeat(ctx, runtime.GOMAXPROCS(0), s, func() error {
		argon2.IDKey([]byte(password), make([]byte, 16), 2, 19*1024, 1, 32)
		return nil
	})
}

// repeat measures a function that n callers call in a loop.
func repeat(ctx context.Context, n int, s span, do func() error) (sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	start := time.Now().Add(s.warmup)
	end := start.Add(s.counted)
	latencies := make([][]time.Duration, n)
	var callers sync.WaitGroup
	for caller := range n {
		callers.Go(func() {
			for begin := time.Now(); begin.Before(end) && ctx.Err() == nil; begin = time.Now() {
				if err := do(); err != nil {
					cancel(err)
				}
				if finish := time.Now(); finish.After(start) && finish.Before(end) {
					latencies[caller] = append(latencies[caller], finish.Sub(begin))
				}
			}
		})
	}
	callers.Wait()
	if ctx.Err() != nil {
		return sample{}, context.Cause(ctx)
	}
	return newSample(slices.Concat(latencies...), s.counted), nil
}
