package personalpages_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
)

// A page for users with a second factor. It leads others to the page on which they set it up.
func ExamplePages_RequireUser_twoFactor() {
	module := openModule() // in earnest: personalhost.Open(ctx, config)
	account, err := personalpages.New(module, personalpages.Config{})
	if err != nil {
		log.Fatal(err)
	}
	pages := http.NewServeMux()
	pages.Handle("/account", account)
	pages.Handle("/account/", account)
	pages.Handle("GET /payouts", account.RequireUser(requireTwoFactor(http.HandlerFunc(payouts))))
	site := module.Front(pages)

	anna := visit(site)
	anna.Post("/account/sign-in?next=%2Fpayouts", "login=anna&password=correct+horse")
	carla := visit(site)
	carla.Post("/account/sign-in?next=%2Fpayouts", "login=carla&password=correct+horse")
	carla.Post("/account/sign-in/code?next=%2Fpayouts", "code=123456")
	// Output:
	// /account/two-factor 200 Two-factor sign-in · Your account
	// /account/sign-in/code?next=%2Fpayouts 200 Enter your code · Your account
	// /payouts 200 Payouts of carla
}

// requireTwoFactor passes requests of users with a second factor. It belongs behind
// RequireUser.
func requireTwoFactor(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, ok := personalhttp.UserFrom(r.Context()); !ok || !user.Profile.TwoFactor {
			http.Redirect(w, r, "/account/two-factor", http.StatusSeeOther)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func payouts(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	w.Header().Set("Cache-Control", "no-store") // the page differs by user
	fmt.Fprintln(w, "Payouts of", user.Profile.Login)
}
