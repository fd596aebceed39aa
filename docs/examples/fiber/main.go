// Command fiber is a CMS with the personal-account module on fiber. Its server is not
// that of net/http: ../README.md says what the API cannot do there.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/valyala/fasthttp"

	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func main() {
	address := flag.String("address", "127.0.0.1:8080", "where to listen")
	plugin := flag.String("plugin", "../../../bin/personal", "the plugin to install at the first start")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	module, err := personalhost.Open(ctx, personalhost.Config{Data: "data", Plugin: *plugin})
	if err != nil {
		log.Fatal(err)
	}
	app := site(module.API())
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() { stopped <- app.ShutdownWithTimeout(30 * time.Second) })
	if err = app.Listen(*address); err == nil {
		err = <-stopped // the last requests still need the module
	}
	if err := errors.Join(err, module.Close()); err != nil {
		log.Fatal(err)
	}
}

// site returns the whole site: the API in front, and the CMS's own pages.
func site(api *personalhttp.Handler) *fiber.App {
	// Here the API cannot limit how long a body takes: the server does.
	app := fiber.New(fiber.Config{ReadTimeout: 30 * time.Second})
	serveAPI := adaptor.HTTPHandler(ownMemory(api))
	app.Use(func(c fiber.Ctx) error {
		// The header has the URI as it was sent; c.Path() and others are cleaned.
		if u, err := url.ParseRequestURI(string(c.Request().Header.RequestURI())); err == nil && api.Matches(&http.Request{URL: u}) {
			return serveAPI(c)
		}
		return c.Next()
	})
	app.Get("/account", requireUser(api), account)
	return app
}

// ownMemory gives next its own context and headers: fiber reuses its own after the
// request, and its adaptor keeps only the last of several headers with one name.
func ownMemory(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := http.Header{}
		for name, value := range r.Context().(*fasthttp.RequestCtx).Request.Header.All() {
			header.Add(string(name), string(value))
		}
		r = r.WithContext(context.Background())
		r.Header = header
		next.ServeHTTP(w, r)
	})
}

// requireUser returns RequireUser as a middleware of fiber.
func requireUser(api *personalhttp.Handler) fiber.Handler {
	return func(c fiber.Ctx) error {
		signedIn := false
		accept := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			user, _ := personalhttp.UserFrom(r.Context())
			fiber.Locals(c, userKey{}, user)
			signedIn = true
		})
		if err := adaptor.HTTPHandler(ownMemory(api.RequireUser(accept)))(c); err != nil || !signedIn {
			return err // nil: RequireUser has responded
		}
		return c.Next()
	}
}

type userKey struct{}

// account is a page for signed-in users.
func account(c fiber.Ctx) error {
	user := fiber.Locals[personalhttp.User](c, userKey{})
	c.Set(fiber.HeaderCacheControl, "no-store") // the page differs by user
	return c.SendString("Hello, " + user.Profile.Login + "!\n")
}
