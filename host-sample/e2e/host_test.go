package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// site is a running host with its plugin and a data folder of its own.
type site struct {
	url  string
	data string
	log  *buffer
}

var listening = regexp.MustCompile(`(?m)^listening on (http://\S+)$`)

// quick are settings with which a password is hashed in about a millisecond, and
// nobody is slowed down.
const quick = "[password]\nmemory_kib = 1024\ntime = 1\n[throttle]\nenabled = false\n"

// program returns one of the built programs.
func program(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("PERSONAL_TEST_BINARIES")
	if folder == "" {
		t.Fatal("PERSONAL_TEST_BINARIES names no folder: run the tests by the script run")
	}
	return filepath.Join(folder, name)
}

// start starts a host with the [quick] settings, see [startAsShipped].
func start(t *testing.T, flags ...string) *site {
	t.Helper()
	settings := filepath.Join(t.TempDir(), "settings.toml")
	if err := os.WriteFile(settings, []byte(quick), 0o600); err != nil {
		t.Fatal(err)
	}
	return startAsShipped(t, append([]string{"--settings", settings}, flags...)...)
}

// startAsShipped starts a host with the settings it has by itself, among them the
// addresses that mails lead to, and waits until its plugin serves. It ends with
// the test.
func startAsShipped(t *testing.T, flags ...string) *site {
	t.Helper()
	s := &site{data: filepath.Join(t.TempDir(), "data"), log: &buffer{}}
	cmd := exec.Command(program(t, "host-sample"), append([]string{
		"serve", "--addr", "127.0.0.1:0", "--data", s.data, "--plugin", program(t, "personal"),
	}, flags...)...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the host ended: %v", err)
		}
		if t.Failed() {
			t.Logf("the host's log:\n%s", s.log)
		}
	})
	eventually(t, "the host says where it listens", func() bool {
		found := listening.FindStringSubmatch(s.log.String())
		if found != nil {
			s.url = found[1]
		}
		return found != nil
	})
	eventually(t, "the plugin serves", func() bool {
		response, err := http.Get(s.url + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return s
}

// command runs the host's program as an administrator would.
func (s *site) command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(program(t, "host-sample"), append(args, "--data", s.data)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// administrator returns a tab that has entered the admin pages by a link.
func (s *site) administrator(t *testing.T, l look) *tab {
	t.Helper()
	link := s.command(t, "admin-link")
	p := newTab(t, s.url, l)
	p.open(strings.TrimPrefix(link, s.url))
	p.submit(nil)
	return p
}

// visitor returns a tab in which somebody is signed in.
func (s *site) visitor(t *testing.T, login string, l look) *tab {
	t.Helper()
	p := newTab(t, s.url, l)
	p.open("/account/sign-in")
	p.submit(map[string]string{"login": login, "password": password})
	return p
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// buffer is a log that is written and read at once.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// readiness is what the host says of its plugin.
type readiness struct {
	Ready   bool
	Version string
	PID     int
}

func (s *site) ready(t *testing.T) readiness {
	t.Helper()
	response, err := http.Get(s.url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var r readiness
	if err := json.NewDecoder(response.Body).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}
