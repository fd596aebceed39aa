// Command echo is a CMS with the personal-account module on echo.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

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
	if err := module.Serve(ctx, &http.Server{Addr: *address, Handler: site(module.API())}); err != nil {
		log.Fatal(err)
	}
}

// site returns the whole site: the API in front, and the CMS's own pages.
func site(api *personalhttp.Handler) http.Handler {
	router := echo.New()
	router.Use(middleware.Recover())
	requireUser := echo.WrapMiddleware(func(next http.Handler) http.Handler { return api.RequireUser(next) })
	members := router.Group("", requireUser)
	members.GET("/account", account)
	return api.Front(router)
}

// account is a page for signed-in users.
func account(c *echo.Context) error {
	user, _ := personalhttp.UserFrom(c.Request().Context())
	c.Response().Header().Set("Cache-Control", "no-store") // the page differs by user
	return c.String(http.StatusOK, "Hello, "+user.Profile.Login+"!\n")
}
