package system

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/internal/testkit"
)

const (
	tourPath    = "../../docs/api-tour.md"
	tourAddress = "http://127.0.0.1:8080" // of the host on the page
	tourName    = "http://localhost:8080" // to which it leads browsers
)

// TestTour_OutputIsReal runs the commands of docs/api-tour.md against a new
// sample host and compares what they print with the page. Hashes, tokens, times
// and request ids may differ. After an intended change:
//
//	go test ./internal/system -run TestTour -update
func TestTour_OutputIsReal(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "curl", "--json", "", "--version").Run(); err != nil {
		t.Skip("needs curl 7.82 or newer: ", err)
	}
	s := start(t, options{database: testkit.SQLite(t)})
	dir := t.TempDir()
	if err := os.Symlink(s.data, filepath.Join(dir, "data")); err != nil {
		t.Fatal(err)
	}
	page := readFile(t, tourPath)
	got := (&tour{url: s.url, dir: dir}).play(t, page)
	if *update {
		if err := os.WriteFile(tourPath, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(maskTour(page), "\n"), strings.Split(maskTour(got), "\n")); diff != "" {
		t.Errorf("%s differs from what the commands print (-page +got):\n%s", tourPath, diff)
	}
}

// secretText is a hash or a token.
var secretText = regexp.MustCompile(`[A-Za-z0-9_-]{43}`)

var tourMasks = []struct {
	pattern *regexp.Regexp
	mask    string
}{
	{secretText, "SECRET"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`(?m)^Date: .*$`), "Date: TIME"},
	{regexp.MustCompile(`(?m)^X-Request-Id: .*$`), "X-Request-Id: ID"},
	{regexp.MustCompile(`curl/[0-9.]+`), "curl/VERSION"},
}

func maskTour(text string) string {
	for _, m := range tourMasks {
		text = m.pattern.ReplaceAllString(text, m.mask)
	}
	return text
}

// tour runs the commands of a page.
type tour struct {
	url, dir string   // of the host; the working folder
	set      []string // assignments of shell variables so far
	secret   string   // the first one that a command has printed last
	mailed   string   // printed last from a mail
}

// play returns the page with the outputs of its commands. A command begins with
// "$ " in a block of type console and continues while its lines end with \. A block
// with a mark (commands_test.go) that names another runner is not played.
func (p *tour) play(t *testing.T, page string) string {
	var out, command strings.Builder
	inBlock, previous := false, ""
	for line := range strings.Lines(page) {
		switch {
		case strings.HasPrefix(line, "```"):
			other := mark.FindStringSubmatch(previous)
			inBlock = line == "```console\n" && (other == nil || other[2] == t.Name())
			out.WriteString(line)
		case !inBlock:
			out.WriteString(line)
		case command.Len() > 0 || strings.HasPrefix(line, "$ "):
			if p.secret != "" { // a secret in a command is the first of those printed last
				line = secretText.ReplaceAllString(line, p.secret)
			}
			out.WriteString(line)
			command.WriteString(strings.TrimPrefix(line, "$ "))
			if !strings.HasSuffix(line, "\\\n") {
				out.WriteString(p.run(t, command.String()))
				command.Reset()
			}
		}
		previous = line
	}
	return out.String()
}

var assignment = regexp.MustCompile(`\A[A-Z]+=\S*\n\z`)

// run returns what a command prints. Mails arrive late: a command that reads them
// is repeated until it prints something else than that of the previous mail.
func (p *tour) run(t *testing.T, command string) string {
	t.Helper()
	if assignment.MatchString(command) {
		p.set = append(p.set, command)
		return ""
	}
	script := strings.ReplaceAll(strings.Join(p.set, "")+command, tourAddress, p.url)
	var printed string
	eventually(t, "output of "+command, func() bool {
		printed = p.bash(t, script)
		return !strings.Contains(command, "data/mail") || printed != "" && printed != p.mailed
	})
	if strings.Contains(command, "data/mail") {
		p.mailed = printed
	}
	if found := secretText.FindAllString(printed, -1); found != nil {
		p.secret = found[0]
	}
	printed = strings.ReplaceAll(strings.ReplaceAll(printed, "\r", ""), p.url, tourAddress)
	if printed != "" && !strings.HasSuffix(printed, "\n") {
		printed += "\n"
	}
	return printed
}

func (p *tour) bash(t *testing.T, script string) string {
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = p.dir
	cmd.WaitDelay = patience
	var stderr strings.Builder
	cmd.Stderr = &stderr
	printed, err := cmd.Output()
	if err != nil && !strings.Contains(script, "data/mail") {
		t.Fatal(fmt.Errorf("%s%w: %s", script, err, &stderr))
	}
	return string(printed)
}
