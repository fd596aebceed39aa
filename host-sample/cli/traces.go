package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/tracing/exporter"
)

// startTracing returns the provider of the host's spans, as [exporter.Start] does. A mistake
// in the variables refuses the start: every request would be sampled, or exported without
// its key.
func startTracing(ctx context.Context, stdout io.Writer, log *slog.Logger) (spans trace.TracerProvider, stop func(), err error) {
	spans, stop, err = exporter.Start(ctx, exporter.Config{
		Log:     log,
		Console: func() (sdktrace.SpanExporter, error) { return stdouttrace.New(stdouttrace.WithWriter(stdout)) },
		Flush:   3 * time.Second,
		Options: []sdktrace.TracerProviderOption{sdktrace.WithResource(newResource())},
	})
	if err != nil {
		stop()
		return nil, nil, err
	}
	return spans, stop, nil
}

// newResource describes this process. The variables take precedence over the name.
func newResource() *resource.Resource {
	own := []attribute.KeyValue{attribute.Int("process.pid", os.Getpid())}
	if !resource.Environment().Set().HasValue("service.name") {
		own = append(own, attribute.String("service.name", "personal"))
	}
	return resource.NewSchemaless(own...)
}
