package personaladmin_test

import (
	"log"
	"net/http"

	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
)

// administrator admits the user who registered first.
var administrator = personaladmin.GuardUser(func(u personalhttp.User) bool { return u.ID == 1 })

// Admin pages for user 1, who registered first. RequireUser leads visitors to the sign-in.
func Example() {
	module := openModule() // in earnest: personalhost.Open(ctx, config)
	account, err := personalpages.New(module, personalpages.Config{})
	if err != nil {
		log.Fatal(err)
	}
	admin, err := personaladmin.New(module, personaladmin.Config{
		Guard:    administrator,
		Sections: []personaladmin.Section{personaladmin.SectionSupport, personaladmin.SectionUsers}, // the first one is the front page
	})
	if err != nil {
		log.Fatal(err)
	}
	pages := http.NewServeMux()
	pages.Handle("/account", account)
	pages.Handle("/account/", account)
	pages.Handle("/admin/", account.RequireUser(admin))
	site := module.Front(pages)

	anna := visit(site) // user 1
	anna.Get("/admin/")
	anna.Post("/account/sign-in?next=%2Fadmin%2F", "login=anna&password=correct+horse")
	boris := visit(site)
	boris.Post("/account/sign-in?next=%2Fadmin%2F", "login=boris&password=correct+horse")
	// Output:
	// /account/sign-in?next=%2Fadmin%2F 200 Sign in · Your account
	// /admin/support 200 Why can't a user get in? · Administration
	// /admin/ 403 This is not allowed · Administration
}
