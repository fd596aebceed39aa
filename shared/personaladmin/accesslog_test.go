package personaladmin

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestAccessLog_RefusalsAreLimitedPerMinute(t *testing.T) {
	var log bytes.Buffer
	access := NewAccessLog(slog.New(slog.NewTextHandler(&log, nil)))
	now := time.Unix(1_000_000, 0)
	access.now = func() time.Time { return now }
	r := httptest.NewRequest("GET", "/"+strings.Repeat("x", 1000), nil)
	refuse := func(n int) (entries, length int) {
		log.Reset()
		for range n {
			access.Refused(r, "a reason")
		}
		return strings.Count(log.String(), "\n"), log.Len()
	}

	if entries, length := refuse(1000); entries != maxRefusals || length > 200*entries || strings.Contains(log.String(), "left_out") {
		t.Errorf("1000 refusals: got %d entries in %d bytes, want %d short ones without left_out:\n%s", entries, length, maxRefusals, &log)
	}
	now = now.Add(time.Minute - 1)
	if entries, _ := refuse(1); entries != 0 {
		t.Errorf("a refusal within the same minute: got %d entries, want none:\n%s", entries, &log)
	}
	access.Granted(r, "administrator signed in")
	if log.Len() == 0 {
		t.Error("a sign-in after many refusals: got no entry, want one")
	}
	now = now.Add(1)
	if entries, _ := refuse(1); entries != 1 || !strings.Contains(log.String(), "left_out=991\n") {
		t.Errorf("the first refusal of the next minute: got %q, want one entry with left_out=991", &log)
	}
	if entries, _ := refuse(1); entries != 1 || strings.Contains(log.String(), "left_out") {
		t.Errorf("the second refusal of the next minute: got %q, want one entry without left_out", &log)
	}
}
