package personalhost_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
)

// address is where the CMS listens.
var address = "127.0.0.1:8080"

// A whole CMS: the API, the account pages, and a page for signed-in users. The plugin runs in a
// process of its own, and all data is in the folder data.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config := personalhost.Config{Data: "data", Plugin: "bin/personal", URL: "http://" + address + "/account"}
	module, err := personalhost.Open(ctx, config)
	if err != nil {
		log.Fatal(err)
	}
	account, err := personalpages.New(module, personalpages.Config{})
	if err != nil {
		log.Fatal(err)
	}
	pages := http.NewServeMux()
	pages.Handle("/account", account)
	pages.Handle("/account/", account)
	pages.Handle("GET /hello", account.RequireUser(http.HandlerFunc(hello)))
	go visit(stop) // only in this example: boris opens /hello and registers, then the CMS stops
	if err := module.Serve(ctx, &http.Server{Addr: address, Handler: module.Front(pages)}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// /account/sign-in?next=%2Fhello 200 Sign in · Your account
	// /hello 200 Hello, boris!
}

func hello(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	w.Header().Set("Cache-Control", "no-store") // the page differs by user
	fmt.Fprintf(w, "Hello, %s!\n", user.Profile.Login)
}
