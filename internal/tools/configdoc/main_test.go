package main

import (
	"os"
	"strings"
	"testing"
)

func TestFlagTable_JoinsWrappedHelp(t *testing.T) {
	help := `Usage: host-sample serve [flags]

Flags:
  -h, --help                      Show context-sensitive help.

      --addr=HOST:PORT            Where to listen
                                  (127.0.0.1:8080) ($PERSONAL_ADDR).
      --a-flag-with-a-long-name=LONGVALUE
                                  One or|the other.
                                  ($PERSONAL_A_FLAG_WITH_A_LONG_NAME).
`
	want := `| flag | meaning |
|---|---|
| ` + "`--addr=HOST:PORT`" + ` | Where to listen (127.0.0.1:8080). |
| ` + "`--a-flag-with-a-long-name=LONGVALUE`" + ` | One or\|the other. |
`
	got, err := flagTable(help)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got:\n%swant:\n%s", got, want)
	}
}

func TestFlagTable_RefusesOtherText(t *testing.T) {
	for name, help := range map[string]string{
		"no flags":                "Usage: host-sample\n",
		"no environment variable": "      --addr=HOST:PORT            Where to listen.\n",
		"another variable":        "      --addr=HOST:PORT            Where to listen ($PERSONAL_LISTEN).\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := flagTable(help); err == nil {
				t.Errorf("got %q, want an error", got)
			}
		})
	}
}

func TestSettingsBlocks_StandInPage(t *testing.T) {
	settings, err := os.ReadFile("../../../plugin/settings.toml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := settingsBlocks(string(settings))
	if !strings.Contains(string(page), blocks) {
		t.Error("docs/configuration.md does not show plugin/settings.toml as it is: run make generate")
	}
	for _, heading := range []string{"### sign_in\n", "### two_factor\n", "### throttle\n"} {
		if !strings.Contains(blocks, heading) {
			t.Errorf("the blocks lack the heading %q", heading)
		}
	}
	for line := range strings.Lines(string(settings[strings.Index(string(settings), "["):])) {
		if !strings.Contains(blocks, strings.TrimSpace(line)) {
			t.Errorf("the blocks lack the line %q", line)
		}
	}
}
