package main

import (
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalhttp/personalhttptest"
)

func TestMount(t *testing.T) {
	personalhttptest.Run(t, func(service personal.Service) http.Handler {
		api, err := personalhttp.New(service, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return site(api, http.NotFoundHandler())
	}, personalhttptest.WithGuardedPage("/hello"))
}

// TestMount_RoutedAPIFails makes sure that the test finds what chi breaks when the API
// is one of its routes: it runs itself with such a mount.
func TestMount_RoutedAPIFails(t *testing.T) {
	const routed, check = "ROUTED_API", "unknown_methods"
	if os.Getenv(routed) != "" {
		personalhttptest.Run(t, func(service personal.Service) http.Handler {
			api, err := personalhttp.New(service, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			router := chi.NewRouter()
			router.Mount("/api/v1/personal", api)
			return router
		})
		return
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$/^"+check+"$")
	again.Env = append(os.Environ(), routed+"=yes")
	if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL: "+t.Name()+"/"+check) {
		t.Errorf("got %v, want that the check fails, from\n%s", err, out)
	}
}
