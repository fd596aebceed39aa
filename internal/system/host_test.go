package system

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/store/dbconn"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/openapitest"
	"github.com/cms-personal/personal/shared/plugins/catalogue"
)

// TestMain runs more tests at a time than there are CPUs, unless -parallel says
// otherwise: most of them wait for timeouts, mails and processes. BenchmarkHop runs the
// test binary as a plugin.
func TestMain(m *testing.M) {
	if os.Getenv(echoVariable) != "" {
		serveEcho()
		return
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "5"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	for _, i := range []*installation{&installed, &another} {
		_ = os.RemoveAll(i.data) // a rest does no harm
	}
	os.Exit(code)
}

// Settings of most tests: a password is hashed in about a millisecond, and attempts
// are not limited.
const (
	cheap       = "[password]\nmemory_kib = 1024\ntime = 1\n"
	unthrottled = "[throttle]\nenabled = false\n"
	unverified  = "[registration]\nemail_verification = \"off\"\n" // no mail follows a registration
	mailedLinks = "[recovery]\nurl = \"https://site.example/recover#token={token}\"\n" +
		"[email]\nurl = \"https://site.example/email#token={token}\"\n"
	links = mailedLinks +
		"[deletion]\nurl = \"https://site.example/keep#token={token}\"\n" +
		"[registration]\nurl = \"https://site.example/verify#token={token}\"\n"
)

// options say how to start a host.
type options struct {
	database string   // a URL
	settings string   // the plugin's, TOML
	flags    []string // beside those every test needs
	env      []string // NAME=value, likewise
	data     string   // the data folder; empty: a new one
	socket   *os.File // passed as systemd does; nil for none
	basePath string
	alwaysOK bool // the host was told to send status 200 only
}

// system is a running host with its plugin.
type system struct {
	url      string // of the host
	api      string // URL of the API, with a final slash
	data     string
	database string // its URL
	alwaysOK bool
	log      *journal // all output of the host and, through it, of the plugin
	process  *os.Process
	ended    chan struct{} // closed when the process has ended; exit is set by then
	exit     int
	client   *http.Client
	parsed   sync.Map                             // the stored mails by file, each a message
	document atomic.Pointer[openapitest.Document] // the API document that each response is checked against
}

var listening = regexp.MustCompile(`(?m)^listening on (http://\S+)$`)

// start starts a host and waits until its plugin serves. The host is stopped when
// the test ends.
func start(t testing.TB, o options) *system {
	t.Helper()
	s := launch(t, o)
	s.awaitURL(t, o)
	eventually(t, "/readyz responds with 200", func() bool { return s.status("/readyz") == http.StatusOK })
	return s
}

// awaitURL waits until the host prints where it listens.
func (s *system) awaitURL(t testing.TB, o options) {
	t.Helper()
	eventually(t, "the host prints where it listens", func() bool {
		select {
		case <-s.ended:
			t.Fatalf("the host ended with code %d", s.exit)
		default:
		}
		found := listening.FindStringSubmatch(s.log.String())
		if found == nil {
			return false
		}
		s.url = found[1]
		return true
	})
	s.api = s.url + o.basePath + "/api/v1/personal/"
}

// installation is a data folder with a plugin that is installed, active and staged. A host hashes
// and copies a plugin several times until it is at that point, so the data folders of tests share
// its binaries.
type installation struct {
	once    sync.Once
	data    string
	binary  string // of the catalogue, below data
	version string
	err     error
}

// The installations of this process, which TestMain removes.
var (
	installed installation // of the plugin under test
	another   installation // of testkit.AnotherBuild(t, 1)
)

func (i *installation) fill(plugin string) (err error) {
	if i.data, err = os.MkdirTemp("", "personal-installed-"); err != nil {
		return err
	}
	catalogue, err := catalogue.Open(filepath.Join(i.data, "plugins", catalogue.Name))
	if err != nil {
		return err
	}
	entry, err := catalogue.Install(context.Background(), plugin)
	if err != nil {
		return err
	}
	i.version = entry.Manifest.Version
	if i.binary, err = filepath.Rel(i.data, entry.Binary()); err != nil {
		return err
	}
	if _, err = catalogue.Stage(context.Background(), entry, filepath.Join(i.data, "run", "staged")); err != nil {
		return err
	}
	_, err = catalogue.ActivateFirst(i.version)
	return err
}

// link adds to a data folder what it lacks of the installation of a plugin.
func (i *installation) link(t testing.TB, data string, plugin func() string) {
	t.Helper()
	i.once.Do(func() { i.err = i.fill(plugin()) })
	if i.err != nil {
		t.Fatal(i.err)
	}
	err := filepath.WalkDir(i.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(data, strings.TrimPrefix(path, i.data))
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		if d.Name() == catalogue.Name {
			err = os.Link(path, target)
		} else if _, err = os.Lstat(target); err != nil { // the state changes: another file
			var content []byte
			content, err = os.ReadFile(path)
			err = errors.Join(err, os.WriteFile(target, content, 0o600))
		}
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// in reports whether a data folder has the installation.
func (i *installation) in(data string) bool {
	one, err := os.Stat(filepath.Join(i.data, i.binary))
	other, otherErr := os.Stat(filepath.Join(data, i.binary))
	return err == nil && otherErr == nil && os.SameFile(one, other)
}

// linkPlugin installs the plugin under test in a data folder that has no catalogue.
func linkPlugin(t testing.TB, data string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(data, "plugins")); err != nil {
		installed.link(t, data, func() string { return testkit.Script(t, testkit.Binaries(t).Plugin) })
	}
}

// linkAnother installs another build of the plugin under test in a data folder, and returns its
// version.
func linkAnother(t testing.TB, data string) (version string) {
	t.Helper()
	another.link(t, data, func() string {
		binary, _ := testkit.AnotherBuild(t, 1)
		return binary
	})
	return another.version
}

// launch starts the process and waits for nothing.
func launch(t testing.TB, o options) *system {
	t.Helper()
	paths := testkit.Binaries(t)
	if o.data == "" {
		o.data = filepath.Join(t.TempDir(), "data")
	}
	settings := filepath.Join(t.TempDir(), "settings.toml")
	if err := os.WriteFile(settings, []byte(o.settings), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"serve", "--addr", "127.0.0.1:0", "--data", o.data, "--settings", settings}
	if !slices.Contains(o.flags, "--plugin") {
		linkPlugin(t, o.data)
	}
	if !installed.in(o.data) {
		args = append(args, "--plugin", paths.Plugin)
	}
	if o.basePath != "" {
		args = append(args, "--base-path", o.basePath)
	}
	s := &system{data: o.data, database: o.database, alwaysOK: o.alwaysOK, log: &journal{}, ended: make(chan struct{}),
		client: newClient()}
	cmd := exec.Command(paths.Host, append(args, o.flags...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "PERSONAL_DATABASE=" + o.database,
		"PERSONAL_REHEARSE=off"} // TestSwap_RehearsesOnPostgreSQL has it on
	cmd.Env = append(cmd.Env, o.env...)
	if o.socket != nil { // the shell's process becomes the host
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"`}, cmd.Args...)
		cmd.ExtraFiles = []*os.File{o.socket}
	}
	cmd.WaitDelay = patience
	s.begin(t, cmd)
	return s
}

// begin starts the command of the host, which finish ends.
func (s *system) begin(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if cmd.Stdout == nil {
		cmd.Stdout = s.log
	}
	cmd.Stderr = s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.process = cmd.Process
	go func() {
		_ = cmd.Wait() // the exit code is checked instead
		s.exit = cmd.ProcessState.ExitCode()
		close(s.ended)
	}()
	t.Cleanup(func() { s.finish(t) })
}

// finish stops the host if it still runs, and shows its log if the test failed.
func (s *system) finish(t testing.TB) {
	s.client.CloseIdleConnections()
	select {
	case <-s.ended:
	default:
		s.stop(t)
	}
	if strings.Contains(s.log.String(), "DATA RACE") {
		t.Errorf("the race detector reports:\n%s", s.log)
	}
	if t.Failed() {
		t.Logf("the end of the host's log:\n%s", s.log.tail(40))
	}
}

// stop stops the host with SIGTERM and checks that its exit code is 0.
func (s *system) stop(t testing.TB) {
	t.Helper()
	_ = s.process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-s.ended:
	case <-time.After(patience):
		_ = s.process.Kill()
		<-s.ended
		t.Errorf("the host did not stop within %v of SIGTERM", patience)
		return
	}
	if s.exit != 0 {
		t.Errorf("got exit code %d of the host, want 0", s.exit)
	}
}

// kill kills the host and waits for its end.
func (s *system) kill() {
	_ = s.process.Kill() // it may have ended by itself
	<-s.ended
}

// status returns the status of a page outside the API; 0 if there is no response.
func (s *system) status(path string) int {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url+path, nil)
	if err != nil {
		return 0
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close() // only the status matters
	return response.StatusCode
}

// newClient returns a client that follows no redirect.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       2 * patience,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// patience bounds every wait. It is long because a busy machine is not an error.
const patience = 30 * time.Second

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("timed out after %v: %s", patience, what)
		case <-tick.C:
		}
	}
}

