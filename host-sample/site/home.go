package site

import (
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// homePage is what the template of the front page gets.
type homePage struct {
	Name     string // of the visitor; empty if unknown
	SignedIn bool
	SignIn   string
	Register string
	Account  string
	Demo     string
	APIURL   string
}

func (s *site) home(w http.ResponseWriter, r *http.Request) {
	name, signedIn := s.viewer(r)
	s.pages.Render(w, r, http.StatusOK, "home", ui.Page{
		Nav: s.nav(r, signedIn), Notice: s.notice(w, r),
		Body: homePage{
			Name: name, SignedIn: signedIn, APIURL: s.apiURL,
			SignIn: signInPath, Register: registerPath, Account: accountPath, Demo: demoPath,
		},
	})
}

// demoPage is what the template of the demo page gets.
type demoPage struct {
	Name   string
	UserID int64
}

// demo is a page of the CMS's own that only signed-in visitors see.
func (s *site) demo(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	p := s.page(w, r)
	p.Body = demoPage{Name: nameOf(user.Profile), UserID: user.ID}
	s.pages.Render(w, r, http.StatusOK, "demo", p)
}
