package outbox

import (
	"bytes"
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/tracing"
)

// WithSpan returns the payload of a job, a JSON object, with the span of ctx, if that
// is sampled: the job then continues its trace. Versions that do not know the member
// ignore it.
func WithSpan(ctx context.Context, payload []byte) []byte {
	end := len(payload) - 1
	if !trace.SpanContextFromContext(ctx).IsSampled() || len(payload) < len(`{}`) || payload[end] != '}' {
		return payload
	}
	separator := ","
	if payload[end-1] == '{' {
		separator = ""
	}
	return append(payload[:end:end], separator+spanMember+`"`+tracing.ContextOf(ctx).Parent+`"}`...)
}

// spanMember begins the member of a payload that holds the span. Within a JSON string
// its quotes are escaped.
const spanMember = `"traceparent":`

// startSpan begins the span of a job that continues a trace. It is nil if there is none.
func (w *Worker) startSpan(ctx context.Context, j Job) (context.Context, trace.Span) {
	if w.TracerProvider == nil || !bytes.Contains(j.Payload, []byte(spanMember)) {
		return ctx, nil
	}
	var payload struct {
		Traceparent string `json:"traceparent"`
	}
	if json.Unmarshal(j.Payload, &payload) != nil {
		return ctx, nil // the handler returns the error
	}
	joined := tracing.Context{Parent: payload.Traceparent}.Join(ctx)
	if !trace.SpanContextFromContext(joined).IsSampled() {
		return ctx, nil
	}
	ctx, span := w.TracerProvider.Tracer(tracing.Scope).Start(joined, "job "+string(j.Kind), trace.WithSpanKind(trace.SpanKindConsumer))
	span.SetAttributes(attribute.Int("personal.attempt", j.Attempts))
	return ctx, span
}
