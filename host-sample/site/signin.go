package site

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
	s.begin(w, r, in.Credentials)
	return done{operation: "auth", next: ui.LocalPath(r.URL.Query().Get("next"), accountPath)}, nil
}

// begin gives the browser the pair of a session that has just been opened, and
// ends the session it had before: nobody will hold that one's pair any more. When
// ending it fails the visitor is signed in all the same, and the old session goes
// by itself when its time is up.
func (s *site) begin(w http.ResponseWriter, r *http.Request, opened personal.Credentials) {
	s.cookies.keep(w, r, opened)
	before, ok := s.cookies.credentials(r)
	if !ok {
		return
	}
	err := s.service.Logout(r.Context(), personal.LogoutRequest{Credentials: before})
	if err != nil && personal.CodeOf(err) != personal.CodeUnauthenticated {
		s.log.WarnContext(r.Context(), "the session before a sign-in was not ended",
			"request_id", personal.CallFrom(r.Context()).RequestID, "code", string(personal.CodeOf(err)))
	}
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
