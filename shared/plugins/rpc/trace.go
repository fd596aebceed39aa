package rpc

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/tracing"
)

// tracerOf returns the tracer of a provider, nil for none.
func tracerOf(p trace.TracerProvider) trace.Tracer {
	if p == nil {
		return nil
	}
	return p.Tracer(tracing.Scope)
}

// startCall begins the span of a call to the other process. It is nil unless the span of
// ctx is recorded.
func startCall(ctx context.Context, method string) (context.Context, trace.Span) {
	if !tracing.IsRecorded(ctx) {
		return ctx, nil
	}
	return tracing.Start(ctx, strings.TrimPrefix(method, "/"), trace.SpanKindClient)
}

// serveCall begins the span of a call from the other process. It is nil unless the other
// process records the call: the host decides for both.
func serveCall(ctx context.Context, tracer trace.Tracer, method string) (context.Context, trace.Span) {
	if tracer == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	return tracer.Start(ctx, strings.TrimPrefix(method, "/"), trace.WithSpanKind(trace.SpanKindServer))
}

// endCall ends the span of a call, if there is one. err is an error of the contract; its
// code is recorded. Refusals of a request are not failures.
func endCall(span trace.Span, method string, err error) {
	if span == nil {
		return
	}
	service, operation, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	span.SetAttributes(attribute.String("rpc.system", "grpc"),
		attribute.String("rpc.service", service), attribute.String("rpc.method", operation))
	var e *personal.Error
	failed := err != nil
	if errors.As(err, &e) {
		failed = e.Code == personal.CodeInternal || e.Code == personal.CodeUnavailable
		span.SetAttributes(attribute.String("personal.code", string(e.Code)))
	}
	tracing.End(span, failed)
}
