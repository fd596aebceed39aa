package main

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalhttp/personalhttptest"
)

func TestMount(t *testing.T) {
	personalhttptest.RunServer(t, func(service personal.Service) func(net.Listener) error {
		app := site(newAPI(t, service))
		return func(l net.Listener) error { return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }
	},
		personalhttptest.WithoutCancellation("the server does not notice that a client hangs up"),
		personalhttptest.WithoutEarlyRefusal("the server refuses bodies over BodyLimit itself"),
		personalhttptest.WithoutUnknownMethods("the server refuses them itself"),
	)
}

// TestMount_BehindNetHTTP lets net/http serve the site: then nothing is missing.
func TestMount_BehindNetHTTP(t *testing.T) {
	personalhttptest.Run(t, func(service personal.Service) http.Handler {
		api := newAPI(t, service)
		return api.Front(adaptor.FiberApp(site(api)))
	})
}

// TestMount_RoutedAPIFails makes sure that the test finds what fiber breaks when the API
// is one of its routes: it runs itself with such a mount.
func TestMount_RoutedAPIFails(t *testing.T) {
	const routed, check = "ROUTED_API", "repeated_headers"
	if os.Getenv(routed) != "" {
		personalhttptest.RunServer(t, func(service personal.Service) func(net.Listener) error {
			app := fiber.New()
			app.All("/api/v1/personal/*", adaptor.HTTPHandler(newAPI(t, service)))
			return func(l net.Listener) error { return app.Listener(l, fiber.ListenConfig{DisableStartupMessage: true}) }
		})
		return
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$/^"+check+"$")
	again.Env = append(os.Environ(), routed+"=yes")
	if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL: "+t.Name()+"/"+check) {
		t.Errorf("got %v, want that the check fails, from\n%s", err, out)
	}
}

func newAPI(t *testing.T, service personal.Service) *personalhttp.Handler {
	api, err := personalhttp.New(service, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return api
}
