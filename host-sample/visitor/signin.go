package visitor

import (
	"net/http"
	"net/url"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

func (s *site) signInForm(r *http.Request) (formPage, error) {
	// The page to come back to travels in the query, where the form leaves it.
	action, lead := url.URL{Path: signInPath, RawQuery: r.URL.RawQuery}, ""
	if r.URL.Query().Has("next") {
		lead = s.api.Explain(r, personal.NewError(personal.CodeUnauthenticated, nil)).Message
	}
	return formPage{
		Title: s.pages.Text(r, "sign_in"),
		Lead:  lead,
		Form: ui.Form{
			Action: action.String(), Submit: s.pages.Text(r, "sign_in"),
			Controls: []ui.Control{required(s.loginControl(r, "login_or_email")), s.passwordControl(r, "password", "password")},
		},
		Asides: []aside{
			s.aside(r, "forgot_question", "forgot_link", askPath),
			s.aside(r, "register_question", "register_link", registerPath),
		},
	}, nil
}

func (s *site) signIn(w http.ResponseWriter, r *http.Request, p ui.Posted) (done, error) {
	in, err := s.service.Authorize(r.Context(), personal.AuthorizeRequest{Login: p.Get("login"), Password: p.Get("password")})
	if err != nil {
		return done{}, err
	}
	s.cookies.keep(w, r, in.Credentials)
	return done{operation: "auth", next: ui.LocalPath(r.URL.Query().Get("next"), accountPath)}, nil
}

// signOut ends the session, or all of the account's. A session that has ended
// already is as good.
func (s *site) signOut(w http.ResponseWriter, r *http.Request) {
	posted, err := ui.ReadForm(w, r)
	if err != nil {
		s.refuse(w, r, unreadable(err))
		return
	}
	c, _ := s.cookies.credentials(r)
	err = s.service.Logout(r.Context(), personal.LogoutRequest{Credentials: c, All: posted.Get("all") == "true"})
	if err != nil && personal.CodeOf(err) != personal.CodeUnauthenticated {
		s.problem(w, r, s.api.Explain(r, err)) // the session may live on, so the cookie stays
		return
	}
	s.cookies.forget(w, r)
	ui.LeaveNotice(w, r, "logout")
	ui.Redirect(w, r, homePath)
}
