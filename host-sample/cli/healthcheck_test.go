package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHealthcheck_AsksTheHostOfTheDataFolder(t *testing.T) {
	h := start(t)
	h.send(http.MethodGet, "/api/v1/personal/fields/", "") // responds when the plugin serves
	code, stdout, stderr := runToEnd(t, "healthcheck", "--data", h.data)
	if code != 0 || !strings.HasPrefix(stdout, "ready: plugin 1.0.0, state ") || stderr != "" {
		t.Errorf("a host that serves: got exit code %d, %q, %q, want 0", code, stdout, stderr)
	}
	h.stop()
	h.wait()
	code, stdout, stderr = runToEnd(t, "healthcheck", "--data", h.data)
	if code != 1 || stdout != "" || !strings.Contains(stderr, "no host runs on the data folder") {
		t.Errorf("a stopped host: got exit code %d, %q, %q, want 1", code, stdout, stderr)
	}
}

func TestHealthcheck_FailsUnlessTheHostIsReady(t *testing.T) {
	responses := map[string]http.HandlerFunc{
		"the plugin is in the state restarting": func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusServiceUnavailable, readiness{State: "restarting"})
		},
		"responds with status 404, and not as a host": http.NotFound,
		"deadline exceeded":                           func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	}
	for want, respond := range responses {
		server := httptest.NewServer(respond)
		defer server.Close()
		limit := time.Minute
		if want == "deadline exceeded" {
			limit = 100 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		if _, err := askReadiness(ctx, server.URL); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}
