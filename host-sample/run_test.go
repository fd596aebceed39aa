package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// generous is longer than anything here may take on a busy machine.
const generous = time.Minute

// running is a host started by its command line.
type running struct {
	t    *testing.T
	url  string
	data string
	stop context.CancelFunc // as SIGTERM does
	done chan struct{}      // closed when the host has ended
	code int                // its exit code, once done is closed
	log  *logBuffer
}

// start runs serve and waits until it listens.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, stop: cancel, done: make(chan struct{}), log: &logBuffer{}}
	r.data = filepath.Join(t.TempDir(), "data")
	stdout, lines := io.Pipe()
	args = append([]string{"serve", "--data", r.data, "--addr", "127.0.0.1:0", "--plugin", testBinary(t)}, args...)
	go func() {
		defer close(r.done)
		defer lines.Close()
		r.code = run(ctx, args, output{stdout: lines, stderr: r.log})
	}()
	said := bufio.NewReader(stdout)
	line, err := said.ReadString('\n')
	url, ok := strings.CutPrefix(line, "listening on ")
	if err != nil || !ok {
		cancel()
		t.Fatalf("the host says %q, %v; its log:\n%s", line, err, r.log)
	}
	r.url = strings.TrimSpace(url)
	go io.Copy(io.Discard, said) // ends with the host, which closes its end
	t.Cleanup(func() {
		cancel()
		<-r.done
	})
	return r
}

// wait returns the exit code.
func (r *running) wait() int {
	r.t.Helper()
	select {
	case <-r.done:
		return r.code
	case <-time.After(generous):
		r.t.Fatalf("the host does not end; its log:\n%s", r.log)
		return 0
	}
}

func (r *running) send(method, path, body string) (int, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatalf("%v; the host's log:\n%s", err, r.log)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// logBuffer keeps what a host logs.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestAHostServesItsPluginUntilItIsStopped(t *testing.T) {
	h := start(t)
	if code, body := h.send(http.MethodGet, "/api/v1/personal/fields/", ""); code != http.StatusOK || !strings.Contains(body, `"phone"`) {
		t.Errorf("fields: %d %s", code, body)
	}
	if code, body := h.send(http.MethodPost, "/api/v1/personal/recover/", "email=anna@example.com"); code != http.StatusOK {
		t.Errorf("recover: %d %s", code, body)
	}
	if code, body := h.send(http.MethodGet, "/readyz", ""); code != http.StatusOK || !strings.Contains(body, `"version":"1.0.0"`) {
		t.Errorf("readyz: %d %s", code, body)
	}
	for _, pattern := range []string{"mail/*-m1.eml", "personal.db", "host.json", "plugins/personal/1.0.0/manifest.json"} {
		if found, _ := filepath.Glob(filepath.Join(h.data, pattern)); len(found) != 1 {
			t.Errorf("%s: found %v", pattern, found)
		}
	}
	h.stop()
	if code := h.wait(); code != 0 {
		t.Errorf("exit code %d; the log:\n%s", code, h.log)
	}
	if _, err := os.Stat(filepath.Join(h.data, "host.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("host.json after the stop: %v", err)
	}
}

func TestASecondHostOnTheSameDataExitsWith1(t *testing.T) {
	h := start(t)
	code, _, stderr := runCommand(t, "serve", "--data", h.data, "--addr", "127.0.0.1:0")
	if code != 1 || !strings.Contains(stderr, "another host runs on it") {
		t.Errorf("exit code %d, standard error %q", code, stderr)
	}
}

func TestARequestUnderWayIsAnsweredBeforeTheHostStops(t *testing.T) {
	h := start(t)
	h.send(http.MethodGet, "/api/v1/personal/fields/", "") // the plugin serves
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /api/v1/personal/recover/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"+
		"Content-Type: application/json\r\nContent-Length: 29\r\n\r\n")
	reader := bufio.NewReader(conn)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("the handler does not ask for the body: %q, %v", line, err)
	}
	h.stop()
	for { // until the listener is closed
		late, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			break
		}
		_ = late.Close()
	}
	fmt.Fprint(conn, `{"email": "anna@example.com"}`)
	_, _ = reader.ReadString('\n') // the blank line that ends the 100
	answer, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatalf("the request was cut off: %v; the log:\n%s", err, h.log)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the answer is %s", answer.Status)
	}
	if code := h.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestSettingsThatThePluginRefusesEndTheHost(t *testing.T) {
	h := start(t, "--settings", settingsFile(t, refuses))
	if code := h.wait(); code != 1 || !strings.Contains(h.log.String(), "session.idle: must be 1s or longer") {
		t.Errorf("exit code %d; the log:\n%s", code, h.log)
	}
}

func TestWhileTheDatabaseIsAwayTheHostListensAndWaits(t *testing.T) {
	settings := settingsFile(t, away)
	h := start(t, "--settings", settings)
	if code, _ := h.send(http.MethodGet, "/healthz", ""); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}
	if code, _ := h.send(http.MethodGet, "/readyz", ""); code != http.StatusServiceUnavailable {
		t.Errorf("readyz: %d", code)
	}
	if code, body := h.send(http.MethodGet, "/api/v1/personal/fields/", ""); code != http.StatusServiceUnavailable {
		t.Errorf("fields: %d %s", code, body)
	}
	if err := os.WriteFile(settings, nil, 0o600); err != nil { // it is back
		t.Fatal(err)
	}
	deadline := time.Now().Add(generous)
	for code := 0; code != http.StatusOK; code, _ = h.send(http.MethodGet, "/api/v1/personal/fields/", "") {
		if time.Now().After(deadline) {
			t.Fatalf("the plugin does not come back; the log:\n%s", h.log)
		}
	}
	h.stop()
	if code := h.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestThePluginCommandInstallsListsAndKeepsWhatIsInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for range 2 { // the same binary again changes nothing
		if code, stdout, stderr := runCommandToTheEnd(t, "plugin", "install", testBinary(t), "--data", dir); code != 0 || stdout != fakeVersion+"\n" {
			t.Fatalf("install: exit code %d, %q, %q", code, stdout, stderr)
		}
	}
	if _, stdout, _ := runCommandToTheEnd(t, "plugin", "list", "--data", dir); !strings.HasPrefix(stdout, fakeVersion+"  ") || strings.Contains(stdout, "active") {
		t.Errorf("list: %q", stdout)
	}
	if code, _, stderr := runCommandToTheEnd(t, "plugin", "remove", fakeVersion, "--data", dir); code != 0 {
		t.Errorf("remove: exit code %d, %q", code, stderr)
	}
	if _, stdout, _ := runCommandToTheEnd(t, "plugin", "list", "--data", dir); stdout != "" {
		t.Errorf("list after remove: %q", stdout)
	}
}

func TestTheHighestVersionIsUsedWhereNoneWasChosen(t *testing.T) {
	catalogue, err := openCatalogue(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := choosePlugin(t.Context(), catalogue, "", quietLog()); !errors.Is(err, errNoPlugin) {
		t.Errorf("an empty catalogue: %v", err)
	}
	if _, err := catalogue.Install(t.Context(), testBinary(t)); err != nil {
		t.Fatal(err)
	}
	if err := choosePlugin(t.Context(), catalogue, "", quietLog()); err != nil {
		t.Fatal(err)
	}
	if state, err := catalogue.LoadState(); err != nil || state.Active != fakeVersion {
		t.Errorf("active is %q, %v", state.Active, err)
	}
}

// runCommandToTheEnd runs a command that ends by itself.
func runCommandToTheEnd(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, output{stdout: &out, stderr: &errs})
	return code, out.String(), errs.String()
}
