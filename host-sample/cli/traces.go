package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushTimeout bounds the export of the last spans when the host stops.
const flushTimeout = 3 * time.Second

// startTracing returns the provider of the host's spans, as the environment variables of
// OpenTelemetry say, or nil if they switch tracing off. stop exports the last spans.
func startTracing(ctx context.Context, stdout io.Writer, log *slog.Logger) (spans trace.TracerProvider, stop func(), err error) {
	problems := &traceErrors{log: log}
	otel.SetErrorHandler(problems)
	otel.SetLogger(logr.New(problems)) // the exporter reports bad variables to it
	exporter, err := newExporter(ctx, stdout)
	if exporter == nil || err != nil {
		return nil, func() {}, err
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(newResource()))
	stop = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last spans could not be exported", "error", err)
		}
	}
	if err := problems.started(); err != nil { // otherwise every request would be sampled, or exported without its key
		stop()
		return nil, nil, err
	}
	return provider, stop, nil
}

// newExporter returns the exporter that the variables name, nil for none.
func newExporter(ctx context.Context, stdout io.Writer) (sdktrace.SpanExporter, error) {
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
		return stdouttrace.New(stdouttrace.WithWriter(stdout))
	case "otlp":
	default:
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER is %q, want otlp, console or none", name)
	}
	if err := checkEndpoints(); err != nil {
		return nil, err
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

// checkEndpoints returns an error for an endpoint that the exporter would take for another
// one. It does not quote the URL, which may have a password.
func checkEndpoints() error {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		value := strings.TrimSpace(os.Getenv(variable))
		if value == "" {
			continue
		}
		if u, err := url.Parse(value); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%s is not a URL like http://collector:4318", variable)
		}
	}
	return nil
}

// newResource describes this process. The variables take precedence over the name.
func newResource() *resource.Resource {
	own := []attribute.KeyValue{attribute.Int("process.pid", os.Getpid())}
	if !resource.Environment().Set().HasValue("service.name") {
		own = append(own, attribute.String("service.name", "personal"))
	}
	return resource.NewSchemaless(own...)
}

// traceErrors collects the errors of the start, and later logs those of the export, one a
// minute: a collector that is down fails every batch. It is what OpenTelemetry reports to,
// as [otel.ErrorHandler] and as [logr.LogSink].
type traceErrors struct {
	log *slog.Logger

	mu      sync.Mutex
	running bool
	start   []error
	last    time.Time
}

// started returns the errors so far.
func (e *traceErrors) started() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = true
	return errors.Join(e.start...)
}

// Handle implements [otel.ErrorHandler].
func (e *traceErrors) Handle(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.running {
		e.start = append(e.start, fmt.Errorf("OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG or OTEL_RESOURCE_ATTRIBUTES: %w", err))
		return
	}
	if time.Since(e.last) >= time.Minute {
		e.last = time.Now()
		e.log.Warn("spans could not be exported", "error", err)
	}
}

// Error implements [logr.LogSink]. The exporter calls it for each variable that it cannot
// use. Only the message is kept: the rest quotes the value, which may be a key.
func (e *traceErrors) Error(_ error, message string, _ ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.start = append(e.start, fmt.Errorf("OTEL_EXPORTER_OTLP_… is invalid: %s", message))
}

// The other methods of [logr.LogSink] have no effect: operators need no more of OpenTelemetry's log.

func (*traceErrors) Init(logr.RuntimeInfo)            {}
func (*traceErrors) Enabled(int) bool                 { return false }
func (*traceErrors) Info(int, string, ...any)         {}
func (e *traceErrors) WithValues(...any) logr.LogSink { return e }
func (e *traceErrors) WithName(string) logr.LogSink   { return e }
