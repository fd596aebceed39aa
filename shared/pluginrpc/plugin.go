package pluginrpc

import (
	"context"
	"errors"
	"log/slog"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// hostSide is the host's half of go-plugin's plugin.
type hostSide struct {
	plugin.NetRPCUnsupportedPlugin
	host personal.Host
	log  *slog.Logger
}

// GRPCClient returns a *Connection. ctx ends after the process has ended.
func (s *hostSide) GRPCClient(ctx context.Context, broker *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return newConnection(ctx, broker, conn, s.host, s.log), nil
}

// GRPCServer is not for a host.
func (s *hostSide) GRPCServer(*plugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the host's side of the plugin cannot serve it")
}

// pluginSide is the plugin's half.
type pluginSide struct {
	plugin.NetRPCUnsupportedPlugin
	process *process
}

// GRPCServer registers what the plugin serves.
func (s *pluginSide) GRPCServer(broker *plugin.GRPCBroker, server *grpc.Server) error {
	personalv1.RegisterPersonalServiceServer(server, &serviceServer{process: s.process})
	personalv1.RegisterAdministrationServiceServer(server, &administrationServer{process: s.process})
	personalv1.RegisterLifecycleServiceServer(server, &lifecycleServer{process: s.process, broker: broker})
	return nil
}

// GRPCClient is not for a plugin.
func (s *pluginSide) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the plugin's side of the plugin cannot dispense it")
}
