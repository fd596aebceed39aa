package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/tracing"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	parent  = "00-" + traceID + "-b7ad6b7169203331-01"
)

func TestContext_RoundTrip(t *testing.T) {
	for _, sent := range []tracing.Context{
		{},
		{Parent: parent},
		{Parent: strings.TrimSuffix(parent, "1") + "0"},
		{Parent: parent, State: "vendor=1,other=2"},
	} {
		if got := tracing.ContextOf(sent.Join(t.Context())); got != sent {
			t.Errorf("got %+v, want %+v", got, sent)
		}
	}
}

func TestContext_BadTextsAreDropped(t *testing.T) {
	for name, sent := range map[string]tracing.Context{
		"empty":             {State: "vendor=1"},
		"no trace context":  {Parent: "hello"},
		"zero trace id":     {Parent: "00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01"},
		"capital letters":   {Parent: strings.ToUpper(parent)},
		"more parts":        {Parent: parent + "-00"},
		"forbidden version": {Parent: "ff" + parent[2:]},
	} {
		ctx := sent.Join(t.Context())
		if got := tracing.ContextOf(ctx); got != (tracing.Context{}) || ctx != t.Context() {
			t.Errorf("%s: got %+v, want none", name, got)
		}
	}
	for name, state := range map[string]string{
		"no list":  "vendor",
		"too long": "vendor=" + strings.Repeat("x", 250) + ",other=" + strings.Repeat("y", 250) + ",third=1",
	} {
		ctx := tracing.Context{Parent: parent, State: state}.Join(t.Context())
		if got, want := tracing.ContextOf(ctx), (tracing.Context{Parent: parent}); got != want {
			t.Errorf("tracestate %s: got %+v, want %+v", name, got, want)
		}
		if n := trace.SpanContextFromContext(ctx).TraceState().Len(); n > 0 {
			t.Errorf("tracestate %s: got %d members, want none", name, n)
		}
	}
}

func TestStart_UsesTheProviderOfTheSpanAbove(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	ctx, above := provider.Tracer("host").Start(t.Context(), "above")
	if !tracing.IsRecorded(ctx) {
		t.Fatal("the span above is not recorded")
	}
	failure := errors.New("anna")
	err := tracing.Do(ctx, "below", trace.SpanKindClient, func(ctx context.Context) error {
		if trace.SpanContextFromContext(ctx).SpanID() == above.SpanContext().SpanID() {
			t.Error("the function got the span above")
		}
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("got error %v, want that of the function", err)
	}
	above.End()
	below := spans.Ended()[0]
	if below.Name() != "below" || below.Parent().SpanID() != above.SpanContext().SpanID() || below.SpanKind() != trace.SpanKindClient {
		t.Errorf("got span %q below %s, want below in %s", below.Name(), below.Parent().SpanID(), above.SpanContext().SpanID())
	}
	if s := below.Status(); s.Code != codes.Error || s.Description != "" || len(below.Events()) != 0 {
		t.Errorf("got status %+v with %d events, want an error without a text", s, len(below.Events()))
	}
}

func TestWithoutSpan_AllocatesNothing(t *testing.T) {
	ctx := context.Background()
	log := tracing.WithTraceID(slog.New(slog.DiscardHandler))
	if n := testing.AllocsPerRun(100, func() {
		if tracing.IsRecorded(ctx) || tracing.ContextOf(ctx) != (tracing.Context{}) || (tracing.Context{}).Join(ctx) != ctx {
			t.Fatal("there is a span")
		}
		log.LogAttrs(ctx, slog.LevelInfo, "line")
	}); n > 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

func TestWithTraceID_AddsTheTraceOfTheContext(t *testing.T) {
	var out bytes.Buffer
	plain := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
	log := tracing.WithTraceID(plain)
	if tracing.WithTraceID(log) != log || tracing.WithTraceID(log.With("a", 1)).Handler() == nil {
		t.Error("a logger that adds the trace id was wrapped again")
	}
	ctx := tracing.Context{Parent: parent}.Join(t.Context())
	log.InfoContext(ctx, "one", "error", errors.New("e"))
	tracing.WithTraceID(log.With("request_id", "r")).InfoContext(ctx, "two")
	log.Info("three")
	want := "msg=one error=e trace_id=" + traceID + "\nmsg=two request_id=r trace_id=" + traceID + "\nmsg=three\n"
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out.String(), want)
	}
}
