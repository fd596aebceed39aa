package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cms-personal/personal/shared/durable"
)

func TestLines_ReadReturnsBothFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.ndjson")
	if err := os.WriteFile(path, []byte("cut sho"), 0o600); err != nil { // as after a crash
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
	for _, want := range []string{"cut sho\none\ntwo\nthree\n", "three\nfour\nfive\nsix\n"} {
		if got, err := lines.Read(); err != nil || string(got) != want {
			t.Errorf("got %q (%v), want %q", got, err, want)
		}
		for _, line := range []string{"four", "five", "six"} {
			if err := lines.Append([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
