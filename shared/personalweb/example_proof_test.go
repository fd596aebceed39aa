package personalweb_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/personalweb"
)

// A user closes their shop, an operation of the CMS that asks for the password again, and for a code
// if the user has a second factor. The browser keeps the proof, so that the account pages do not ask
// once more.
func ExampleKeepGivenProof() {
	module := openModule() // in earnest: personalhost.Open(ctx, config)
	account, err := personalpages.New(module, personalpages.Config{})
	if err != nil {
		log.Fatal(err)
	}
	pages := http.NewServeMux()
	pages.Handle("/account", account)
	pages.Handle("/account/", account)
	pages.Handle("POST /shop/close", account.RequireUser(shop{module.API(), module.Service(), account.Session()}))
	site := module.Front(pages)

	anna := visit(site)
	anna.Post("/account/sign-in", "login=anna&password=correct+horse")
	anna.Get("/account/delete") // asks who they are
	anna.Post("/shop/close", "password=wrong")
	anna.Post("/shop/close", "password=correct+horse")
	anna.Get("/account/delete") // does not
	// Output:
	// /account 200 Profile · Your account
	// /account/confirm?next=%2Faccount%2Fdelete 200 Confirm that it is you · Your account
	// /shop/close 422 Please check what you have entered. This is not your current password. Enter it again.
	// /shop/close 200 The shop is closed: anna
	// /account/delete 200 Delete the account · Your account
}

// shop closes the shop of a user.
type shop struct {
	api     *personalhttp.Handler
	service personal.Service
	session *personalweb.Session
}

func (s shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	credentials, _ := s.session.Credentials(r)
	proof, err := s.service.Prove(r.Context(), personal.ProveRequest{
		Credentials: credentials, Password: r.PostFormValue("password"), Code: r.PostFormValue("code"),
	})
	if err != nil { // in earnest: the form again
		x := s.api.ErrorResponse(r, err)
		http.Error(w, x.Message+" "+x.FieldErrors["password"].Message, x.Status)
		return
	}
	personalweb.KeepGivenProof(s.api, w, r, proof)
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprintln(w, "The shop is closed:", user.Profile.Login)
}
