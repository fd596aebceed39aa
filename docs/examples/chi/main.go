// Command chi is a CMS with the personal-account module on chi: API, account pages in
// its layout, and pages of its own.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"html/template"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/personalweb"
)

func main() {
	address := flag.String("address", "127.0.0.1:8080", "where to listen")
	plugin := flag.String("plugin", "../../../bin/personal", "the plugin to install at the first start")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	module, err := personalhost.Open(ctx, personalhost.Config{Data: "data", Plugin: *plugin, URL: "http://" + *address + "/account"})
	if err != nil {
		log.Fatal(err)
	}
	account, err := personalpages.New(module, personalpages.Config{Layout: layout})
	if err != nil {
		log.Fatal(err)
	}
	if err := module.Serve(ctx, &http.Server{Addr: *address, Handler: site(module.API(), account)}); err != nil {
		log.Fatal(err)
	}
}

//go:embed layout.html
var layoutSource string

// layout is that of the whole site.
var layout = template.Must(template.New("").Parse(layoutSource))

// site returns the whole site: the API in front, the account pages, and the CMS's own.
func site(api *personalhttp.Handler, account *personalpages.Pages) http.Handler {
	router := chi.NewRouter()
	router.Use(middleware.Recoverer, middleware.StripSlashes, middleware.Compress(5))
	router.Handle("/account", account)
	router.Handle("/account/*", account)
	router.Group(func(members chi.Router) { // browsers, with the cookie of the account pages
		members.Use(func(next http.Handler) http.Handler { return account.RequireUser(next) })
		members.Get("/hello", hello)
	})
	router.Group(func(editors chi.Router) { // those of them whose user field "role" says so
		editors.Use(func(next http.Handler) http.Handler {
			return account.RequireUser(next, personalweb.RequireField("role", "editor"))
		})
		editors.Get("/drafts", drafts)
	})
	router.Group(func(apps chi.Router) { // with the headers of the API
		apps.Use(func(next http.Handler) http.Handler { return api.RequireUser(next) })
		apps.Get("/app/hello", hello)
	})
	return api.Front(router)
}

// hello is a page for signed-in users.
func hello(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	fmt.Fprintf(w, "Hello, %s!\n", user.Profile.Login)
}

// drafts is a page for editors.
func drafts(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "There are no drafts.")
}
