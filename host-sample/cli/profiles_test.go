package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/pluginrpc"
)

func TestProfiles_OfHostAndPluginAreReadable(t *testing.T) {
	h := start(t, "--pprof", "127.0.0.1:0")
	h.send(http.MethodGet, "/api/v1/personal/fields/", "") // waits for the plugin
	for path, want := range map[string]string{
		"goroutine":                "cli.(*host).run",
		"plugin/goroutine":         "pluginrpc.Serve",
		"profile?seconds=1":        "cpu/nanoseconds",
		"plugin/profile?seconds=1": "cpu/nanoseconds",
	} {
		code, data := get(t, h.profiles+path)
		if code != http.StatusOK {
			t.Errorf("%s: got %d %s, want 200", path, code, data)
			continue
		}
		if got := readProfile(t, data); !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant %s in it", path, got, want)
		}
	}
	if code, _ := h.send(http.MethodGet, profilesPath, ""); code != http.StatusNotFound {
		t.Errorf("the site's own listener: got %d, want 404", code)
	}
	h.stop()
	if code := h.wait(); code != 0 {
		t.Errorf("got exit code %d, want 0; the log:\n%s", code, h.log)
	}
}

func get(t *testing.T, url string) (int, []byte) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, data
}

// readProfile returns what Go's pprof reads in a profile.
func readProfile(t *testing.T, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "profile")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "tool", "pprof", "-raw", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// profiled is a plugin whose profiles have their name as content.
type profiled struct{}

func (profiled) RuntimeProfile(_ context.Context, name string, duration time.Duration) ([]byte, error) {
	switch name {
	case "unknown":
		return nil, &pluginrpc.PermanentError{Reason: "there is no such profile"}
	case "mutex":
		return nil, errors.New("the plugin is restarting")
	}
	return []byte(name + " " + duration.String()), nil
}

func TestProfiles_RequestsAreChecked(t *testing.T) {
	handler := newProfiles(profiled{})
	for target, tt := range map[string]struct {
		code int
		body string
	}{
		"http://localhost:6060/debug/pprof/plugin/profile":              {http.StatusOK, "profile 30s"},
		"http://127.0.0.1/debug/pprof/plugin/trace":                     {http.StatusOK, "trace 1s"},
		"http://[::1]:6060/debug/pprof/plugin/profile?seconds=60":       {http.StatusOK, "profile 1m0s"},
		"http://[::1]/debug/pprof/plugin/allocs":                        {http.StatusOK, "allocs 0s"},
		"http://127.0.0.1:6060/debug/pprof/plugin/heap":                 {http.StatusOK, "heap 0s"},
		"http://127.0.0.1:6060/debug/pprof/plugin/heap?seconds=1":       {http.StatusBadRequest, "is a snapshot"},
		"http://127.0.0.1:6060/debug/pprof/plugin/profile?seconds=61":   {http.StatusBadRequest, "want 1 to 60"},
		"http://127.0.0.1:6060/debug/pprof/plugin/profile?seconds=soon": {http.StatusBadRequest, "want 1 to 60"},
		"http://127.0.0.1:6060/debug/pprof/plugin/unknown":              {http.StatusNotFound, "no such profile"},
		"http://127.0.0.1:6060/debug/pprof/plugin/mutex":                {http.StatusServiceUnavailable, "restarting"},
		"http://evil.example:6060/debug/pprof/plugin/heap":              {http.StatusForbidden, "loopback"},
		"http://evil.example:6060/debug/pprof/heap":                     {http.StatusForbidden, "loopback"},
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.body) {
			t.Errorf("%s: got %d %s, want %d %s", target, w.Code, w.Body, tt.code, tt.body)
		}
	}
}

func TestProfiles_OtherSitesAreRefused(t *testing.T) {
	for site, want := range map[string]int{
		"cross-site": http.StatusForbidden, "same-site": http.StatusForbidden, "same-origin": http.StatusOK, "none": http.StatusOK, "": http.StatusOK,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:6060/debug/pprof/plugin/heap", nil)
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		newProfiles(profiled{}).ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: got %d %s, want %d", site, w.Code, w.Body, want)
		}
	}
}

func TestProfiles_ResolvedAddressIsLoopback(t *testing.T) {
	for address, want := range map[string]error{"127.0.0.1": nil, "::1": nil, "192.0.2.1": errNotLoopback, "0.0.0.0": errNotLoopback} {
		if err := checkProfileAddr(net.JoinHostPort(address, "0")); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", address, err, want)
		}
	}
}
