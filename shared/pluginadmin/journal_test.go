package pluginadmin

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

	"github.com/cms-personal/personal/shared/pluginmanager"
)

func openTestJournal(t *testing.T, path string) *EventLog {
	t.Helper()
	return openSmallJournal(t, path, journalLimit)
}

func openSmallJournal(t *testing.T, path string, limit int64) *EventLog {
	t.Helper()
	j, err := openJournal(path, limit, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() }) // some tests close it themselves
	return j
}

func record(n int) pluginmanager.Event {
	return pluginmanager.Event{
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Type: pluginmanager.EventSwitched,
		Version: "1.2.3", From: "1.0.0", Generation: n, PID: 42,
	}
}

// generations returns those of the last n records, which tell test records apart.
func generations(t *testing.T, j *EventLog, n int) []int {
	t.Helper()
	records, err := j.Recent(n)
	if err != nil {
		t.Fatal(err)
	}
	got := []int{}
	for _, r := range records {
		got = append(got, r.Generation)
	}
	return got
}

func TestAJournalOutlivesItsHost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin-events.ndjson")
	for n := 1; n <= 3; n++ { // each in a host's life of its own
		j := openTestJournal(t, path)
		j.Record(record(n))
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	j := openTestJournal(t, path)
	if got := fmt.Sprint(generations(t, j, 10)); got != "[3 2 1]" {
		t.Errorf("records are %s, want the newest first", got)
	}
	if got := fmt.Sprint(generations(t, j, 2)); got != "[3 2]" {
		t.Errorf("the last two are %s", got)
	}
	if all, _ := j.Recent(1); all[0] != record(3) {
		t.Errorf("the record is %+v", all[0])
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
}

func TestALineCutShortByACrashSpoilsNoOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin-events.ndjson")
	whole := `{"time":"2026-01-02T03:04:05Z","kind":"lost","generation":1}` + "\n"
	for name, rest := range map[string]string{
		"half a line": `{"time":"2026-01-02T03:0`, "zeros": "\x00\x00\x00", "no record": "{}\n\n[]\n", "nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(whole+rest), 0o600); err != nil {
				t.Fatal(err)
			}
			j := openTestJournal(t, path)
			j.Record(record(2))
			if got := fmt.Sprint(generations(t, j, 10)); got != "[2 1]" {
				t.Errorf("records are %s", got)
			}
		})
	}
}

func TestAJournalDoesNotGrowBeyondTwoFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plugin-events.ndjson")
	const records = 100
	j := openSmallJournal(t, path, 1000)
	for n := 1; n <= records; n++ {
		j.Record(record(n))
		if n == records/2 { // a host's restart changes nothing
			_ = j.Close()
			j = openSmallJournal(t, path, 1000)
		}
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != 2 {
		t.Fatalf("files are %v, %v", files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > 1000 || info.Size() == 0 {
			t.Errorf("%s: %v, %v", f, info.Size(), err)
		}
	}
	got := generations(t, j, records)
	if len(got) < 6 || len(got) > 20 {
		t.Errorf("%d records are left", len(got))
	}
	for i, n := range got { // the newest ones, without a gap
		if n != records-i {
			t.Fatalf("records are %v", got)
		}
	}
}

func TestALongReasonIsCutAtACharacter(t *testing.T) {
	j := openTestJournal(t, filepath.Join(t.TempDir(), "plugin-events.ndjson"))
	r := record(1)
	r.Reason = "x" + strings.Repeat("é", reasonLimit)
	j.Record(r)
	got, err := j.Recent(1)
	if err != nil || len(got) != 1 || len(got[0].Reason) > reasonLimit+len("…") ||
		!utf8.ValidString(got[0].Reason) || strings.ContainsRune(got[0].Reason, utf8.RuneError) {
		t.Errorf("%d records, %v", len(got), err)
	}
}

func TestRecordsOfManyGoroutinesAreAllKept(t *testing.T) {
	j := openTestJournal(t, filepath.Join(t.TempDir(), "plugin-events.ndjson"))
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() { j.Record(record(n)) })
	}
	all.Wait()
	if got := generations(t, j, 100); len(got) != 8 {
		t.Errorf("records are %v", got)
	}
}

func TestAJournalThatIsAFolderIsNotOpened(t *testing.T) {
	if _, err := OpenEventLog(t.TempDir(), nil); err == nil {
		t.Error("it was")
	}
}
