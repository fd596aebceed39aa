package rpc_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// line parses one line, which the manager must not cut.
func line(t testing.TB, text []byte) map[string]any {
	t.Helper()
	if bytes.Count(text, []byte("\n")) != 1 || len(text) >= 64<<10 {
		t.Fatalf("got %d bytes in %d lines, want one line below 64 KiB", len(text), bytes.Count(text, []byte("\n")))
	}
	var parsed map[string]any
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatalf("parsing %q: %v", text, err)
	}
	for _, key := range []string{"time", "level", "msg"} {
		if _, ok := parsed[key].(string); !ok {
			t.Fatalf("%s: got %v, want a string", key, parsed[key])
		}
	}
	if _, err := time.Parse(time.RFC3339Nano, parsed["time"].(string)); err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestLogger_KeepsLevelAndAttributes(t *testing.T) {
	var out bytes.Buffer
	rpc.NewLogger(&out, slog.LevelDebug).WithGroup("").Warn("hello", "user_id", 7)
	if got := line(t, out.Bytes()); got["level"] != "WARN" || got["msg"] != "hello" || got["user_id"] != 7.0 {
		t.Errorf("got %v, want the warning hello with the attribute", got)
	}
}

func TestLogger_LowerLevelIsDropped(t *testing.T) {
	var out bytes.Buffer
	rpc.NewLogger(&out, slog.LevelInfo).Debug("hello")
	if out.Len() > 0 {
		t.Errorf("got %s, want nothing", &out)
	}
}

func TestLogger_ShortensLongLines(t *testing.T) {
	long := strings.Repeat("\x00ж", 100<<10)
	for name, write := range map[string]func(*slog.Logger){
		"long message":   func(l *slog.Logger) { l.Error(long) },
		"long attribute": func(l *slog.Logger) { l.Error("hello", "stack", long) },
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			write(rpc.NewLogger(&out, slog.LevelInfo))
			got := line(t, out.Bytes())
			if got["level"] != "ERROR" || got["msg"] == "" || got["shortened_from_bytes"] == nil {
				t.Errorf("got %v, want a shortened error line", got)
			}
		})
	}
}

func TestLogger_AddsRequestIDOnce(t *testing.T) {
	ctx := personal.WithCall(t.Context(), personal.Call{RequestID: "req-1"})
	for name, write := range map[string]func(*slog.Logger){
		"from the context":                      func(l *slog.Logger) { l.WarnContext(ctx, "m") },
		"from the context and the logger's own": func(l *slog.Logger) { l.With("request_id", "req-1").WarnContext(ctx, "m") },
	} {
		var out bytes.Buffer
		write(rpc.NewLogger(&out, slog.LevelInfo))
		if n := strings.Count(out.String(), `"request_id":"req-1"`); n != 1 {
			t.Errorf("%s: got the request id %d times, want once: %s", name, n, out.String())
		}
	}
}

func TestLogLevel_FromEnvironment(t *testing.T) {
	for text, want := range map[string]slog.Level{"DEBUG": slog.LevelDebug, "WARN": slog.LevelWarn, "": slog.LevelInfo,
		"loud": slog.LevelInfo} {
		t.Setenv(rpc.LogLevelEnv, text)
		if got := rpc.LogLevel(); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
