package cli

import (
	"strings"
	"testing"
)

func TestRun_PrintsHelpAndVersion(t *testing.T) {
	for args, want := range map[string]string{
		"":             "Run the CMS.",
		"--help":       "Run the CMS.",
		"--version":    "(devel)",
		"-V serve":     "(devel)",
		"serve --help": "PERSONAL_ADDR",
	} {
		code, stdout, stderr := runCommand(t, strings.Fields(args)...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("%q: got exit code %d, %q and on stderr %q, want 0 and %q", args, code, stdout, stderr, want)
		}
	}
}
