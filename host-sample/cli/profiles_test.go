package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// profiled is a plugin whose profiles are served at an address, or fail.
type profiled struct {
	address string
	err     error
}

func (p profiled) DialProfiles(ctx context.Context) (net.Conn, error) {
	if p.err != nil {
		return nil, p.err
	}
	return new(net.Dialer).DialContext(ctx, "tcp", p.address)
}

// startProfiled returns a plugin that responds with the path and the query of a request.
func startProfiled(t *testing.T) profiled {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "plugin ", r.URL)
	}))
	t.Cleanup(server.Close)
	return profiled{address: server.Listener.Addr().String()}
}

func TestProfiles_OfThePluginAreForwarded(t *testing.T) {
	plugin := startProfiled(t)
	for _, tt := range []struct {
		plugin profiled
		target string
		code   int
		body   string
	}{
		{plugin, "http://localhost:6060/debug/pprof/plugin/profile", http.StatusOK, "plugin /debug/pprof/profile"},
		{plugin, "http://[::1]/debug/pprof/plugin/trace?seconds=1", http.StatusOK, "plugin /debug/pprof/trace?seconds=1"},
		{plugin, "http://127.0.0.1/debug/pprof/plugin/", http.StatusOK, "plugin /debug/pprof/"},
		{plugin, "http://evil.example:6060/debug/pprof/plugin/heap", http.StatusForbidden, "loopback"},
		{plugin, "http://evil.example:6060/debug/pprof/heap", http.StatusForbidden, "loopback"},
		{
			profiled{err: errors.New("the plugin is restarting")},
			"http://127.0.0.1:6060/debug/pprof/plugin/heap", http.StatusServiceUnavailable, "the plugin is restarting",
		},
	} {
		w := httptest.NewRecorder()
		newProfiles(tt.plugin, quietLog()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, tt.target, nil))
		if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.body) {
			t.Errorf("%s: got %d %s, want %d %s", tt.target, w.Code, w.Body, tt.code, tt.body)
		}
	}
}

func TestProfiles_OtherSitesAreRefused(t *testing.T) {
	handler := newProfiles(startProfiled(t), quietLog())
	for site, want := range map[string]int{
		"cross-site": http.StatusForbidden, "same-site": http.StatusForbidden, "same-origin": http.StatusOK, "none": http.StatusOK, "": http.StatusOK,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:6060/debug/pprof/plugin/heap", nil)
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
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
