package adminpages

import (
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
)

// enterBody is the page that a link leads to.
type enterBody struct{ Code string }

// showEnter spends nothing: programs that look at links before people do must not
// use them up.
func (s *site) showEnter(w http.ResponseWriter, r *http.Request) {
	s.pages.Render(w, r, http.StatusOK, "enter", ui.Page{Body: enterBody{Code: r.URL.Query().Get("code")}})
}

// enter spends the code.
func (s *site) enter(w http.ResponseWriter, r *http.Request) {
	posted, err := ui.ReadForm(w, r)
	if err != nil || !s.Guard.Enter(w, r, posted.Get("code")) {
		s.pages.Problem(w, r, ui.Problem{Status: http.StatusForbidden, Message: s.pages.Text(r, "enter_refused")})
		return
	}
	ui.Redirect(w, r, front)
}

func (s *site) leave(w http.ResponseWriter, r *http.Request) {
	s.Guard.Leave(w, r)
	ui.Redirect(w, r, "/")
}

// stranger tells how to become an administrator. A page whose parts are asked for
// by htmx is loaded anew, so that it tells that too.
func (s *site) stranger(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("HX-Refresh", "true")
	s.pages.Problem(w, r, ui.Problem{Status: http.StatusUnauthorized, Message: s.pages.Text(r, "stranger")})
}
