package system

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/openapitest"
)

// Settings that most tests begin with: guessing is not slowed down, and a
// password is hashed in about a millisecond.
const (
	cheap       = "[password]\nmemory_kib = 1024\ntime = 1\n"
	unthrottled = "[throttle]\nenabled = false\n"
	links       = "[recovery]\nurl = \"https://site.example/recover#token={token}\"\n" +
		"[email]\nurl = \"https://site.example/email#token={token}\"\n"
)

// options say how to start a host.
type options struct {
	database string   // a URL
	settings string   // the plugin's, TOML
	flags    []string // beside those every test needs
	data     string   // the data folder; empty: a new one
	basePath string
	alwaysOK bool // the host was told to answer with 200 only
}

// system is a running host with its plugin.
type system struct {
	url      string // of the host
	api      string // url of the API, with a final slash
	data     string
	database string // its URL
	alwaysOK bool
	log      *journal // all output of the host and, through it, of the plugin
	process  *os.Process
	ended    chan struct{} // closed when the process has ended, exit is set then
	exit     int
	client   *http.Client
	document atomic.Pointer[openapitest.Document] // the API's description, by which each answer is checked
}

var listening = regexp.MustCompile(`(?m)^listening on (http://\S+)$`)

// start starts a host and waits until its plugin serves. It ends with the test.
func start(t *testing.T, o options) *system {
	t.Helper()
	s := launch(t, o)
	s.awaitURL(t, o)
	eventually(t, "/readyz answers 200", func() bool { return s.status("/readyz") == http.StatusOK })
	return s
}

// awaitURL waits until the host says where it listens.
func (s *system) awaitURL(t testing.TB, o options) {
	t.Helper()
	eventually(t, "the host says where it listens", func() bool {
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

// launch starts the process without waiting for anything.
func launch(t *testing.T, o options) *system {
	t.Helper()
	paths := testkit.Binaries(t)
	if o.data == "" {
		o.data = filepath.Join(t.TempDir(), "data")
	}
	settings := filepath.Join(t.TempDir(), "settings.toml")
	if err := os.WriteFile(settings, []byte(o.settings), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"serve", "--addr", "127.0.0.1:0", "--data", o.data, "--plugin", paths.Plugin, "--settings", settings}
	if o.basePath != "" {
		args = append(args, "--base-path", o.basePath)
	}
	s := &system{data: o.data, database: o.database, alwaysOK: o.alwaysOK, log: &journal{}, ended: make(chan struct{}), client: newClient()}
	cmd := exec.Command(paths.Host, append(args, o.flags...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "PERSONAL_DATABASE=" + o.database}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.WaitDelay = patience
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.process = cmd.Process
	go func() {
		_ = cmd.Wait() // the code tells
		s.exit = cmd.ProcessState.ExitCode()
		close(s.ended)
	}()
	t.Cleanup(func() { s.finish(t) })
	return s
}

// finish stops a host that still runs, and shows its log if the test failed.
func (s *system) finish(t *testing.T) {
	s.client.CloseIdleConnections()
	select {
	case <-s.ended:
	default:
		s.stop(t)
	}
	if strings.Contains(s.log.String(), "DATA RACE") {
		t.Errorf("the race detector speaks up:\n%s", s.log)
	}
	if t.Failed() {
		t.Logf("the end of the host's log:\n%s", s.log.tail(40))
	}
}

// stop asks for an orderly stop and expects exit code 0.
func (s *system) stop(t *testing.T) {
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
		t.Errorf("the host stopped with exit code %d, want 0", s.exit)
	}
}

// kill ends the host at once.
func (s *system) kill() {
	_ = s.process.Kill() // it may have ended by itself
	<-s.ended
}

// status asks for a page outside the API; 0 means that there was no answer.
func (s *system) status(path string) int {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.url+path, nil)
	if err != nil {
		return 0
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close() // nothing was read that could be lost
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
