package process

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"
)

// maxLogLine is the maximum length of a logged line in bytes; a longer line is cut.
const maxLogLine = 64 << 10

// logForwarder writes the lines of a process to the host's log: each with its
// level, and its attributes in the group "plugin" after those that name the
// process. It accepts any input.
type logForwarder struct {
	log        *slog.Logger
	version    string
	generation int
	pid        atomic.Int64
}

// logger returns a logger whose entries name the process.
func (l *logForwarder) logger() *slog.Logger {
	return l.log.With(slog.Group("plugin", l.process()...))
}

// forward logs the lines of r until it ends or fails.
func (l *logForwarder) forward(r io.Reader) {
	lines := bufio.NewReaderSize(r, maxLogLine)
	plain := slog.LevelInfo
	for {
		line, more, err := lines.ReadLine()
		if err != nil {
			return
		}
		if bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: ")) {
			plain = slog.LevelError // also for the stack that follows
		}
		l.line(line, plain)
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
	}
}

// line logs one line, at the given level if it is not JSON.
func (l *logForwarder) line(line []byte, plain slog.Level) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	level, message := plain, string(line)
	var fields map[string]any
	if json.Unmarshal(line, &fields) == nil && fields != nil {
		message = take(fields, "@message", slog.MessageKey)
		level = levelOf(take(fields, "@level", slog.LevelKey))
		take(fields, "@timestamp", slog.TimeKey)
	}
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) {
		return
	}
	attrs := l.process()
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		attrs = append(attrs, slog.Any(name, fields[name]))
	}
	entry := slog.NewRecord(time.Now(), level, message, 0)
	entry.AddAttrs(slog.Group("plugin", attrs...))
	_ = l.log.Handler().Handle(ctx, entry)
}

// process returns the attributes that name the process.
func (l *logForwarder) process() []any {
	return []any{
		slog.String("version", l.version),
		slog.Int("generation", l.generation),
		slog.Int64("pid", l.pid.Load()),
	}
}

// take removes the fields of these names and returns the first string among them.
func take(fields map[string]any, names ...string) string {
	var found string
	for _, name := range names {
		if text, ok := fields[name].(string); ok {
			found = cmp.Or(found, text)
			delete(fields, name)
		}
	}
	return found
}

// levelOf reads a level of slog or go-hclog; others are info.
func levelOf(name string) slog.Level {
	var level slog.Level
	if name == "trace" {
		return slog.LevelDebug
	}
	_ = level.UnmarshalText([]byte(name)) // which leaves info after an error
	return level
}

// plainText logs the lines of what is written to it. A line that comes in pieces is logged in pieces.
type plainText struct{ log *logForwarder }

// Write takes some lines.
func (t plainText) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		t.log.line(line, slog.LevelInfo)
	}
	return len(lines), nil
}
