package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/cms-personal/personal/shared/tracing"
)

// maxLogLine bounds a log line, in bytes: the manager cuts lines of 64 KiB.
const maxLogLine = 60 << 10

// NewLogger returns a logger in the JSON of slog, whose levels and attributes the manager
// preserves when w is the plugin's standard error. Do not name an attribute time, level or
// msg: it would count in place of the built-in one. Make the logger before calling [Serve],
// which redirects os.Stderr. A line longer than 60 KiB loses its attributes. Lines that are
// logged with the context of a call have the call's request id, and its trace_id if the
// host traces it.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return tracing.WithTraceID(slog.New(logHandler{Handler: slog.NewJSONHandler(lineWriter{w}, &slog.HandlerOptions{Level: level})}))
}

// LogLevelEnv names the environment variable by which a host sets the lowest level
// that its plugin logs, as text that slog.Level can parse.
const LogLevelEnv = "PERSONAL_LOG_LEVEL"

// LogLevel returns the level that the host set, or slog.LevelInfo without a valid one.
func LogLevel() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(os.Getenv(LogLevelEnv))); err != nil {
		return slog.LevelInfo
	}
	return level
}

const requestIDKey = "request_id"

// logHandler adds the request id of the call that a line is about.
type logHandler struct {
	slog.Handler
	identified bool // the attributes already include a request id
}

// Handle writes one line.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := requestID(ctx); id != "" && !h.identified {
		r = r.Clone() // the copies of a record share its attributes
		r.AddAttrs(slog.String(requestIDKey, id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that adds attributes to every line.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	named := slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == requestIDKey })
	return logHandler{h.Handler.WithAttrs(attrs), h.identified || named}
}

// WithGroup returns a handler that puts later attributes into a group.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name), h.identified}
}

// lineWriter shortens lines that are too long. Every Write is one line.
type lineWriter struct{ w io.Writer }

func (l lineWriter) Write(line []byte) (int, error) {
	short := line
	if len(line) > maxLogLine {
		short = shortLine(line)
	}
	if _, err := l.w.Write(short); err != nil {
		return 0, err
	}
	return len(line), nil
}

// shortLine returns a line with the same time and level, the start of the message
// and no attributes.
func shortLine(line []byte) []byte {
	var kept struct {
		Time    string `json:"time"`
		Level   string `json:"level"`
		Message string `json:"msg"`
		Bytes   int    `json:"shortened_from_bytes"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(line), &kept); err != nil {
		return nil
	}
	kept.Message = shorten(kept.Message, maxLogLine/16)
	kept.Bytes = len(line)
	short, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return append(short, '\n')
}
