package adminentry

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestAFloodOfRefusalsFillsNoLog(t *testing.T) {
	var log bytes.Buffer
	rec := NewRecord(slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Unix(1_000_000, 0)
	rec.now = func() time.Time { return now }
	r := httptest.NewRequest("GET", "/"+strings.Repeat("x", 1000), nil)
	refuse := func(n int) (lines, length int) {
		log.Reset()
		for range n {
			rec.Refused(r, "a reason")
		}
		return strings.Count(log.String(), "\n"), log.Len()
	}

	if lines, length := refuse(1000); lines != refusalsAMinute || length > 200*lines || strings.Contains(log.String(), "left_out") {
		t.Errorf("1000 refusals are told in %d lines, %d bytes:\n%s", lines, length, &log)
	}
	now = now.Add(time.Minute - 1)
	if lines, _ := refuse(1); lines != 0 {
		t.Errorf("within the minute another is told:\n%s", &log)
	}
	rec.Granted(r, "an administrator has entered")
	if log.Len() == 0 {
		t.Error("who has entered is left out too")
	}
	now = now.Add(1)
	if lines, _ := refuse(1); lines != 1 || !strings.Contains(log.String(), "left_out=991\n") {
		t.Errorf("the next minute begins with:\n%s", &log)
	}
	if lines, _ := refuse(1); lines != 1 || strings.Contains(log.String(), "left_out") {
		t.Errorf("what was left out is told twice:\n%s", &log)
	}
}
