package tracing

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/trace"
)

// TraceIDKey is the attribute of a log line that has the id of its trace.
const TraceIDKey = "trace_id"

// WithTraceID returns a logger that adds the trace id to each line that is logged with
// the context of a span. It returns a logger that already does so unchanged.
func WithTraceID(log *slog.Logger) *slog.Logger {
	if _, ok := log.Handler().(logHandler); ok {
		return log
	}
	return slog.New(logHandler{log.Handler()})
}

type logHandler struct{ slog.Handler }

// Handle writes one line.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		r = r.Clone() // the copies of a record share its attributes
		r.AddAttrs(slog.String(TraceIDKey, span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that adds attributes to every line.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler that puts later attributes, and the trace id, into a group.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name)}
}
