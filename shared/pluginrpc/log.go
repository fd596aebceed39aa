package pluginrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
)

// maxLogLine is the longest line of a log, in bytes: go-plugin splits lines of
// 64 KiB.
const maxLogLine = 60 << 10

// NewLogger returns a logger whose lines go-plugin's host reads as what they
// are, with level and attributes, if w is the plugin's standard error. It has to
// be made before [Serve], which lends os.Stderr another meaning. A line longer
// than 60 KiB loses its attributes. What is logged with the context of a call
// bears the call's request id.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(logHandler{Handler: slog.NewJSONHandler(lineWriter{w}, &slog.HandlerOptions{
		Level:       level,
		ReplaceAttr: renameBuiltin,
	})})
}

// LogLevelEnv names the environment variable by which a host says from which
// level on it has a use for its plugin's log, as slog writes levels.
const LogLevelEnv = "PERSONAL_LOG_LEVEL"

// LogLevel returns the level that the host asked for, or else slog.LevelInfo.
func LogLevel() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(os.Getenv(LogLevelEnv))); err != nil {
		return slog.LevelInfo
	}
	return level
}

const requestIDKey = "request_id"

// logHandler keeps the names that go-plugin gives a meaning to for itself: a
// host crashes on a line whose @message or @level is no text.
type logHandler struct {
	slog.Handler
	identified bool // every line bears a request id already
}

// Handle writes one line.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	renamed := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		renamed.AddAttrs(yield(a))
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
		renamed[i] = yield(a)
		h.identified = h.identified || a.Key == requestIDKey
	}
	h.Handler = h.Handler.WithAttrs(renamed)
	return h
}

// WithGroup returns a handler that puts what follows into a group.
func (h logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	h.Handler = h.Handler.WithGroup(freeName(name))
	return h
}

// yield renames an attribute that has the name of a built-in one. A group
// without a name stands for its members.
func yield(a slog.Attr) slog.Attr {
	a.Key = freeName(a.Key)
	if a.Key != "" {
		return a
	}
	a.Value = a.Value.Resolve()
	if a.Value.Kind() == slog.KindGroup {
		members := slices.Clone(a.Value.Group())
		for i, member := range members {
			members[i] = yield(member)
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

// renameBuiltin gives the built-in attributes, the only ones left with these
// names at the top, those of go-plugin.
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

// lineWriter passes on lines that are not too long; every Write is one line.
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

// shortLine returns a line of the same time and level, with the beginning of the
// message and without attributes.
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
