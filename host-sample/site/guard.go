package site

import (
	"net/http"
	"net/url"
	"time"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// refreshAfter is the age at which a pair is exchanged for a new one: often
// enough that a stolen one is of little use, and seldom enough that pages
// loading at once rarely do it twice.
const refreshAfter = 5 * time.Minute

// signedIn keeps a page for signed-in visitors. Options come after its own.
func (s *site) signedIn(next http.HandlerFunc, options ...personalhttp.RequireOption) http.Handler {
	fresh := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			s.refresh(w, r)
		}
		next(w, r)
	}
	own := []personalhttp.RequireOption{personalhttp.WithExtractor(s.cookies.credentials), personalhttp.WithErrorHandler(s.refuse)}
	return s.api.RequireUser(http.HandlerFunc(fresh), append(own, options...)...)
}

// refresh sends a new pair along with the page when the old one has aged. The
// page itself goes on with the old one: the service holds on to that until the
// new one has been shown, so an answer that gets lost signs nobody out. When it
// fails the old pair is as good, and the next page tries again.
func (s *site) refresh(w http.ResponseWriter, r *http.Request) {
	old, ok := s.cookies.read(r)
	if age := time.Since(old.made); !ok || 0 <= age && age < refreshAfter {
		return
	}
	next, err := s.service.Refresh(r.Context(), old.Credentials)
	if err != nil {
		s.log.InfoContext(r.Context(), "a pair was not refreshed",
			"request_id", personal.CallFrom(r.Context()).RequestID, "code", string(personal.CodeOf(err)))
		return
	}
	s.cookies.keep(w, r, next)
}

// refuse answers who may not see a page: who is not signed in is asked to, and
// comes back then. The cookie stays whatever the reason: another tab may have
// put a better one there meanwhile.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, err error) {
	x := s.api.Explain(r, err)
	if x.Code != personal.CodeUnauthenticated {
		s.problem(w, r, x)
		return
	}
	next := accountPath
	if r.Method == http.MethodGet {
		next = r.URL.RequestURI()
	}
	ui.Redirect(w, r, signInPath+"?"+url.Values{"next": {next}}.Encode())
}

// problem answers with an error page.
func (s *site) problem(w http.ResponseWriter, r *http.Request, x personalhttp.Explanation) {
	tellWhen(w, x)
	_, signedIn := s.cookies.read(r) // the service may be the problem
	s.pages.Problem(w, r, ui.Problem{
		Status: x.Status, Message: x.Message, Retry: x.RetryAfter > 0, Nav: s.nav(r, signedIn),
	})
}

// viewer returns what to call the visitor of a page that everybody may see, and
// whether he is signed in. Where that cannot be told now, the cookie counts.
func (s *site) viewer(r *http.Request) (name string, signedIn bool) {
	if user, ok := personalhttp.UserFrom(r.Context()); ok {
		return nameOf(user.Profile), true
	}
	c, ok := s.cookies.credentials(r)
	if !ok {
		return "", false
	}
	p, err := s.service.Profile(r.Context(), c)
	if err != nil {
		return "", s.api.Explain(r, err).Code != personal.CodeUnauthenticated
	}
	return nameOf(p), true
}

func nameOf(p personal.Profile) string {
	if p.Name != nil {
		return *p.Name
	}
	return p.Login
}
