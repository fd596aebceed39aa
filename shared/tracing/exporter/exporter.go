// Package exporter starts the export of spans of the sample host and of the plugin. It alone
// of the packages below shared uses OpenTelemetry's SDK: a CMS brings its own provider.
package exporter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Config says how a process exports its spans.
type Config struct {
	Log     *slog.Logger
	Console func() (sdktrace.SpanExporter, error) // what OTEL_TRACES_EXPORTER=console names
	Flush   time.Duration                         // bounds the export of the last spans
	Options []sdktrace.TracerProviderOption       // besides the exporter
}

// Start returns the provider of the process's spans, as the environment variables of
// OpenTelemetry say, or nil if they switch tracing off. Its error names the variables that
// cannot be used, without values that may be keys; the provider is still usable, or nil if
// nothing can be exported. stop, never nil, exports the last spans.
func Start(ctx context.Context, c Config) (spans trace.TracerProvider, stop func(), err error) {
	problems := &problems{log: c.Log}
	otel.SetErrorHandler(problems)
	otel.SetLogger(logr.New(problems)) // the exporter reports bad variables to it
	exporter, err := newExporter(ctx, c.Console)
	if exporter == nil || err != nil {
		return nil, func() {}, err
	}
	provider := sdktrace.NewTracerProvider(append(c.Options, sdktrace.WithBatcher(exporter))...)
	stop = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Flush)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			c.Log.Warn("the last spans could not be exported", "error", err)
		}
	}
	return provider, stop, problems.started()
}

// newExporter returns the exporter that the variables name, nil for none.
func newExporter(ctx context.Context, console func() (sdktrace.SpanExporter, error)) (sdktrace.SpanExporter, error) {
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
		return console()
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

// problems collects the errors of the start, and later logs those of the export, one a
// minute: a collector that is down fails every batch. It is what OpenTelemetry reports to,
// as [otel.ErrorHandler] and as [logr.LogSink].
type problems struct {
	log *slog.Logger

	mu      sync.Mutex
	running bool
	start   []error
	last    time.Time
}

// started returns the errors so far.
func (p *problems) started() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = true
	return errors.Join(p.start...)
}

// Handle implements [otel.ErrorHandler].
func (p *problems) Handle(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		p.start = append(p.start, fmt.Errorf("OTEL_TRACES_SAMPLER, OTEL_TRACES_SAMPLER_ARG or OTEL_RESOURCE_ATTRIBUTES: %w", err))
		return
	}
	if time.Since(p.last) >= time.Minute {
		p.last = time.Now()
		p.log.Warn("spans could not be exported", "error", err)
	}
}

// Error implements [logr.LogSink]. The exporter calls it for each variable that it cannot
// use. Only the message is kept: the rest quotes the value, which may be a key.
func (p *problems) Error(_ error, message string, _ ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		p.start = append(p.start, fmt.Errorf("OTEL_EXPORTER_OTLP_… is invalid: %s", message))
	}
}

// The other methods of [logr.LogSink] have no effect: operators need no more of OpenTelemetry's log.

func (*problems) Init(logr.RuntimeInfo)            {}
func (*problems) Enabled(int) bool                 { return false }
func (*problems) Info(int, string, ...any)         {}
func (p *problems) WithValues(...any) logr.LogSink { return p }
func (p *problems) WithName(string) logr.LogSink   { return p }
