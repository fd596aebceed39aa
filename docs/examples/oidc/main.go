// Command oidc is a CMS whose users can sign in with an OpenID provider besides the account
// pages, on chi.
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

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
)

func main() {
	address := flag.String("address", "127.0.0.1:8080", "where to listen")
	plugin := flag.String("plugin", "../../../bin/personal", "the plugin to install at the first start")
	issuer := flag.String("issuer", "http://localhost:9998/", "the OpenID provider")
	client := flag.String("client", "web", "the id of this site at the provider")
	secret := flag.String("secret-file", "", "a file with the secret of this site at the provider; none for a public client")
	register := flag.Bool("register", true, "whether new users of the provider, and others, may register")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	url := "http://" + *address
	admission := &personal.Admission{Judge: func(_ context.Context, r personal.AdmissionRequest) error {
		if r.Registers() && !*register {
			return personal.Refuse(personal.LocalText{"en": "Ask the administrator for an account."})
		}
		return nil
	}}
	module, err := personalhost.Open(ctx, personalhost.Config{Data: "data", Plugin: *plugin, URL: url + "/account", Admission: admission})
	if err != nil {
		log.Fatal(err)
	}
	key, err := readSecret(*secret)
	if err != nil {
		log.Fatal(err)
	}
	handler, err := newSite(module, provider{name: "Example ID", issuer: *issuer, client: *client, secret: key,
		callback: url + callbackPath})
	if err != nil {
		log.Fatal(err)
	}
	if err := module.Serve(ctx, &http.Server{Addr: *address, Handler: handler}); err != nil {
		log.Fatal(err)
	}
}

// layout is that of the whole site.
//
//go:embed layout.html
var layout string

// newSite returns the whole site: the API in front, the account pages, those of single sign-on,
// and the CMS's own.
func newSite(module *personalhost.Module, p provider) (http.Handler, error) {
	account, err := personalpages.New(module, personalpages.Config{
		Layout: template.Must(template.New("").Parse(layout)),
		Block: func(_ *http.Request, page string) template.HTML {
			if page == "sign-in" || page == "profile" {
				return template.HTML(`<p><a href="` + startPath + `">` + template.HTMLEscapeString(p.name) + `</a></p>`)
			}
			return ""
		},
	})
	if err != nil {
		return nil, err
	}
	single, err := newSignOn(module, account, p)
	if err != nil {
		return nil, err
	}
	return site(module.API(), account, single), nil
}

func site(api *personalhttp.Handler, account, single http.Handler) http.Handler {
	router := chi.NewRouter()
	router.Use(middleware.Recoverer, middleware.StripSlashes, middleware.Compress(5))
	router.Handle("/account", account)
	router.Handle("/account/*", account)
	router.Handle("/sso/*", single)
	router.Group(func(apps chi.Router) { // with the headers of the API
		apps.Use(func(next http.Handler) http.Handler { return api.RequireUser(next) })
		apps.Get("/app/hello", hello)
	})
	return api.Front(router)
}

// hello is a page for apps. A page for browsers is behind [personalpages.Pages.RequireUser].
func hello(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	w.Header().Set("Cache-Control", "no-store") // the page differs by user
	fmt.Fprintf(w, "Hello, %s!\n", user.Profile.Login)
}
