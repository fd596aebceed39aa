// Command nethttp is a CMS with the personal-account module on the router of the
// standard library.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

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
	pages := http.NewServeMux()
	pages.Handle("GET /account", api.RequireUser(http.HandlerFunc(account)))
	return api.Front(pages)
}

// account is a page for signed-in users.
func account(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	w.Header().Set("Cache-Control", "no-store") // the page differs by user
	fmt.Fprintf(w, "Hello, %s!\n", user.Profile.Login)
}
