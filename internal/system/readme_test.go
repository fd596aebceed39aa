package system

import (
	"os"
	"strings"
	"testing"
)

// What the README shows of other files is what stands in them.
func TestTheREADMEShowsWhatThereIs(t *testing.T) {
	read := func(path string) string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	readme := read("../../README.md")
	if !strings.Contains(readme, "```toml\n"+read("../../plugin/settings.toml")+"```") {
		t.Error("the settings in the README are not those of plugin/settings.toml")
	}
	for line := range strings.Lines(read("../../shared/pluginmanager/example_test.go")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "package ") || strings.HasPrefix(line, "//") ||
			strings.HasPrefix(line, "func Example") || strings.HasPrefix(line, "serve := func") || line == "_ = serve" {
			continue
		}
		if !strings.Contains(readme, line) {
			t.Errorf("the README's example lacks %q", line)
		}
	}
}
