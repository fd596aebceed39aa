package pluginrpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cms-personal/personal/shared/personal"
)

// boundary is a connection to the other process. Its calls carry what their
// context does, and fail with errors of the contract.
type boundary struct {
	conn    grpc.ClientConnInterface
	prepare func(context.Context) context.Context // adds to the context of a call
	limit   time.Duration                         // of a call whose context has no deadline; 0 for none
}

// withSchema is the boundary to a plugin: calls carry the revision of host's schema.
func withSchema(conn grpc.ClientConnInterface, host personal.Host) boundary {
	return boundary{conn: conn, prepare: func(ctx context.Context) context.Context {
		schema, err := host.UserFields(ctx)
		if err != nil {
			return ctx // the plugin asks by itself, if it needs the schema
		}
		return withRevision(ctx, schema.Revision)
	}}
}

// Invoke makes one call.
func (b boundary) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if _, ok := ctx.Deadline(); !ok && b.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.limit)
		defer cancel()
	}
	return contractError(ctx, b.conn.Invoke(outgoing(b.prepare(ctx)), method, args, reply, opts...))
}

// NewStream is there for the interface: the contract has no streams.
func (b boundary) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "the contract has no streams")
}
