package pluginmanager

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// maxLogLine is the longest line of a plugin's log in bytes; of a longer one
// the beginning is logged.
const maxLogLine = 64 << 10

// pluginLog puts the lines that a process writes into the host's log: each with
// its level, and its attributes in the group "plugin" beside those that tell the
// process. Lines may be anything.
type pluginLog struct {
	log        *slog.Logger
	version    string
	generation int
	pid        atomic.Int64
}

// forward logs the lines of r until it ends, or fails.
func (l *pluginLog) forward(r io.Reader) {
	lines := bufio.NewReaderSize(r, maxLogLine)
	plain := slog.LevelInfo
	for {
		line, more, err := lines.ReadLine()
		if err != nil {
			return
		}
		if bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: ")) {
			plain = slog.LevelError // so is the stack that follows
		}
		l.line(line, plain)
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
	}
}

// writer returns a writer of lines of text.
func (l *pluginLog) writer() io.Writer {
	return &lineWriter{emit: func(line []byte) { l.line(line, slog.LevelInfo) }}
}

// line logs one line, at the given level if it has none of its own.
func (l *pluginLog) line(line []byte, plain slog.Level) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil || fields == nil {
		l.write(plain, string(line), nil)
		return
	}
	message := take(fields, "@message", slog.MessageKey)
	level := levelOf(take(fields, "@level", slog.LevelKey))
	take(fields, "@timestamp", slog.TimeKey)
	l.write(level, message, fields)
}

func (l *pluginLog) write(level slog.Level, message string, fields map[string]any) {
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) {
		return
	}
	attrs := l.process()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		attrs = append(attrs, slog.Any(name, fields[name]))
	}
	record := slog.NewRecord(time.Now(), level, message, 0)
	record.AddAttrs(slog.Group("plugin", attrs...))
	_ = l.log.Handler().Handle(ctx, record)
}

// process returns the attributes that tell which process it is.
func (l *pluginLog) process() []any {
	return []any{
		slog.String("version", l.version),
		slog.Int("generation", l.generation),
		slog.Int64("pid", l.pid.Load()),
	}
}

// take removes the fields of these names and returns the first text among them.
func take(fields map[string]any, names ...string) string {
	var found string
	for _, name := range names {
		if text, ok := fields[name].(string); ok {
			if found == "" {
				found = text
			}
			delete(fields, name)
		}
	}
	return found
}

func levelOf(name string) slog.Level {
	switch strings.ToLower(name) {
	case "trace", "debug":
		return slog.LevelDebug
	case "warn", "warning":
		return slog.LevelWarn
	case "error", "fatal":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// lineWriter gathers lines out of what is written to it. A line without an end
// is logged when it is too long.
type lineWriter struct {
	emit func(line []byte)
	rest []byte
}

// Write takes a piece of text.
func (w *lineWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		line, rest, found := bytes.Cut(w.rest, []byte("\n"))
		if !found && len(w.rest) < maxLogLine {
			return len(p), nil
		}
		w.emit(line)
		w.rest = rest
	}
}

// libraryLogger is go-plugin's own: what it has to say is for debugging, since
// it returns its errors as well.
func libraryLogger(log *slog.Logger) hclog.Logger {
	if !log.Enabled(context.Background(), slog.LevelDebug) {
		return hclog.NewNullLogger()
	}
	emit := func(line []byte) {
		log.Debug("go-plugin", "line", string(line))
	}
	return hclog.New(&hclog.LoggerOptions{
		Output: &lineWriter{emit: emit}, Level: hclog.Debug, DisableTime: true,
	})
}
