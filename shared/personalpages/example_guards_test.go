package personalpages_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
)

// A page for everyone that knows who is signed in, a page for signed-in users, and the same page for
// apps, which send the headers of the API.
func ExamplePages_OptionalUser() {
	module := openModule() // in earnest: personalhost.Open(ctx, config)
	account, err := personalpages.New(module, personalpages.Config{})
	if err != nil {
		log.Fatal(err)
	}
	basket := http.HandlerFunc(showBasket)
	pages := http.NewServeMux()
	pages.Handle("/account", account)
	pages.Handle("/account/", account)
	pages.Handle("GET /{$}", account.OptionalUser(http.HandlerFunc(home)))
	pages.Handle("GET /basket", account.RequireUser(basket))    // leads visitors to the sign-in, from which they return
	pages.Handle("GET /app/basket", module.RequireUser(basket)) // responds to others with 401
	site := module.Front(pages)

	anna := visit(site)
	anna.Get("/")
	anna.Get("/basket")
	anna.Post("/account/sign-in?next=%2Fbasket", "login=anna&password=correct+horse")
	anna.Get("/")
	anna.Get("/app/basket")
	// Output:
	// / 200 Welcome!
	// /account/sign-in?next=%2Fbasket 200 Sign in · Your account
	// /basket 200 Basket of anna
	// / 200 Welcome, anna!
	// /app/basket 401 {"success":0,"result":{"TYPE":"ERROR","MESSAGE":"You are not signed in, or your session has ended. Please sign in.","CODE":"unauthenticated"}}
}

func home(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store") // the page differs by user
	if user, ok := personalhttp.UserFrom(r.Context()); ok {
		fmt.Fprintf(w, "Welcome, %s!\n", user.Profile.Login)
		return
	}
	fmt.Fprintln(w, "Welcome!")
}

func showBasket(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprintln(w, "Basket of", user.Profile.Login)
}
