package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/secretkeys"
	"github.com/cms-personal/personal/shared/userfields"
)

// generous is longer than any step takes on a busy machine.
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

	printed *logBuffer // standard output, after the address of the listener
}

// start runs serve and waits until it listens.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, stop: cancel, done: make(chan struct{}), log: &logBuffer{}, printed: &logBuffer{}}
	r.data = filepath.Join(t.TempDir(), "data")
	stdout, lines := io.Pipe()
	args = append([]string{"serve", "--data", r.data, "--addr", "127.0.0.1:0", "--plugin", fake(t, fakeVersion)}, args...)
	go func() {
		defer close(r.done)
		defer lines.Close()
		r.code = Run(ctx, args, lines, r.log)
	}()
	printed := bufio.NewReader(stdout)
	line, err := printed.ReadString('\n')
	url, ok := strings.CutPrefix(line, "listening on ")
	if err != nil || !ok {
		cancel()
		t.Fatalf("got first line %q, %v, want the address; the log:\n%s", line, err, r.log)
	}
	r.url = strings.TrimSpace(url)
	go io.Copy(r.printed, printed) // ends when the host closes its end
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
		r.t.Fatalf("the host still runs after %v; the log:\n%s", generous, r.log)
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
		r.t.Fatalf("%v; the log:\n%s", err, r.log)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// logBuffer collects the log of a host.
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

