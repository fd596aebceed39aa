package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/tracing"
	"github.com/cms-personal/personal/shared/tracing/exporter"
)

// startTracing returns the provider of this process's spans, as [exporter.Start] does. A
// mistake in the variables is only logged: the plugin serves with the spans that it can
// export.
func startTracing(log *slog.Logger) (spans trace.TracerProvider, stop func()) {
	spans, stop, err := exporter.Start(context.Background(), exporter.Config{
		Log:     log,
		Console: func() (sdktrace.SpanExporter, error) { return logExporter{log}, nil },
		Flush:   time.Second, // the host kills a process two seconds after it has asked it to stop
		Options: []sdktrace.TracerProviderOption{
			sdktrace.WithResource(newResource()),
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())), // the host decides
		},
	})
	if err != nil {
		log.Warn("the variables of tracing cannot be used, or only in part", "error", err)
	}
	return spans, stop
}

// newResource describes this process: by the host's variables, but with a service name of
// its own, and by its process id, which tells versions apart during a swap.
func newResource() *resource.Resource {
	name := "personal"
	if given, ok := resource.Environment().Set().Value("service.name"); ok {
		name = given.AsString()
	}
	own := []attribute.KeyValue{attribute.String("service.name", name+"-plugin"), attribute.Int("process.pid", os.Getpid())}
	if version != "" {
		own = append(own, attribute.String("service.version", version))
	}
	return resource.NewSchemaless(own...)
}

// logExporter writes spans to the plugin's log: standard output belongs to go-plugin.
type logExporter struct{ log *slog.Logger }

// ExportSpans implements [sdktrace.SpanExporter].
func (e logExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	for _, s := range spans {
		attrs := []slog.Attr{
			slog.String("name", s.Name()),
			slog.String(tracing.TraceIDKey, s.SpanContext().TraceID().String()),
			slog.String("span_id", s.SpanContext().SpanID().String()),
			slog.String("parent_id", s.Parent().SpanID().String()),
			slog.String("duration", s.EndTime().Sub(s.StartTime()).String()),
			slog.String("status", s.Status().Code.String()),
		}
		for _, a := range s.Attributes() {
			attrs = append(attrs, slog.String(string(a.Key), a.Value.String()))
		}
		e.log.LogAttrs(ctx, slog.LevelInfo, "span", attrs...)
	}
	return nil
}

// Shutdown implements [sdktrace.SpanExporter].
func (logExporter) Shutdown(context.Context) error { return nil }
