package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// site is a running host with its plugin and its own data folder.
type site struct {
	url  string
	data string
	log  *buffer

	flags []string
	stop  func()
}

var listening = regexp.MustCompile(`(?m)^listening on (http://\S+)$`)

// testSettings hash a password in about a millisecond and turn off the rate limits.
const testSettings = "[password]\nmemory_kib = 1024\ntime = 1\n[throttle]\nenabled = false\n"

// program returns one of the built programs.
func program(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("PERSONAL_TEST_BINARIES")
	if folder == "" {
		t.Fatal("PERSONAL_TEST_BINARIES is not set: use the script run")
	}
	return filepath.Join(folder, name)
}

// start starts a host with [testSettings], see [startWithDefaults].
func start(t *testing.T, flags ...string) *site {
	t.Helper()
	return startWith(t, testSettings, flags...)
}

// startWith starts a host with the settings.
func startWith(t *testing.T, settings string, flags ...string) *site {
	t.Helper()
	file := filepath.Join(t.TempDir(), "settings.toml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return startWithDefaults(t, append([]string{"--settings", file}, flags...)...)
}

// startWithDefaults starts a host with the default settings, which include the pages
// that mails link to, and waits until its plugin serves. The host stops with the test.
func startWithDefaults(t *testing.T, flags ...string) *site {
	t.Helper()
	s := &site{data: filepath.Join(t.TempDir(), "data"), log: &buffer{}, flags: flags}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the host's log:\n%s", s.log)
		}
	})
	s.serve(t, "127.0.0.1:0")
	return s
}

// restart ends the host, waits until down returns true, and starts it again.
func (s *site) restart(t *testing.T, down func() bool) {
	t.Helper()
	s.stop()
	eventually(t, "it is down", down)
	s.serve(t, strings.Replace(strings.TrimPrefix(s.url, "http://"), "localhost", "127.0.0.1", 1))
}

func (s *site) serve(t *testing.T, address string) {
	t.Helper()
	cmd := exec.Command(program(t, "host-sample"), append([]string{
		"serve", "--addr", address, "--data", s.data, "--plugin", program(t, "personal"),
	}, s.flags...)...)
	cmd.Env = append(os.Environ(), "PERSONAL_REHEARSE=off")
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("stopping the host: %v", err)
		}
	})
	t.Cleanup(s.stop)
	eventually(t, "the host prints its address", func() bool {
		found := listening.FindStringSubmatch(s.log.String())
		if found != nil {
			s.url = strings.Replace(found[1], "127.0.0.1", "localhost", 1) // where browsers are led
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
}

// atLocalhost serves a site of its own until the test ends, and returns its URL.
func atLocalhost(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// command runs a command of the host's program on its data folder.
func (s *site) command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(program(t, "host-sample"), append(args, "--data", s.data)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// administrator returns a tab that is signed in to the admin pages.
func (s *site) administrator(t *testing.T, l display) *tab {
	t.Helper()
	link := s.command(t, "admin-link")
	p := newTab(t, s.url, l)
	p.open(strings.TrimPrefix(link, s.url))
	p.submit(nil)
	return p
}

// visitor returns a tab in which a user is signed in.
func (s *site) visitor(t *testing.T, login string, l display) *tab {
	t.Helper()
	p := newTab(t, s.url, l)
	p.open("/account/sign-in")
	p.submit(map[string]string{"login": login, "password": password})
	return p
}

// forgetProof deletes the proof of the visitor's sign-in, as if it had ended: pages ask again who they are.
func (p *tab) forgetProof() {
	p.t.Helper()
	p.do(command(network.DeleteCookies, network.DeleteCookiesParams{Name: "proof", URL: get(p, chromedp.Location())}))
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// buffer is a log that can be read while it is written.
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

// readiness is the response of /readyz.
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

// api calls an operation with JSON and returns the status and the data.
func (s *site) api(operation string, params map[string]any, headers ...string) (int, map[string]any, error) {
	body, err := json.Marshal(params)
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequest(http.MethodPost, s.url+"/api/v1/personal/"+operation+"/", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, err
	}
	var envelope struct{ Data map[string]any }
	if err := json.Unmarshal(text, &envelope); err != nil {
		return 0, nil, fmt.Errorf("%s: %w", text, err)
	}
	return response.StatusCode, envelope.Data, nil
}

// register registers a user through the API.
func (s *site) register(t *testing.T, login string) {
	t.Helper()
	s.registerWith(t, login, nil)
}

// registerWith registers a user with values of user fields.
func (s *site) registerWith(t *testing.T, login string, fields map[string]any) {
	t.Helper()
	params := map[string]any{"login": login, "email": login + "@example.com", "password": password, "confirm_password": password}
	maps.Copy(params, fields)
	status, _, err := s.api("register", params)
	if err != nil || status != http.StatusOK {
		t.Fatalf("registering %s: %d %v", login, status, err)
	}
}

// putFields replaces the user-field schema.
func (s *site) putFields(t *testing.T, schema []byte) {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(s.data, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequest(http.MethodPut, s.url+"/admin/api/user-fields", bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body) // best effort
		t.Fatalf("putting the user fields: %d %s", response.StatusCode, text)
	}
}

// password is the password of all users.
const password = "correct horse battery"
