package process

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// logged returns the log that a plugin's output makes, without times.
func logged(t *testing.T, output string) []map[string]any {
	t.Helper()
	var buffer bytes.Buffer
	l := &logForwarder{
		log:     slog.New(slog.NewJSONHandler(&buffer, &slog.HandlerOptions{Level: slog.LevelDebug})),
		version: "1.0.0", generation: 7,
	}
	l.pid.Store(42)
	l.forward(strings.NewReader(output))
	var lines []map[string]any
	for d := json.NewDecoder(&buffer); d.More(); {
		var line map[string]any
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		delete(line, "time")
		lines = append(lines, line)
	}
	return lines
}

func line(level, message string, fields map[string]any) map[string]any {
	group := map[string]any{"version": "1.0.0", "generation": 7.0, "pid": 42.0}
	for k, v := range fields {
		group[k] = v
	}
	return map[string]any{"level": level, "msg": message, "plugin": group}
}

func TestForward_LinesKeepLevelAndAttributes(t *testing.T) {
	for name, test := range map[string]struct {
		output string
		want   []map[string]any
	}{
		"of go-hclog": {
			`{"@level":"warn","@message":"slow","@timestamp":"2026-01-02T03:04:05.000000Z","took":3}`,
			[]map[string]any{line("WARN", "slow", map[string]any{"took": 3.0})},
		},
		"of slog": {
			`{"time":"2026-01-02T03:04:05Z","level":"ERROR","msg":"lost","request":{"id":"r"}}`,
			[]map[string]any{line("ERROR", "lost", map[string]any{"request": map[string]any{"id": "r"}})},
		},
		"debug": {
			`{"@level":"debug","@message":"x"}`, []map[string]any{line("DEBUG", "x", nil)},
		},
		"plain text": {
			"one\n\n  two  \n", []map[string]any{line("INFO", "one", nil), line("INFO", "two", nil)},
		},
		"a crash": {
			"before\npanic: oh\n\ngoroutine 1 [running]:\n",
			[]map[string]any{line("INFO", "before", nil), line("ERROR", "panic: oh", nil), line("ERROR", "goroutine 1 [running]:", nil)},
		},
		"built-in names of another type": {
			`{"@message":1,"@level":{}}`,
			[]map[string]any{line("INFO", "", map[string]any{"@message": 1.0, "@level": map[string]any{}})},
		},
		"another kind of JSON": {
			"null\n[1]\n", []map[string]any{line("INFO", "null", nil), line("INFO", "[1]", nil)},
		},
		"a line that is too long": {
			strings.Repeat("x", 3*maxLogLine) + "\nnext\n",
			[]map[string]any{line("INFO", strings.Repeat("x", maxLogLine), nil), line("INFO", "next", nil)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, logged(t, test.output)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzForward_AcceptsAnyLine(f *testing.F) {
	f.Add(`{"@message":1,"@level":[],"@timestamp":{}}` + "\n")
	f.Add("panic: x\n{\"msg\":null}")
	f.Fuzz(func(t *testing.T, output string) { logged(t, output) })
}
