package pluginrpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"

	"google.golang.org/grpc"
)

// maxStack bounds the stack that is logged after a panic, in bytes.
const maxStack = 16 << 10

// answerer answers calls from the other process: it puts what travelled with a
// call into its context, survives panics, and lets errors cross as statuses.
type answerer struct {
	log    *slog.Logger
	status func(ctx context.Context, log *slog.Logger, err error) error
}

func (a answerer) answer(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx = incoming(ctx)
	log := a.log.With("method", info.FullMethod, "request_id", requestID(ctx))
	answer, err := a.survive(ctx, log, request, next)
	if err != nil {
		return nil, a.status(ctx, log, err)
	}
	return answer, nil
}

// survive turns a panic into an error that says nothing of its value.
func (a answerer) survive(ctx context.Context, log *slog.Logger, request any, next grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			log.ErrorContext(ctx, "panic in a call", "panic", fmt.Sprint(p), "stack", string(stack[:min(len(stack), maxStack)]))
			answer, err = nil, errPanic
		}
	}()
	return next(ctx, request)
}

// serviceOf returns the service of a full method name, /package.Service/Method.
func serviceOf(method string) string {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return service
}
