package personalpages

import (
	"net/http"
	"net/url"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// requireUser serves a page to signed-in visitors only. The given options apply
// after its own.
func (s *site) requireUser(next http.HandlerFunc, options ...personalhttp.RequireOption) http.Handler {
	refreshing := func(w http.ResponseWriter, r *http.Request) {
		s.session.Refresh(w, r)
		next(w, r)
	}
	own := []personalhttp.RequireOption{personalhttp.WithExtractor(s.session.Credentials), personalhttp.WithErrorHandler(s.refuse)}
	return s.API.RequireUser(http.HandlerFunc(refreshing), append(own, options...)...)
}

// refuse responds to a request that may not see a page. Visitors who are not signed
// in are asked to sign in, and return to the page afterwards, or to that of the form they have
// sent. The cookie is kept, because another tab may have replaced it since.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, err error) {
	x, next := s.API.ErrorResponse(r, err), r.URL.RequestURI()
	if r.Method != http.MethodGet {
		next = refererPath(r)
	}
	switch {
	case personalhttp.IsPoll(r) && (x.Code == personal.CodeUnauthenticated || x.Code == personal.CodeProfileIncomplete):
		w.Header().Set("HX-Refresh", "true") // the open page must not show the other one as its part
		s.problem(w, r, x, "", nil)
	case x.Code == personal.CodeUnauthenticated:
		ui.Redirect(w, r, SignInPath+"?"+url.Values{"next": {next}}.Encode())
	case x.Code == personal.CodeProfileIncomplete:
		ui.Redirect(w, r, demandedURL(next))
	case x.Code == personal.CodeEmailUnverified:
		s.problem(w, r, x, s.text(r, "confirm_email"), &ui.Link{Text: s.text(r, "confirm_email_button"), Path: Path})
	default:
		s.problem(w, r, x, "", nil)
	}
}

// refererPath returns the path and query of the page of this site that the browser was on; [Path] if it says none.
func refererPath(r *http.Request) string {
	from, err := url.Parse(r.Referer())
	if err != nil || from.Host != r.Host {
		return Path
	}
	return personalweb.LocalPath(from.RequestURI(), Path)
}
