package personalweb_test

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
)

// A site with a front page for everybody, a page for users, sign-in and sign-out.
func Example() {
	site, err := newSite(annsService())
	if err != nil {
		log.Fatal(err)
	}

	var jar []*http.Cookie
	visit := func(method, path, form string) {
		r := httptest.NewRequest(method, path, strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for _, c := range jar {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		if set := w.Result().Cookies(); len(set) > 0 {
			jar = set
		}
		fmt.Println(w.Code, cmp.Or(w.Header().Get("Location"), w.Body.String()))
	}
	visit("GET", "/", "")
	visit("GET", "/orders", "")
	visit("POST", "/sign-in?next=%2Forders", "login=ann&password=correct")
	visit("GET", "/orders", "")
	visit("GET", "/", "")
	// Output:
	// 200 Welcome!
	// 303 /sign-in?next=%2Forders
	// 303 /orders
	// 200 Orders of ann
	// 200 Welcome, ann!
}

// newSite takes module.Service() in earnest, and module.API() instead of its own handler.
func newSite(service personal.Service) (http.Handler, error) {
	api, err := personalhttp.New(service, personalhttp.Options{})
	if err != nil {
		return nil, err
	}
	session, err := personalweb.NewSession(api, service, personalweb.SessionOptions{})
	if err != nil {
		return nil, err
	}
	problem := func(w http.ResponseWriter, r *http.Request, err error) {
		x := api.ErrorResponse(r, err)
		http.Error(w, x.Message, x.Status)
	}
	signInFirst := func(w http.ResponseWriter, r *http.Request, err error) {
		if personal.CodeOf(err) != personal.CodeUnauthenticated {
			problem(w, r, err)
			return
		}
		http.Redirect(w, r, "/sign-in?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
	}
	guard := personalweb.Guard(api, problem, personalweb.DefaultName)
	fromCookie := personalhttp.WithExtractor(session.Credentials)

	pages := http.NewServeMux()
	pages.Handle("GET /{$}", api.OptionalUser(http.HandlerFunc(home), fromCookie, personalhttp.WithErrorHandler(problem)))
	pages.Handle("GET /orders", api.RequireUser(http.HandlerFunc(orders), fromCookie, personalhttp.WithErrorHandler(signInFirst)))
	pages.HandleFunc("POST /sign-in", func(w http.ResponseWriter, r *http.Request) {
		in, err := service.Authorize(r.Context(), personal.AuthorizeRequest{Login: r.PostFormValue("login"),
			Password: r.PostFormValue("password")})
		if err != nil {
			problem(w, r, err)
			return
		}
		session.SignIn(w, r, in.Credentials)
		http.Redirect(w, r, personalweb.LocalPath(r.URL.Query().Get("next"), "/"), http.StatusSeeOther)
	})
	pages.HandleFunc("POST /sign-out", func(w http.ResponseWriter, r *http.Request) {
		if err := session.SignOut(w, r, false); err != nil {
			problem(w, r, err)
			return
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	return api.Front(api.WithCall(guard(pages))), nil
}

func home(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store") // it differs by user
	if user, ok := personalhttp.UserFrom(r.Context()); ok {
		fmt.Fprintf(w, "Welcome, %s!", user.Profile.Login)
		return
	}
	fmt.Fprint(w, "Welcome!")
}

func orders(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	user, _ := personalhttp.UserFrom(r.Context())
	fmt.Fprintf(w, "Orders of %s", user.Profile.Login)
}

// annsService has one account.
func annsService() personal.Service {
	return &personaltest.Service{
		AuthorizeFunc: func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
			return personal.SignedIn{Credentials: ann}, nil
		},
		ProfileFunc: func(context.Context, personal.Credentials) (personal.Profile, error) {
			return personal.Profile{Login: "ann"}, nil
		},
	}
}
