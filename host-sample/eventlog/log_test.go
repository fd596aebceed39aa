package eventlog

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

func openLog(t *testing.T) *Log {
	t.Helper()
	return openSmallLog(t, filepath.Join(t.TempDir(), "events.ndjson"), fileLimit)
}

func openSmallLog(t *testing.T, path string, limit int64) *Log {
	t.Helper()
	l, err := open(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // some tests close it themselves
	return l
}

// add appends events whose ids are numbers.
func add(t *testing.T, l *Log, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		e := personal.Event{ID: strconv.Itoa(i), Type: personal.EventSignedIn, Time: time.Unix(int64(i), 0).UTC(), UserID: 42}
		if err := l.Append(e); err != nil {
			t.Fatal(err)
		}
	}
}

// read reads n events, all of them if n is negative, and the position after.
func read(t *testing.T, l *Log, from Position, n int) ([]string, Position) {
	t.Helper()
	r, err := l.Read(from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var ids []string
	for n < 0 || len(ids) < n {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	return ids, r.Position()
}

// down lists numbers from one down to another.
func down(from, to int) []string {
	var ids []string
	for i := from; i >= to; i-- {
		ids = append(ids, strconv.Itoa(i))
	}
	return ids
}

func TestEventsAreReadFromTheNewestBackPageByPage(t *testing.T) {
	l := openLog(t)
	if ids, _ := read(t, l, End(), -1); ids != nil {
		t.Errorf("an empty log has %v", ids)
	}
	add(t, l, 1, 2500) // several blocks
	var all []string
	at := End()
	for range 30 {
		var page []string
		page, at = read(t, l, at, 100)
		all = append(all, page...)
		if len(page) == 0 {
			break
		}
		add(t, l, 3000, 3000) // what comes meanwhile belongs to an earlier page
	}
	if !slices.Equal(all, down(2500, 1)) {
		t.Errorf("%d events, want 2500 from the newest back", len(all))
	}
}

func TestAFullFileIsPutAsideAndOneIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.ndjson")
	l := openSmallLog(t, path, 1000)
	add(t, l, 1, 100)
	ids, _ := read(t, l, End(), -1)
	if len(ids) < 10 || len(ids) > 30 || !slices.Equal(ids, down(100, 101-len(ids))) {
		t.Errorf("%d events are left: %v", len(ids), ids)
	}
	for _, path := range []string{path, path + ".1"} {
		if info, err := os.Stat(path); err != nil || info.Size() > 1000 || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

func TestAPositionOutlivesTheChangeOfFiles(t *testing.T) {
	l := openSmallLog(t, filepath.Join(t.TempDir(), "events.ndjson"), 1000)
	add(t, l, 1, 8)
	_, at := read(t, l, End(), 3)
	add(t, l, 9, 14) // the first file is put aside
	if ids, _ := read(t, l, at, -1); !slices.Equal(ids, down(5, 1)) {
		t.Errorf("before 6 stand %v", ids)
	}
	add(t, l, 15, 40) // and is gone
	if ids, _ := read(t, l, at, -1); len(ids) > 20 {
		t.Errorf("before what is gone stand %v", ids)
	}
}

func TestLinesThatAreNoEventsArePassedOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.ndjson")
	good := `{"id":"1","type":"signed_in","time":"2026-01-02T03:04:05Z","user_id":42}`
	broken := "\n\nnonsense\n{}\n" + good + "\n" + strings.Repeat("x", 3<<20) + "\n" + good + "\n" + good[:20]
	if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	add(t, l, 2, 2) // does not become part of the line that was cut short
	if ids, _ := read(t, l, End(), -1); !slices.Equal(ids, []string{"2", "1", "1"}) {
		t.Errorf("read %v", ids)
	}
}

func TestMadeUpPositionsAreHarmless(t *testing.T) {
	l := openLog(t)
	add(t, l, 1, 5)
	for _, p := range []Position{{Before: 1 << 60}, {Before: -1}, {Before: 5, Older: 1 << 60}, {Before: 100, Older: -1 << 60}, {Before: 77}} {
		if ids, _ := read(t, l, p, -1); len(ids) > 5 {
			t.Errorf("%v: %v", p, ids)
		}
	}
}

func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	l := openLog(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(personal.Event{ID: "1", Type: personal.EventSignedIn}); err == nil {
		t.Error("an event that was not written counts as kept")
	}
}
