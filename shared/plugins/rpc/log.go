package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/tracing"
)

// maxLogLine bounds a log line, in bytes: go-plugin splits lines of 64 KiB.
const maxLogLine = 60 << 10

// NewLogger returns a logger in the format that go-plugin's host parses, so that
// levels and attributes are preserved when w is the plugin's standard error. Make it
// before calling [Serve], which redirects os.Stderr. A line longer than 60 KiB loses
// its attributes. Lines that are logged with the context of a call have the call's
// request id, and its trace_id if the host traces it.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return tracing.WithTraceID(slog.New(logHandler{Handler: slog.NewJSONHandler(lineWriter{w}, &slog.HandlerOptions{
		Level:       level,
		ReplaceAttr: renameBuiltin,
	})}))
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

// logHandler renames attributes whose names have a meaning for go-plugin: a host
// crashes on a line whose @message or @level is not a string.
type logHandler struct {
	slog.Handler
	identified bool // the attributes already include a request id
}

// Handle writes one line.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	renamed := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		renamed.AddAttrs(rename(a))
		return true
	})
	if id := requestID(ctx); id != "" && !h.identified {
		renamed.AddAttrs(slog.String(requestIDKey, id))
	}
	return h.Handler.Handle(ctx, renamed)
}

// WithAttrs returns a handler that adds attributes to every line.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	renamed := slices.Clone(attrs)
	for i, a := range renamed {
		renamed[i] = rename(a)
		h.identified = h.identified || a.Key == requestIDKey
	}
	h.Handler = h.Handler.WithAttrs(renamed)
	return h
}

// WithGroup returns a handler that puts later attributes into a group.
func (h logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	h.Handler = h.Handler.WithGroup(freeName(name))
	return h
}

// rename renames an attribute that has the name of a built-in one. A group without
// a name is inlined by slog, so its members are renamed.
func rename(a slog.Attr) slog.Attr {
	a.Key = freeName(a.Key)
	if a.Key != "" {
		return a
	}
	a.Value = a.Value.Resolve()
	if a.Value.Kind() == slog.KindGroup {
		members := slices.Clone(a.Value.Group())
		for i, member := range members {
			members[i] = rename(member)
		}
		a.Value = slog.GroupValue(members...)
	}
	return a
}

func freeName(name string) string {
	switch name {
	case slog.TimeKey, slog.LevelKey, slog.MessageKey:
		return name + "_"
	}
	if strings.HasPrefix(name, "@") {
		return "_" + name
	}
	return name
}

// renameBuiltin renames the built-in attributes to go-plugin's names. No other
// top-level attribute has their names any more.
func renameBuiltin(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		return slog.String("@timestamp", a.Value.Time().Format("2006-01-02T15:04:05.000000Z07:00"))
	case slog.LevelKey:
		level, _ := a.Value.Any().(slog.Level)
		return slog.String("@level", levelName(level))
	case slog.MessageKey:
		a.Key = "@message"
	}
	return a
}

func levelName(level slog.Level) string {
	switch {
	case level < slog.LevelInfo:
		return "debug"
	case level < slog.LevelWarn:
		return "info"
	case level < slog.LevelError:
		return "warn"
	}
	return "error"
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
		Timestamp string `json:"@timestamp"`
		Level     string `json:"@level"`
		Message   string `json:"@message"`
		Bytes     int    `json:"shortened_from_bytes"`
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
