package durable_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cms-personal/personal/shared/durable"
)

func TestPartsStayAsTheyAreWhileTheFilesChangePlaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.ndjson")
	if err := os.WriteFile(path, []byte("cut sho"), 0o600); err != nil { // by a crash
		t.Fatal(err)
	}
	lines, err := durable.OpenLines(path, 16)
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	for _, line := range []string{"one", "two", "three"} {
		if err := lines.Append([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	older, newer, err := lines.Parts()
	if err != nil {
		t.Fatal(err)
	}
	defer older.Close()
	defer newer.Close()
	for i := range 20 {
		if err := lines.Append(fmt.Append(nil, "later ", i)); err != nil {
			t.Fatal(err)
		}
	}
	for want, part := range map[string]durable.Part{"cut sho\none\ntwo\n": older, "three\n": newer} {
		if got, err := io.ReadAll(part); err != nil || string(got) != want {
			t.Errorf("a part holds %q, %v; want %q", got, err, want)
		}
	}
}
