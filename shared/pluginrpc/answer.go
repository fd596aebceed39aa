package pluginrpc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// maxStack bounds the stack that is logged after a panic, in bytes.
const maxStack = 16 << 10

// answerer answers calls from the other process: it puts what travelled with a
// call into its context, survives panics, and lets errors cross as statuses, with
// no response beside them.
type answerer struct {
	log    *slog.Logger
	level  slog.Level // at which every call is logged
	status func(ctx context.Context, log *slog.Logger, err error) error
}

func (a answerer) answer(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx = incoming(ctx)
	began := time.Now()
	answer, err := a.survive(ctx, info, request, next)
	if err != nil {
		err = a.status(ctx, a.logOf(ctx, info), err)
	}
	if a.log.Enabled(ctx, a.level) {
		a.logOf(ctx, info).Log(ctx, a.level, "call", "status", status.Code(err).String(), "duration", time.Since(began).String())
	}
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// logOf returns the log for one call. It is made only where it is needed.
func (a answerer) logOf(ctx context.Context, info *grpc.UnaryServerInfo) *slog.Logger {
	return a.log.With("method", info.FullMethod, requestIDKey, requestID(ctx))
}

// survive turns a panic into an error that says nothing of its value.
func (a answerer) survive(ctx context.Context, info *grpc.UnaryServerInfo, request any, next grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			a.logOf(ctx, info).ErrorContext(ctx, "panic in a call", "panic", panicText(p), "stack", string(stack[:min(len(stack), maxStack)]))
			answer, err = nil, errPanic
		}
	}()
	return next(ctx, request)
}

// panicText tells a panic without what may be a secret: a value that a library
// panicked with can hold its input.
func panicText(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", p)
}

// serviceOf returns the service of a full method name, /package.Service/Method.
func serviceOf(method string) string {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	return service
}
