package pluginrpc

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	personalv1 "github.com/cms-personal/personal/proto/personal/v1"
	"github.com/cms-personal/personal/shared/personal"
)

// Connection is a host's connection to one plugin process.
type Connection struct {
	lifecycleClient // all of Lifecycle but Configure

	ctx        context.Context // ends after the process has ended
	broker     *plugin.GRPCBroker
	conn       *grpc.ClientConn
	host       personal.Host
	log        *slog.Logger
	callbacks  atomic.Int64
	configured atomic.Bool
}

var _ Lifecycle = (*Connection)(nil)

func newConnection(ctx context.Context, broker *plugin.GRPCBroker, conn *grpc.ClientConn, host personal.Host, log *slog.Logger) *Connection {
	return &Connection{
		lifecycleClient: lifecycleClient{client: personalv1.NewLifecycleServiceClient(conn)},
		ctx:             ctx,
		broker:          broker,
		conn:            conn,
		host:            host,
		log:             log,
	}
}

// Conn returns what calls of the module go through, see [NewService] and
// [NewAdministration].
func (c *Connection) Conn() grpc.ClientConnInterface { return c.conn }

// Done returns a channel that is closed after the process has ended.
func (c *Connection) Done() <-chan struct{} { return c.ctx.Done() }

// Callbacks returns how many calls of the plugin to the host are under way.
func (c *Connection) Callbacks() int { return int(c.callbacks.Load()) }

// Configure starts to answer the plugin's callbacks, for as long as the process
// lives, and hands over the configuration. When it returns nil the module is
// built and has had a first answer from the host. It can be called once; a
// process whose configuration failed is of no more use. A [*PermanentError] says that
// trying again with another process will not help. Like the other steps it wraps
// context.DeadlineExceeded when its time ran out; the text of any error is meant
// for an administrator.
func (c *Connection) Configure(ctx context.Context, configuration Configuration) error {
	if c.configured.Swap(true) {
		return errors.New("configuring a plugin process a second time")
	}
	id := c.broker.NextId()
	go c.broker.AcceptAndServe(id, c.newHostServer)
	return c.configure(ctx, configuration, id)
}

// newHostServer makes the server of the callbacks. It stops with the process,
// whether or not the host closes its client.
func (c *Connection) newHostServer(options []grpc.ServerOption) *grpc.Server {
	options = append(options, sizeLimits()...)
	server := grpc.NewServer(append(options, grpc.UnaryInterceptor(c.answerCallback))...)
	personalv1.RegisterHostServiceServer(server, &hostServer{host: c.host})
	context.AfterFunc(c.ctx, server.Stop)
	return server
}

func (c *Connection) answerCallback(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	c.callbacks.Add(1)
	defer c.callbacks.Add(-1)
	return answerer{log: c.log, level: slog.LevelDebug, status: callbackStatus}.answer(ctx, request, info, next)
}
