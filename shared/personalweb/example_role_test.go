package personalweb_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/personalweb"
)

// A page for editors: users whose user field role, which is read-only, has the value editor. An
// administrator gives anna this role.
func ExampleRequireField() {
	module := openModule() // in earnest: personalhost.Open(ctx, config)
	account, err := personalpages.New(module, personalpages.Config{})
	if err != nil {
		log.Fatal(err)
	}
	pages := http.NewServeMux()
	pages.Handle("/account", account)
	pages.Handle("/account/", account)
	pages.Handle("GET /drafts", account.RequireUser(http.HandlerFunc(drafts), personalweb.RequireField("role", "editor")))
	site := module.Front(pages)

	anna := visit(site)
	anna.Get("/drafts")
	anna.Post("/account/sign-in?next=%2Fdrafts", "login=anna&password=correct+horse")
	err = module.Client().UpdateUser(context.Background(), personal.UpdateUserRequest{
		UserID: 1, Fields: map[string]personal.Input{"role": personal.Text("editor")},
	})
	if err != nil {
		log.Fatal(err)
	}
	anna.Get("/drafts")
	// Output:
	// /account/sign-in?next=%2Fdrafts 200 Sign in · Your account
	// /drafts 403 This is not allowed · Your account
	// /drafts 200 There are no drafts.
}

// drafts is a page for editors.
func drafts(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprintln(w, "There are no drafts.")
}
