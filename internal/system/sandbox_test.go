package system

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
)

// TestDocs_CommandsRun runs the blocks of commands that have no mark, of the pages in
// stages, in a sandbox: a folder that looks like a clone of the repository after make
// build, with a running host in its folder data. It compares what commands print with the
// page. The sandbox does not protect the machine: blocks of other pages need a mark.
func TestDocs_CommandsRun(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "curl", "--json", "", "--version").Run(); err != nil {
		t.Skip("needs curl 7.82 or newer: ", err)
	}
	for page, text := range pages(t) {
		blocks := commandBlocks(t, page, text)
		blocks = slices.DeleteFunc(blocks, func(b commandBlock) bool { return b.runner != "" || b.reason != "" })
		if len(blocks) == 0 {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			prepare, ok := stages[page]
			if !ok {
				t.Fatalf("%s has no mark, and the page is not in stages (sandbox_test.go):\n%s", blocks[0], howToMark)
			}
			s := newSandbox(t)
			prepare(t, s)
			for _, b := range blocks {
				s.play(t, b)
			}
		})
	}
}

// stages are the pages that run in sandboxes, and prepare those.
var stages = map[string]func(t *testing.T, s *sandbox){
	"docs/plugin-versions.md": func(_ *testing.T, s *sandbox) {
		s.stopped = true // the page starts its host itself
	},
	"README.md":            func(_ *testing.T, s *sandbox) { s.stopped = true },
	"docs/own-language.md": func(_ *testing.T, s *sandbox) { s.stopped = true },
	"docs/import-export.md": func(t *testing.T, s *sandbox) {
		s.host(t)
		s.write(t, "users.csv", s.shown(t, "docs/import-export.md", "cat users.csv"))
		s.system.register(t, "anna")
	},
	"docs/mails.md": func(t *testing.T, s *sandbox) {
		mails := filepath.Join(s.dir, "mails")
		if err := os.Mkdir(mails, 0o700); err != nil {
			t.Fatal(err)
		}
		s.settings = fmt.Sprintf("\n[mail]\ntemplates = %q\n", mails)
	},
	"docs/roles.md": func(t *testing.T, s *sandbox) {
		s.host(t).register(t, "boris") // user 1 is the administrator of docs/admin-pages.md
		s.system.register(t, "anna")
		s.write(t, "data/user-fields.json", readFile(t, filepath.Join(repository, "docs/examples/chi/user-fields.json")))
	},
	"docs/two-factor.md":    func(t *testing.T, s *sandbox) { s.host(t) },
	"docs/helping-users.md": lockOut,
	"docs/operations.md":    func(t *testing.T, s *sandbox) { s.host(t).register(t, "anna") },
	"docs/user-fields.md":   func(t *testing.T, s *sandbox) { s.host(t) },
	"docs/observing.md":     func(t *testing.T, s *sandbox) { s.host(t) },
	"docs/events.md": func(t *testing.T, s *sandbox) {
		anna := s.host(t).register(t, "anna")
		s.system.post(t, "auth/", params{"login": anna.login, "password": anna.password}).want(t, "")
		s.system.post(t, "auth/", params{"login": anna.login, "password": "wrong"}).want(t, "invalid_credentials")
		eventually(t, "the failed sign-in is in the audit log", func() bool { return s.system.events(t, "sign_in_failed", anna.ID) == 1 })
	},
}

// lockOut registers boris and uses up the attempts at his login.
func lockOut(t *testing.T, s *sandbox) {
	s.settings = unverified // so that no mail about the registration counts
	boris := s.host(t).register(t, "boris")
	for s.system.post(t, "auth/", params{"login": boris.login, "password": "wrong"}).Result.Code == "invalid_credentials" {
	}
	s.system.awaitJobs(t)
}

// sandbox is a folder in which commands of the documentation run.
type sandbox struct {
	dir      string
	stopped  bool     // no host runs until a command starts it
	settings string   // of the plugin, beside those of every host
	system   *system  // the running host, if any
	version  string   // of the plugin where pages have shownVersion; empty: the same
	set      []string // commands so far that assign variables or change the folder
}

// newSandbox makes a folder with links to all that is in the repository except what the
// commands write: data, bin and dist.
func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch e.Name() {
		case "data", "bin", "dist", ".git":
			continue
		}
		if err := os.Symlink(filepath.Join(root, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Dir(testkit.Binaries(t).Host), filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	s := &sandbox{dir: dir}
	s.write(t, ".curlrc", "silent\nshow-error\n") // as on a terminal, without the progress
	return s
}

func (s *sandbox) write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, file), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shown returns what a page shows as the output of a command.
func (s *sandbox) shown(t *testing.T, page, command string) string {
	t.Helper()
	for _, b := range commandBlocks(t, page, readFile(t, filepath.Join(repository, page))) {
		for _, c := range b.commands() {
			if strings.TrimSpace(c.command) == command {
				return c.output
			}
		}
	}
	t.Fatalf("%s has no command %q", page, command)
	return ""
}