func TestHost_ServesUntilStopped(t *testing.T) {
	h := start(t)
	if code, body := h.send(http.MethodGet, "/api/v1/personal/fields/", ""); code != http.StatusOK || !strings.Contains(body, `"phone"`) {
		t.Errorf("fields: got %d %s, want 200 with phone", code, body)
	}
	if code, body := h.send(http.MethodPost, "/api/v1/personal/recover/", "email=anna@example.com"); code != http.StatusOK {
		t.Errorf("recover: got %d %s, want 200", code, body)
	}
	if code, body := h.send(http.MethodGet, "/readyz", ""); code != http.StatusOK || !strings.Contains(body, `"version":"1.0.0"`) {
		t.Errorf("readyz: got %d %s, want 200 with version 1.0.0", code, body)
	}
	for _, pattern := range []string{"mail/*-m1.eml", "personal.db", "host.json", "plugins/personal/1.0.0/manifest.json"} {
		if found, _ := filepath.Glob(filepath.Join(h.data, pattern)); len(found) != 1 {
			t.Errorf("%s: got %v, want one file", pattern, found)
		}
	}
	h.stop()
	if code := h.wait(); code != 0 {
		t.Errorf("got exit code %d, want 0; the log:\n%s", code, h.log)
	}
	if _, err := os.Stat(filepath.Join(h.data, "host.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("host.json after the stop: got %v, want not-exist", err)
	}
}

func TestHost_StopWaitsForRunningRequest(t *testing.T) {
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
		t.Fatalf("got %q, %v, want 100 Continue", line, err)
	}
	h.stop()
	for { // until the host has closed the listener
		late, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
		if err != nil {
			break
		}
		_ = late.Close()
	}
	fmt.Fprint(conn, `{"email": "anna@example.com"}`)
	_, _ = reader.ReadString('\n') // the blank line that ends the 100 response
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Fatalf("got %v, want a response; the log:\n%s", err, h.log)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("got %s, want 200", response.Status)
	}
	if code := h.wait(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

func TestHost_EndsWhenPluginRefusesSettings(t *testing.T) {
	h := start(t, "--settings", settingsFile(t, refuses))
	if code := h.wait(); code != 1 || !strings.Contains(h.log.String(), "session.idle: must be 1s or longer") {
		t.Errorf("got exit code %d, want 1 and the reason; the log:\n%s", code, h.log)
	}
}

func TestHost_FirstStartCreatesSecretKeyAndPluginGetsIt(t *testing.T) {
	settings := filepath.Join(t.TempDir(), "settings.toml")
	if err := os.WriteFile(settings, []byte(needs), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	file := filepath.Join(data, "secret.key")
	var first [][]byte
	for i, created := range []bool{true, false} {
		h := start(t, "--data", data, "--settings", settings, "--log-level", "debug")
		if code, body := h.send(http.MethodGet, "/api/v1/personal/fields/", ""); code != http.StatusOK {
			t.Errorf("fields: got %d %s, want 200", code, body)
		}
		h.stop()
		if code := h.wait(); code != 0 {
			t.Errorf("got exit code %d, want 0; the log:\n%s", code, h.log)
		}
		keys, err := secretkeys.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = keys
		}
		if !bytes.Equal(keys[0], first[0]) || len(keys) != 1 {
			t.Errorf("start %d: the file has %d keys, want that it keeps the first", i+1, len(keys))
		}
		log := h.log.String() + h.printed.String()
		if strings.Contains(log, base64.StdEncoding.EncodeToString(first[0])) || strings.Contains(log, "created a secret key") != created {
			t.Errorf("start %d: the log shows the key, or says that it was created: not %t", i+1, created)
		}
	}
	h := start(t, "--data", data, "--settings", settings, "--no-secret-key")
	if code := h.wait(); code != 1 || !strings.Contains(h.log.String(), "got 0 secret keys") {
		t.Errorf("with --no-secret-key: got exit code %d, log\n%s\nwant 1 and that the plugin gets no key", code, h.log)
	}
}

func TestHost_WithoutSecretKeyCreatesNoFile(t *testing.T) {
	h := start(t, "--no-secret-key")
	if code, body := h.send(http.MethodGet, "/api/v1/personal/fields/", ""); code != http.StatusOK {
		t.Errorf("fields: got %d %s, want 200", code, body)
	}
	if _, err := os.Stat(filepath.Join(h.data, "secret.key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("secret.key: got %v, want not-exist", err)
	}
}

func TestHost_RefusesDamagedSecretKey(t *testing.T) {
	data := t.TempDir()
	file := filepath.Join(data, "secret.key")
	if err := os.WriteFile(file, []byte("# a key\nhunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runToEnd(t, "serve", "--data", data, "--addr", "127.0.0.1:0", "--plugin", fake(t, fakeVersion))
	if code != 1 || !strings.Contains(stderr, file+":2: the line is not a key") || strings.Contains(stderr, "hunter2") {
		t.Errorf("got exit code %d, standard error %q, want 1 and the file's line without its text", code, stderr)
	}
}

func TestHost_WaitsForDatabase(t *testing.T) {
	settings := settingsFile(t, away)
	h := start(t, "--settings", settings)
	if code, _ := h.send(http.MethodGet, "/healthz", ""); code != http.StatusOK {
		t.Errorf("healthz: got %d, want 200", code)
	}
	if code, _ := h.send(http.MethodGet, "/readyz", ""); code != http.StatusServiceUnavailable {
		t.Errorf("readyz: got %d, want 503", code)
	}
	if code, body := h.send(http.MethodGet, "/api/v1/personal/fields/", ""); code != http.StatusServiceUnavailable {
		t.Errorf("fields: got %d %s, want 503", code, body)
	}
	if err := os.WriteFile(settings, nil, 0o600); err != nil { // the database is back
		t.Fatal(err)
	}
	deadline := time.Now().Add(generous)
	for code := 0; code != http.StatusOK; code, _ = h.send(http.MethodGet, "/api/v1/personal/fields/", "") {
		if time.Now().After(deadline) {
			t.Fatalf("the plugin does not serve; the log:\n%s", h.log)
		}
	}
	h.stop()
	if code := h.wait(); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// runToEnd runs a command that ends by itself.
func runToEnd(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestSampleFields_ShowEveryKindOfField(t *testing.T) {
	_, schema, err := userfields.ParseJSON(sampleFields)
	if err != nil {
		t.Fatal(err)
	}
	fields := schema.Fields()
	var names, hidden, readOnly []string
	for _, f := range fields {
		names = append(names, f.Name)
		if f.Hidden {
			hidden = append(hidden, f.Name)
		}
		if f.ReadOnly {
			readOnly = append(readOnly, f.Name)
		}
		if f.Label["en"] == "" || f.Label["ru"] == "" || f.Group == "" {
			t.Errorf("field %s: got no label or no group", f.Name)
		}
	}
	want := []string{"phone", "birth_date", "city", "company", "interests", "newsletter", "customer_number", "internal_note"}
	if !slices.Equal(names, want) {
		t.Fatalf("got fields %v, want %v", names, want)
	}
	if !slices.Equal(hidden, []string{"internal_note"}) || !slices.Equal(readOnly, []string{"customer_number"}) {
		t.Errorf("got hidden %v, read-only %v", hidden, readOnly)
	}
	if city := fields[2]; len(city.Options) != 4 {
		t.Errorf("city: got %d options, want 4", len(city.Options))
	}
	if preset := fields[5].Default; preset.Kind != personal.InputBoolean || preset.Text != "false" {
		t.Errorf("newsletter: got default %v, want false", preset)
	}
}

func TestAccountURL_OnlyCapturedMailsLinkToTheListener(t *testing.T) {
	const listener = "http://127.0.0.1:8080"
	for _, test := range []struct {
		site     string
		captured bool
		want     string
	}{
		{"", true, "http://127.0.0.1:8080/account"},
		{"", false, ""},
		{"https://example.com", true, "https://example.com/account"},
		{"https://example.com/", false, "https://example.com/account"},
		{"https://example.com/de/", false, "https://example.com/de/account"},
	} {
		if got := accountURL(test.site, listener, test.captured); got != test.want {
			t.Errorf("--url=%s, captured %t: got %q, want %q", test.site, test.captured, got, test.want)
		}
	}
}

func TestSettingsSource_FileIsReadAtEveryStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.toml")
	source := settingsSource(path)
	if _, err := source(); err == nil {
		t.Error("got no error for a file that does not exist")
	}
	for _, want := range []string{"not even TOML", "[session]\n"} {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := source(); err != nil || string(got) != want {
			t.Errorf("got settings %q, %v, want %q", got, err, want)
		}
	}
}

func TestNameLoopback_LeavesOtherAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:8080":     "http://localhost:8080",
		"http://[::1]:8080":         "http://localhost:8080",
		"http://192.0.2.1:8080":     "http://192.0.2.1:8080",
		"http://localhost:8080":     "http://localhost:8080",
		"https://www.example.com":   "https://www.example.com",
		"http://127.0.0.1.example:": "http://127.0.0.1.example:",
	} {
		if got := nameLoopback(address); got != want {
			t.Errorf("nameLoopback(%s) = %s, want %s", address, got, want)
		}
	}
}

func TestListenURL_IsReachable(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1:80":    "http://127.0.0.1:80",
		"0.0.0.0:8080":    "http://127.0.0.1:8080",
		"[::]:8080":       "http://127.0.0.1:8080",
		"[::1]:8080":      "http://[::1]:8080",
		"192.0.2.1:65535": "http://192.0.2.1:65535",
	} {
		tcp, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := listenURL(tcp); got != want {
			t.Errorf("listenURL(%s) = %s, want %s", addr, got, want)
		}
	}
}
