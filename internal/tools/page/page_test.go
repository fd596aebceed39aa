package page

import (
	"strings"
	"testing"
)

func TestReplace_NeedsMarkers(t *testing.T) {
	page := "a\n<!-- generated: flags -->\nold\n<!-- end -->\nb\n"
	got, err := replace([]byte(page), "flags", "new\n")
	if want := strings.Replace(page, "old", "new", 1); err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if got, err := replace([]byte(page), "settings", "new\n"); err == nil {
		t.Errorf("got %q for a page without the part, want an error", got)
	}
}