// outlast waits until d and a quarter of it have passed since start: for a change
// that only time brings and that nothing reports.
func outlast(start time.Time, d time.Duration) {
	<-time.After(time.Until(start.Add(d + d/4)))
}

// execute changes rows in the database behind the plugin's back, and returns how many.
// Values in the statement are of our own making.
func execute(t testing.TB, database, statement string) int64 {
	t.Helper()
	pools, err := dbconn.Open(database, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	done, err := pools.Write.ExecContext(context.Background(), statement)
	if err != nil {
		t.Fatal(err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// awaitJobs waits until no job is left.
func (s *system) awaitJobs(t testing.TB) {
	t.Helper()
	pools, err := dbconn.Open(s.database, dbconn.RequestLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer pools.Close()
	eventually(t, "no mail or event waits", func() bool {
		var n int
		if err := pools.Read.QueryRowContext(context.Background(), "SELECT count(*) FROM personal_jobs").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

// isGone reports whether a process has ended. A zombie has ended too.
func isGone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}

// journal collects what a process writes.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// linesWith returns the lines that contain the text.
func (j *journal) linesWith(text string) []string {
	var found []string
	for line := range strings.Lines(j.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// tail returns the last lines.
func (j *journal) tail(n int) string {
	lines := strings.SplitAfter(j.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
