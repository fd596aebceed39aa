// Command chi is a CMS with the personal-account module on chi: API, account pages and
// admin pages in its layout, and its own pages.
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

	"github.com/cms-personal/personal/shared/personaladmin"
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
	admin, err := personaladmin.New(module, personaladmin.Config{Layout: layout, Guard: administrator})
	if err != nil {
		log.Fatal(err)
	}
	if err := module.Serve(ctx, &http.Server{Addr: *address, Handler: site(module.API(), account, admin)}); err != nil {
		log.Fatal(err)
	}
}

//go:embed layout.html
var layoutSource string

// layout is that of the whole site.
var layout = template.Must(template.New("").Parse(layoutSource))

// administrator admits the user who registered first to the admin pages.
var administrator = personaladmin.GuardUser(func(u personalhttp.User) bool { return u.ID == 1 })

// site returns the whole site: the API in front, the account pages, the admin pages, and the
// CMS's own.
func site(api *personalhttp.Handler, account *personalpages.Pages, admin http.Handler) http.Handler {
	router := chi.NewRouter()
	router.Use(middleware.Recoverer, middleware.StripSlashes, middleware.Compress(5), withPolicy)
	router.Handle("/", http.RedirectHandler(personalpages.Path, http.StatusSeeOther))
	router.Handle("/account", account)
	router.Handle("/account/*", account)
	router.Handle("/admin", account.RequireUser(admin))
	router.Handle("/admin/*", account.RequireUser(admin))
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

// withPolicy sends the Content-Security-Policy of the site, which its own layout needs.
func withPolicy(next http.Handler) http.Handler {
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		next.ServeHTTP(w, r)
	})
}

// hello is a page for signed-in users.
func hello(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	w.Header().Set("Cache-Control", "no-store") // the page differs by user
	fmt.Fprintf(w, "Hello, %s!\n", user.Profile.Login)
}

// drafts is a page for editors.
func drafts(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprintln(w, "There are no drafts.")
}
