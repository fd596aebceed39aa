// Package tracing is what the parts of the module share to take part in
// OpenTelemetry's traces: trace context as text, child spans, and the trace id in log
// lines.
//
// It uses OpenTelemetry's API only, and no global state: a program that makes spans
// passes its TracerProvider to the parts that begin traces. The provider of a span also
// makes its child spans. Without a recorded span nothing is allocated.
//
// Spans carry names of routes and operations, and result codes. They never
// carry SQL, headers, logins, addresses or anything else that a caller sent.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Scope is the name of the instrumentation, by which backends group spans.
const Scope = "github.com/cms-personal/personal"

// The keys of [Context] in HTTP headers and in gRPC metadata (W3C Trace Context).
const (
	ParentKey = "traceparent"
	StateKey  = "tracestate"
)

// maxState bounds a tracestate, in bytes: the W3C asks to pass on at least so many. A
// longer one is dropped.
const maxState = 512

// Context is a span in the texts of W3C Trace Context. The zero Context is none.
// Baggage is not part of it.
type Context struct{ Parent, State string }

// Get implements [propagation.TextMapCarrier].
func (c *Context) Get(key string) string {
	if key == ParentKey {
		return c.Parent
	}
	return c.State
}

// Set implements [propagation.TextMapCarrier].
func (c *Context) Set(key, value string) {
	if key == ParentKey {
		c.Parent = value
	} else {
		c.State = value
	}
}

// Keys implements [propagation.TextMapCarrier].
func (c *Context) Keys() []string { return []string{ParentKey, StateKey} }

// ContextOf returns the span of ctx, or the zero Context.
func ContextOf(ctx context.Context) Context {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return Context{}
	}
	var c Context
	propagation.TraceContext{}.Inject(ctx, &c)
	if len(c.State) > maxState {
		c.State = ""
	}
	return c
}

// Join returns a context in which the span of another process is the current one. It
// returns ctx itself if c is empty or invalid. An invalid or too long State is dropped.
func (c Context) Join(ctx context.Context) context.Context {
	if c.Parent == "" {
		return ctx
	}
	carrier := c // which is on the heap
	if len(c.State) > maxState {
		carrier.State = ""
	}
	return propagation.TraceContext{}.Extract(ctx, &carrier)
}

// IsRecorded reports whether this process records the span of ctx, and so those below
// it. Ask before you make names and attributes.
func IsRecorded(ctx context.Context) bool { return trace.SpanFromContext(ctx).IsRecording() }

// Start begins a child of the span of ctx, with the provider of that span.
func Start(ctx context.Context, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer(Scope).Start(ctx, name, trace.WithSpanKind(kind))
}

// Do calls f, in a child of the span of ctx if that span is recorded.
func Do(ctx context.Context, name string, kind trace.SpanKind, f func(context.Context) error) error {
	if !IsRecorded(ctx) {
		return f(ctx)
	}
	ctx, span := Start(ctx, name, kind)
	err := f(ctx)
	End(span, err != nil)
	return err
}

// End ends a span. The text of an error is not recorded, because it may hold a value
// that a caller sent.
func End(span trace.Span, failed bool) {
	if failed {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
