package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestStartTracing_RefusesBadVariablesWithoutTheirValues(t *testing.T) {
	for _, tt := range []struct{ variable, value string }{
		{"OTEL_EXPORTER_OTLP_HEADERS", "authorization: Bearer SECRET"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic SECRET%zz"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a SECRET=1"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s"},
		{"OTEL_EXPORTER_OTLP_CERTIFICATE", "missing.pem"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4318"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "htp://x:1"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http:///v1"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://user:SECRET@[x"},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"},
		{"OTEL_TRACES_EXPORTER", "zipkin"},
		{"OTEL_TRACES_SAMPLER", "sometimes"},
		{"OTEL_TRACES_SAMPLER_ARG", "1 %"},
	} {
		want := "OTEL_EXPORTER_OTLP_"
		if !strings.HasPrefix(tt.variable, want) {
			want = tt.variable
		}
		for _, protocol := range []string{"http/protobuf", "grpc"} {
			t.Run(protocol+" "+tt.value, func(t *testing.T) {
				t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
				t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
				t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
				t.Setenv(tt.variable, tt.value)
				var log bytes.Buffer
				_, _, err := startTracing(t.Context(), &log, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 8})))
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error()+log.String(), "SECRET") {
					t.Errorf("got error %v and the log %q, want an error that names the variable, without its value", err, log.String())
				}
			})
		}
	}
}
