package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/plugins/rpc"
)

// line parses one line as go-plugin does, which crashes unless these three are strings.
func line(t rapid.TB, text []byte) map[string]any {
	t.Helper()
	if bytes.Count(text, []byte("\n")) != 1 || len(text) >= 64<<10 {
		t.Fatalf("got %d bytes in %d lines, want one line below 64 KiB", len(text), bytes.Count(text, []byte("\n")))
	}
	var parsed map[string]any
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatalf("parsing %q: %v", text, err)
	}
	for _, key := range []string{"@timestamp", "@level", "@message"} {
		if _, ok := parsed[key].(string); !ok {
			t.Fatalf("%s: got %v, want a string", key, parsed[key])
		}
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000000Z07:00", parsed["@timestamp"].(string)); err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestLogger_UsesGoPluginFormat(t *testing.T) {
	for level, want := range map[slog.Level]string{
		slog.LevelDebug: "debug", slog.LevelInfo: "info", slog.LevelInfo + 1: "info",
		slog.LevelWarn: "warn", slog.LevelError: "error", slog.LevelError + 4: "error",
	} {
		var out bytes.Buffer
		rpc.NewLogger(&out, slog.LevelDebug).Log(context.Background(), level, "hello", "user_id", 7)
		got := line(t, out.Bytes())
		if got["@level"] != want || got["@message"] != "hello" || got["user_id"] != 7.0 {
			t.Errorf("level %v: got %v, want level %s and the attribute", level, got, want)
		}
	}
}

func TestLogger_LowerLevelIsDropped(t *testing.T) {
	var out bytes.Buffer
	rpc.NewLogger(&out, slog.LevelInfo).Debug("hello")
	if out.Len() > 0 {
		t.Errorf("got %s, want nothing", &out)
	}
}

func TestLogger_RenamesConflictingAttributes(t *testing.T) {
	names := rapid.SampledFrom([]string{"@message", "@level", "@timestamp", "msg", "level", "time", "", "a"})
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		log := rpc.NewLogger(&out, slog.LevelInfo)
		if rapid.Bool().Draw(t, "with") {
			log = log.With(names.Draw(t, "with name"), 1)
		}
		if rapid.Bool().Draw(t, "in group") {
			log = log.WithGroup(names.Draw(t, "group"))
		}
		log.Info("hello", names.Draw(t, "name"), 2,
			slog.Group(names.Draw(t, "nested"), names.Draw(t, "member"), 3),
			slog.Any("", slog.GroupValue(slog.Int(names.Draw(t, "inline"), 4))))
		if got := line(t, out.Bytes()); got["@message"] != "hello" || got["@level"] != "info" {
			t.Fatalf("got %v, want message hello at level info", got)
		}
	})
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
			if got["@level"] != "error" || got["@message"] == "" || got["shortened_from_bytes"] == nil {
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
