package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/cms-personal/personal/shared/tracing"
)

func TestStartTracing_FollowsTheVariables(t *testing.T) {
	for _, tt := range []struct {
		env      []string // names and values in turn
		on       bool
		complain string // of the log
	}{
		{},
		{env: []string{"OTEL_TRACES_EXPORTER", "none", "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}},
		{env: []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_SDK_DISABLED", "true"}},
		{env: []string{"OTEL_TRACES_EXPORTER", "otlp"}, on: true},
		{env: []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, on: true},
		{env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}, on: true},
		{env: []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1"}, on: true},
		{env: []string{"OTEL_TRACES_EXPORTER", "console"}, on: true},
		{env: []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_TRACES_SAMPLER", "xray"}, on: true, complain: "OTEL_TRACES_SAMPLER"},
		{env: []string{"OTEL_TRACES_EXPORTER", "zipkin"}, complain: "OTEL_TRACES_EXPORTER"},
		{env: []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}, complain: "OTEL_EXPORTER_OTLP_PROTOCOL"},
	} {
		t.Run(fmt.Sprint(tt.env), func(t *testing.T) {
			for i := 0; i < len(tt.env); i += 2 {
				t.Setenv(tt.env[i], tt.env[i+1])
			}
			var log bytes.Buffer
			spans, stop := startTracing(slog.New(slog.NewTextHandler(&log, nil)))
			stop()
			if on := spans != nil; on != tt.on || strings.Contains(log.String(), "WARN") != (tt.complain != "") ||
				!strings.Contains(log.String(), tt.complain) {
				t.Errorf("got tracing %t, want %t; the log:\n%s", on, tt.on, log.String())
			}
		})
	}
}

func TestStartTracing_LogsNoKeyOfTheCollector(t *testing.T) {
	for _, headers := range []string{"authorization: Bearer SECRET,x: SECRET", "authorization=Basic SECRET%zz", "a SECRET=1"} {
		t.Run(headers, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
			t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", headers)
			var log bytes.Buffer
			spans, stop := startTracing(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 8})))
			stop()
			if spans == nil || strings.Count(log.String(), "WARN") != 1 || !strings.Contains(log.String(), "OTEL_EXPORTER_OTLP_") || strings.Contains(log.String(), "SECRET") {
				t.Errorf("got tracing %t and the log %q, want one warning without the value", spans != nil, log.String())
			}
		})
	}
}

func TestStartTracing_ConsoleIsTheLog(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "console")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_on")
	var log bytes.Buffer
	spans, stop := startTracing(slog.New(slog.NewTextHandler(&log, nil)))
	parent := tracing.Context{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	_, sampled := spans.Tracer("").Start(parent.Join(t.Context()), "one")
	sampled.End()
	_, root := spans.Tracer("").Start(t.Context(), "two", trace.WithNewRoot())
	root.End()
	stop()
	const want = `msg=span name=one trace_id=0af7651916cd43dd8448eb211c80319c`
	if !strings.Contains(log.String(), want) || !strings.Contains(log.String(), "parent_id=b7ad6b7169203331") ||
		strings.Contains(log.String(), "name=two") {
		t.Errorf("got %s, want a line with %q, and none of a trace that the host did not begin", log.String(), want)
	}
}

func TestResource_HasANameOfItsOwn(t *testing.T) {
	for _, tt := range []struct{ name, attributes, want string }{
		{"", "", "personal-plugin"},
		{"cms", "service.name=other", "cms-plugin"},
		{"", "service.name=other,team=a", "other-plugin"},
	} {
		t.Setenv("OTEL_SERVICE_NAME", tt.name)
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", tt.attributes)
		if got, _ := newResource().Set().Value("service.name"); got.AsString() != tt.want {
			t.Errorf("got service name %q, want %q", got.AsString(), tt.want)
		}
	}
}
