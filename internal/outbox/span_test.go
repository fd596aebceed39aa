package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

func spanContext(flags trace.TraceFlags) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: flags})
}

func TestWithSpan_AddsASampledSpanOnly(t *testing.T) {
	const member = `"traceparent":"00-01000000000000000000000000000000-0200000000000000-01"`
	for _, tt := range []struct {
		flags      trace.TraceFlags
		sent, want string
	}{
		{trace.FlagsSampled, `{"a":1}`, `{"a":1,` + member + `}`},
		{trace.FlagsSampled, `{}`, `{` + member + `}`},
		{trace.FlagsSampled, `1`, `1`},
		{trace.FlagsSampled, ``, ``},
		{0, `{"a":1}`, `{"a":1}`},
	} {
		ctx := trace.ContextWithSpanContext(t.Context(), spanContext(tt.flags))
		if got := string(WithSpan(ctx, []byte(tt.sent))); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
	if got := string(WithSpan(t.Context(), []byte(`{}`))); got != `{}` {
		t.Errorf("without a span: got %s, want {}", got)
	}
}

func TestWorker_JobContinuesItsTrace(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	w := &Worker{
		Store: new(memory), Log: slog.New(slog.DiscardHandler),
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
	}
	var seen trace.SpanContext
	failure := errors.New("anna")
	w.Handlers = map[Kind]Handler{"mail": func(ctx context.Context, _ Job) error {
		seen = trace.SpanContextFromContext(ctx)
		return failure
	}}
	w.init()
	quoted, err := json.Marshal(map[string]string{"login": string(WithSpan(trace.ContextWithSpanContext(t.Context(),
		spanContext(trace.FlagsSampled)), []byte(`{}`)))})
	if err != nil {
		t.Fatal(err)
	}
	for _, payload := range []string{`{}`, `{"traceparent":"x"}`, `{"traceparent":1}`, `nothing "traceparent":`, string(quoted)} {
		w.run(t.Context(), claimedJob{w.groups()[0], Job{Kind: "mail", Attempts: 1, Payload: []byte(payload)}}, time.Now())
	}
	if n := len(spans.Ended()); n != 0 {
		t.Errorf("got %d spans of jobs without a trace, want none", n)
	}
	from := spanContext(trace.FlagsSampled)
	job := Job{Kind: "mail", Attempts: 2, Payload: WithSpan(trace.ContextWithSpanContext(t.Context(), from), []byte(`{"a":1}`))}
	w.run(t.Context(), claimedJob{w.groups()[0], job}, time.Now())
	ended := spans.Ended()
	if len(ended) != 1 {
		t.Fatalf("got %d spans, want 1", len(ended))
	}
	s := ended[0]
	if s.Name() != "job mail" || s.Parent().SpanID() != from.SpanID() || s.SpanContext().TraceID() != from.TraceID() ||
		!s.SpanContext().Equal(seen) {
		t.Errorf("got span %q below %s; the handler got %s", s.Name(), s.Parent().SpanID(), seen.SpanID())
	}
	if s.Status().Code != codes.Error || s.Status().Description != "" || len(s.Events()) > 0 {
		t.Errorf("got status %+v with %d events, want an error without a text", s.Status(), len(s.Events()))
	}
}