// host returns the host of the sandbox. It starts one on a new database if none runs.
func (s *sandbox) host(t *testing.T) *system {
	t.Helper()
	if s.system == nil {
		data := filepath.Join(s.dir, "data")
		s.system = start(t, options{
			database: "sqlite://" + filepath.Join(data, "personal.db"), settings: cheap + s.settings, data: data,
		})
		s.version = s.system.plugin(t).Active.Version
	}
	return s.system
}

// step is a command and what the page shows as its output.
type step struct{ command, output string }

// commands returns the commands of a block: in a block of type console those after $,
// which continue while lines end with \; else the whole block, without output.
func (b commandBlock) commands() []step {
	if b.kind == "sh" {
		return []step{{command: b.text}}
	}
	var steps []step
	open := false // the previous line is continued
	for line := range strings.Lines(b.text) {
		switch {
		case open:
			steps[len(steps)-1].command += line
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, step{command: strings.TrimPrefix(line, "$ ")})
		case len(steps) > 0:
			steps[len(steps)-1].output += line
			continue
		}
		open = strings.HasSuffix(line, "\\\n")
	}
	return steps
}

const makeRun = "make run\n"

// startsHost matches a command that starts the host, which then runs until the next one, or
// until the page ends.
var startsHost = regexp.MustCompile(`(?m)^(?:bin/host-sample serve\b.*|make run)\n`)

// keeps matches what later commands of the page rely on.
var keeps = regexp.MustCompile(`(?m)^(?:(?:export )?[A-Z_]+=\S*(?: *#.*)?|cd .*)$`)

// play runs the commands of a block. Each must succeed, and those of a block of type
// console must print what the page shows, see [pattern].
func (s *sandbox) play(t *testing.T, b commandBlock) {
	t.Helper()
	for _, c := range b.commands() {
		script := c.command
		if at := startsHost.FindStringIndex(script); at != nil {
			s.run(t, b, step{command: script[:at[0]]})
			s.serve(t, script[at[0]:at[1]])
			if c.output != "" {
				eventually(t, fmt.Sprintf("%s: the host prints what the page shows:\n%s", b, c.output), func() bool {
					return pattern(c.output).MatchString(s.printed())
				})
			}
			script = script[at[1]:]
		}
		s.run(t, b, step{command: script, output: c.output})
	}
}

var downloading = regexp.MustCompile(`(?m)^go: downloading .*\n`) // of a cold cache

func (s *sandbox) run(t *testing.T, b commandBlock, c step) {
	t.Helper()
	if strings.TrimSpace(c.command) == "" {
		return
	}
	if s.system == nil && !s.stopped {
		s.host(t)
	}
	began := time.Now()
	script := c.command
	if b.kind == "sh" {
		script = "set -e -o pipefail\n" + script
	}
	cmd := s.bash(t, script)
	printed, err := cmd.CombinedOutput()
	s.set = append(s.set, keeps.FindAllString(c.command, -1)...)
	got := downloading.ReplaceAllString(strings.ReplaceAll(string(printed), "\r", ""), "")
	if s.system != nil {
		got = s.asShown(got)
	}
	t.Logf("%s: %s(%v)", b, c.command, time.Since(began).Round(time.Millisecond))
	if err != nil {
		t.Fatalf("%s: %v\n%s%s\nshow the exit code of a command that fails with ; echo exit $?\n%s", b, err, c.command, got, howToMark)
	}
	if b.kind == "console" && !pattern(c.output).MatchString(got) {
		t.Fatalf("%s: the command prints something else than the page shows\n$ %s--- printed:\n%s--- shown:\n%s%s",
			b, c.command, got, c.output, howToMark)
	}
}

// bash returns a command that runs a script in the sandbox. The page's address is that of
// the running host.
func (s *sandbox) bash(t *testing.T, script string) *exec.Cmd {
	script = strings.Join(s.set, "\n") + "\n" + script
	if s.system != nil {
		script = strings.NewReplacer(tourAddress, s.system.url, tourName, named(s.system.url), shownVersion,
			cmp.Or(s.version, shownVersion)).Replace(script)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = s.dir
	cmd.WaitDelay = patience
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { // of the make and the tests that run this one, and of the developer's own servers
		return slices.ContainsFunc([]string{"MAKE", "MFLAGS", "PERSONAL_", "PG", "OTEL_"}, func(prefix string) bool {
			return strings.HasPrefix(variable, prefix)
		})
	})
	cmd.Env = append(cmd.Env, "PERSONAL_ADDR=127.0.0.1:0", "CURL_HOME="+s.dir, goFlags)
	return cmd
}

