// Command gin is a CMS with the personal-account module on gin.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/gin-gonic/gin"

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
	router := gin.New()
	router.Use(gin.Recovery())
	members := router.Group("/", requireUser(api))
	members.GET("/account", account)
	return inFront(api, router)
}

// inFront serves the API before the router, and gives all other requests their call: requireUser's
// spans cannot see the status of the page.
func inFront(api *personalhttp.Handler, router http.Handler) http.Handler {
	return api.Front(api.WithCall(router))
}

// requireUser returns RequireUser as a middleware of gin.
func requireUser(api *personalhttp.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		api.RequireUser(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		c.Abort() // the handlers after this one have run, or the user is rejected
	}
}

// account is a page for signed-in users.
func account(c *gin.Context) {
	user, _ := personalhttp.UserFrom(c.Request.Context())
	c.Header("Cache-Control", "no-store") // the page differs by user
	c.String(http.StatusOK, "Hello, %s!\n", user.Profile.Login)
}
