package main

import (
	"log/slog"
	"net"
	"net/http"
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

func newAPI(t *testing.T, service personal.Service) *personalhttp.Handler {
	api, err := personalhttp.New(service, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return api
}