// serve starts the host by a command of the page, after the end of the one that runs.
func (s *sandbox) serve(t *testing.T, command string) {
	t.Helper()
	if s.system != nil {
		s.system.stop(t)
	}
	page := command
	if command == makeRun { // it builds first what make test has built already
		plan, err := s.bash(t, "diff <(make --dry-run build) <(make --dry-run run) | grep '^<'").CombinedOutput()
		if len(plan) > 0 {
			t.Fatalf("make run does not build all programs first: %v\n%s", err, plan)
		}
		command = "make --old-file=build run"
	}
	running := &system{data: filepath.Join(s.dir, "data"), log: &journal{}, ended: make(chan struct{}), client: newClient()}
	cmd := s.bash(t, "exec "+command)
	cmd.Cancel = func() error { return nil } // finish stops it
	cmd.WaitDelay = 2 * patience
	if page == makeRun { // pages show what it prints to a terminal
		reader, program := terminal(t)
		cmd.Stdout = program
		go func() {
			for lines := bufio.NewScanner(reader); lines.Scan(); { // ends when the terminal is closed
				_, _ = fmt.Fprintln(running.log, lines.Text())
			}
		}()
	}
	running.begin(t, cmd)
	running.awaitURL(t, options{})
	eventually(t, "/readyz responds with 200", func() bool { return running.status("/readyz") == http.StatusOK })
	if page == makeRun { // the signals of this test are for the host
		var host struct{ PID int }
		if err := json.Unmarshal([]byte(readFile(t, filepath.Join(running.data, "host.json"))), &host); err != nil {
			t.Fatal(err)
		}
		process, err := os.FindProcess(host.PID)
		if err != nil {
			t.Fatal(err)
		}
		running.process = process
	}
	s.system = running
}

// printed returns what the host has printed except its log, with the page's address.
func (s *sandbox) printed() string {
	var text strings.Builder
	for line := range strings.Lines(s.system.log.String()) {
		if !strings.HasPrefix(line, "time=") {
			text.WriteString(s.asShown(line))
		}
	}
	return text.String()
}

// named returns the URL of a host as browsers are led to it.
func named(url string) string { return strings.Replace(url, "127.0.0.1", "localhost", 1) }

// shownVersion is the plugin's version on most pages.
const shownVersion = "1.2.3"

// asShown returns a text with the page's addresses and version in place of those of the host.
func (s *sandbox) asShown(text string) string {
	url := s.system.url
	return strings.NewReplacer(url, tourAddress, named(url), tourName, cmp.Or(s.version, shownVersion), shownVersion).Replace(text)
}

// masks match the parts of an output that differ from run to run.
var masks = regexp.MustCompile(strings.Join([]string{
	`(?P<any>…)`,
	`(?P<space>[ \t]+)`,
	`(?P<word>` + strings.Join([]string{
		`\b[0-9a-f]{64}\b`,                        // a sha256
		`[A-Za-z0-9_-]{43}`,                       // a session hash or a token
		`\b[A-Z2-7]{26}\b`,                        // a request id or a code
		`\b[0-9A-F]{16}\b`,                        // the id of a key
		`\d{4}-\d\d-\d\d[T ][0-9:.]+Z?`,           // a time
		`\b\d{4}-\d\d-\d\d\b`,                     // a day
		`<?\b[0-9.]+m?s\b`,                        // a duration
		`\blinux-amd64\b|/home/you/personal/data`, // of the author's machine
	}, "|") + `)`,
	`(?P<pid>(?:process |"pid":)\d+)`,
}, "|"))

// pattern returns a pattern for what a page shows: a … stands for any text, spaces for any
// number of spaces, and secrets, ids, digests, times, durations and process ids for others
// of the same kind.
func pattern(shown string) *regexp.Regexp {
	var p bytes.Buffer
	p.WriteString(`(?s)\A`)
	rest := 0
	for _, at := range masks.FindAllStringSubmatchIndex(shown, -1) {
		p.WriteString(regexp.QuoteMeta(shown[rest:at[0]]))
		rest = at[1]
		switch {
		case at[2] >= 0:
			p.WriteString(`.*`)
		case at[4] >= 0:
			p.WriteString(`[ \t]+`)
		case at[6] >= 0:
			p.WriteString(`[^\s"]+(?: [0-9:]+)?`)
		default:
			p.WriteString(`(?:process |"pid":)\d+`)
		}
	}
	p.WriteString(regexp.QuoteMeta(strings.TrimRight(shown[rest:], "\n")))
	p.WriteString(`\s*\z`)
	return regexp.MustCompile(p.String())
}

// register registers an account with this login.
func (s *system) register(t testing.TB, login string) user {
	t.Helper()
	u := user{login: login, email: login + "@example.com", password: "correct horse"}
	u.pair = s.post(t, "register/", params{"login": u.login, "email": u.email, "password": u.password, "confirm_password": u.password}).pair(t)
	return u
}
