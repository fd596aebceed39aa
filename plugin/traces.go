package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/tracing"
)

// flushTimeout bounds the export of the last spans: the host kills a process two seconds
// after it has asked it to stop.
const flushTimeout = time.Second

// startTracing returns the provider of this process's spans, as the environment variables
// of OpenTelemetry say, or nil if they switch tracing off. stop exports the last spans. A
// mistake in the variables is only logged: the plugin serves without traces.
func startTracing(log *slog.Logger) (spans trace.TracerProvider, stop func()) {
	problems := &exportErrors{log: log}
	otel.SetErrorHandler(problems)
	otel.SetLogger(logr.New(problems)) // the exporter reports bad variables to it
	exporter, err := newExporter(context.Background(), log)
	if err != nil {
		log.Warn("the plugin records no spans", "error", err)
	}
	if exporter == nil {
		return nil, func() {}
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(newResource()),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample()))) // the host decides
	return provider, func() {
		ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last spans could not be exported", "error", err)
		}
	}
}

// newExporter returns the exporter that the variables name, nil for none.
func newExporter(ctx context.Context, log *slog.Logger) (sdktrace.SpanExporter, error) {
	name := os.Getenv("OTEL_TRACES_EXPORTER")
	if name == "" && cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != "" {
		name = "otlp"
	}
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		name = "none"
	}
	switch name {
	case "", "none":
		return nil, nil
	case "console":
		return logExporter{log}, nil
	case "otlp":
	default:
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q, want otlp, console or none", name)
	}
	switch protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")); protocol {
	case "", "http/protobuf":
		return otlptracehttp.New(ctx)
	case "grpc":
		return otlptracegrpc.New(ctx)
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, want http/protobuf or grpc", protocol)
	}
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

// exportErrors logs errors of the export, one a minute: a collector that is down fails
// every batch. It is what OpenTelemetry reports to, as [otel.ErrorHandler] and as
// [logr.LogSink].
type exportErrors struct {
	log     *slog.Logger
	invalid sync.Once
	mu      sync.Mutex
	last    time.Time
}

// Handle implements [otel.ErrorHandler].
func (e *exportErrors) Handle(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.last) < time.Minute {
		return
	}
	e.last = time.Now()
	e.log.Warn("spans could not be exported", "error", err)
}

// Error implements [logr.LogSink]. The exporter calls it for each variable that it cannot
// use. Only the message is logged: the rest quotes the value, which may be a key.
func (e *exportErrors) Error(_ error, message string, _ ...any) {
	e.invalid.Do(func() { e.log.Warn("OTEL_EXPORTER_OTLP_… is invalid and ignored in part", "problem", message) })
}

// The other methods of [logr.LogSink] have no effect: operators need no more of OpenTelemetry's log.

func (*exportErrors) Init(logr.RuntimeInfo)            {}
func (*exportErrors) Enabled(int) bool                 { return false }
func (*exportErrors) Info(int, string, ...any)         {}
func (e *exportErrors) WithValues(...any) logr.LogSink { return e }
func (e *exportErrors) WithName(string) logr.LogSink   { return e }
