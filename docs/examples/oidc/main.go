// Command oidc is a CMS whose users can sign in with an OpenID provider besides the account pages.
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
	"github.com/cms-personal/personal/shared/personaloidc"
	"github.com/cms-personal/personal/shared/personalpages"
)

func main() {
	address := flag.String("address", "localhost:8080", "where to listen")
	plugin := flag.String("plugin", "../../../bin/personal", "the plugin to install at the first start")
	p := personaloidc.Provider{Name: "example"}
	flag.StringVar(&p.Issuer, "issuer", "http://localhost:9998/", "the OpenID provider")
	flag.StringVar(&p.ClientID, "client", "web", "the id of this site at the provider")
	flag.StringVar(&p.SecretFile, "secret-file", "", "a file with the secret of this site at the provider; none for a public client")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	module, err := personalhost.Open(ctx, personalhost.Config{Data: "data", Plugin: *plugin, URL: "http://" + *address + "/account"})
	if err != nil {
		log.Fatal(err)
	}
	account, err := personalpages.New(module, personalpages.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := personaloidc.New(module, account, personaloidc.Config{Providers: []personaloidc.Provider{p}}); err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/account", account)
	mux.Handle("/account/", account)
	mux.Handle("/{$}", http.RedirectHandler("/account", http.StatusSeeOther))
	mux.Handle("/app/hello", module.RequireUser(http.HandlerFunc(hello))) // for apps, with the headers of the API
	if err := module.Serve(ctx, &http.Server{Addr: *address, Handler: module.Front(mux)}); err != nil {
		log.Fatal(err)
	}
}

// hello is a page for apps. A page for browsers is behind [personalpages.Pages.RequireUser].
func hello(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	w.Header().Set("Cache-Control", "no-store") // the page differs by user
	fmt.Fprintf(w, "Hello, %s!\n", user.Profile.Login)
}
