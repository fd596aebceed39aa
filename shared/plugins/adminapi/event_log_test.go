package adminapi

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/plugins/manager"
)

func openLog(t *testing.T, path string, limit int64) *EventLog {
	t.Helper()
	l, err := openEventLog(path, limit, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // some tests close it themselves
	return l
}

func event(n int) manager.Event {
	return manager.Event{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Type: manager.EventSwitched,
		Version: "1.2.3", From: "1.0.0", Generation: n, PID: 42,
	}
}

// generations returns the generations of the last n events, by which the tests
// identify events.
func generations(t *testing.T, l *EventLog, n int) []int {
	t.Helper()
	events, err := l.Recent(n)
	if err != nil {
		t.Fatal(err)
	}
	got := []int{}
	for _, e := range events {
		got = append(got, e.Generation)
	}
	return got
}

func TestEventLog_SurvivesItsHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin-events.ndjson")
	for n := 1; n <= 3; n++ { // each as a new host
		l := openLog(t, path, maxEventLog)
		l.Append(event(n))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	l := openLog(t, path, maxEventLog)
	if got := fmt.Sprint(generations(t, l, 10)); got != "[3 2 1]" {
		t.Errorf("all events: got %s, want [3 2 1]", got)
	}
	if got := fmt.Sprint(generations(t, l, 2)); got != "[3 2]" {
		t.Errorf("the last two events: got %s, want [3 2]", got)
	}
	if all, _ := l.Recent(1); all[0] != event(3) {
		t.Errorf("got event %+v, want %+v", all[0], event(3))
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got file %v (%v), want mode 0600", info, err)
	}
}

func TestEventLog_LineCutByCrashDamagesNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin-events.ndjson")
	whole := `{"time":"2026-01-02T03:04:05Z","kind":"lost","generation":1}` + "\n"
	for name, rest := range map[string]string{
		"half a line": `{"time":"2026-01-02T03:0`, "zeros": "\x00\x00\x00", "no event": "{}\n\n[]\n", "nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(whole+rest), 0o600); err != nil {
				t.Fatal(err)
			}
			l := openLog(t, path, maxEventLog)
			l.Append(event(2))
			if got := fmt.Sprint(generations(t, l, 10)); got != "[2 1]" {
				t.Errorf("got events %s, want [2 1]", got)
			}
		})
	}
}

func TestEventLog_TakesTwoFilesAtMost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin-events.ndjson")
	const events, limit = 100, 1000
	l := openLog(t, path, limit)
	for n := 1; n <= events; n++ {
		l.Append(event(n))
		if n == events/2 { // a restart of the host makes no difference
			_ = l.Close()
			l = openLog(t, path, limit)
		}
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != 2 {
		t.Fatalf("got files %v (%v), want two", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > limit || info.Size() == 0 {
			t.Errorf("%s: got %d bytes (%v), want 1 to %d", f, info.Size(), err, limit)
		}
	}
	got := generations(t, l, events)
	if len(got) < 6 || len(got) > 20 {
		t.Errorf("got %d events, want 6 to 20", len(got))
	}
	for i, n := range got {
		if n != events-i {
			t.Fatalf("got events %v, want the latest ones without a gap", got)
		}
	}
}

func TestEventLog_LongReasonIsCutBetweenCharacters(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "plugin-events.ndjson"), maxEventLog)
	e := event(1)
	e.Reason = "x" + strings.Repeat("é", maxReason)
	l.Append(e)
	got, err := l.Recent(1)
	if err != nil || len(got) != 1 || len(got[0].Reason) > maxReason+len("…") ||
		!utf8.ValidString(got[0].Reason) || strings.ContainsRune(got[0].Reason, utf8.RuneError) {
		t.Errorf("got %d events (%v), want one with a short valid reason", len(got), err)
	}
}

func TestEventLog_StoresEventsOfConcurrentCallers(t *testing.T) {
	l := openLog(t, filepath.Join(t.TempDir(), "plugin-events.ndjson"), maxEventLog)
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() { l.Append(event(n)) })
	}
	all.Wait()
	if got := generations(t, l, 100); len(got) != 8 {
		t.Errorf("got events %v, want 8", got)
	}
}

func TestOpenEventLog_FolderIsAnError(t *testing.T) {
	if _, err := OpenEventLog(t.TempDir(), nil); err == nil {
		t.Error("got no error, want one")
	}
}
