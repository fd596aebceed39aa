package site

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// cookieName is the name of the cookie with the credentials of a session. Scripts
// cannot read it, and browsers do not send it with posts from other sites. They do
// send it when a link in a mail is followed.
const cookieName = "account"

// cookieLifetime is the longest time that a cookie is useful: the service may end
// the session earlier.
const cookieLifetime = 30 * 24 * time.Hour

// refreshAfter is the age at which credentials are rotated: soon enough that stolen
// ones expire quickly, and late enough that pages that load at the same time
// rarely do it twice.
const refreshAfter = 5 * time.Minute

// readCookie returns the credentials of the visitor's session and when they were
// issued, which visitors can forge; false if the cookie is missing or malformed.
func readCookie(r *http.Request) (c personal.Credentials, issued time.Time, ok bool) {
	parts := strings.Split(ui.CookieValue(r, cookieName), ".")
	if len(parts) != 3 {
		return c, issued, false
	}
	id, ok := personalhttp.ParseUserID(parts[0])
	seconds, err := strconv.ParseInt(parts[2], 10, 64)
	if !ok || err != nil {
		return c, issued, false
	}
	return personal.Credentials{UserID: id, UserHash: parts[1]}, time.Unix(seconds, 0), true
}

// credentials is [personalhttp.WithExtractor]'s function. The handler validates the
// hash.
func credentials(r *http.Request) (personal.Credentials, bool) {
	c, _, ok := readCookie(r)
	return c, ok
}

func setCookie(w http.ResponseWriter, r *http.Request, c personal.Credentials) {
	id, issued := strconv.FormatInt(c.UserID, 10), strconv.FormatInt(time.Now().Unix(), 10)
	ui.SetCookie(w, r, http.Cookie{
		Name: cookieName, Value: strings.Join([]string{id, c.UserHash, issued}, "."), MaxAge: int(cookieLifetime / time.Second),
	})
}

// requireUser serves a page to signed-in visitors only. The given options apply
// after its own.
func (s *site) requireUser(next http.HandlerFunc, options ...personalhttp.RequireOption) http.Handler {
	refreshing := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			s.refresh(w, r)
		}
		next(w, r)
	}
	own := []personalhttp.RequireOption{personalhttp.WithExtractor(credentials), personalhttp.WithErrorHandler(s.refuse)}
	return s.API.RequireUser(http.HandlerFunc(refreshing), append(own, options...)...)
}

// refresh rotates old credentials and sends the new ones with the page. The page
// itself uses the old ones: the service accepts them until the new ones have been
// used, so a lost response does not end the session. If the rotation fails, the old ones
// remain valid and the next page tries again.
func (s *site) refresh(w http.ResponseWriter, r *http.Request) {
	old, issued, ok := readCookie(r)
	if age := time.Since(issued); !ok || 0 <= age && age < refreshAfter {
		return
	}
	next, err := s.Service.Refresh(r.Context(), old)
	if err != nil {
		s.Log.InfoContext(r.Context(), "credentials were not refreshed",
			"request_id", personal.CallFrom(r.Context()).RequestID, "code", string(personal.CodeOf(err)))
		return
	}
	setCookie(w, r, next)
}

// refuse responds to a request that may not see a page. Visitors who are not signed
// in are asked to sign in, and return to the page afterwards. The cookie is kept,
// because another tab may have replaced it meanwhile.
func (s *site) refuse(w http.ResponseWriter, r *http.Request, err error) {
	x := s.API.Explain(r, err)
	switch x.Code {
	case personal.CodeUnauthenticated:
	case personal.CodeProfileIncomplete:
		next := accountPath
		if r.Method == http.MethodGet {
			next = r.URL.RequestURI()
		}
		ui.Redirect(w, r, demandedURL(next))
		return
	case personal.CodeEmailUnverified:
		s.problem(w, r, x, &ui.Link{Text: s.text(r, "confirm_email"), Path: accountPath})
		return
	default:
		s.problem(w, r, x, nil)
		return
	}
	next := accountPath
	if r.Method == http.MethodGet {
		next = r.URL.RequestURI()
	}
	ui.Redirect(w, r, signInPath+"?"+url.Values{"next": {next}}.Encode())
}

// startSession stores the credentials of a new session in the browser and ends the
// browser's previous session, whose credentials are lost now. If that fails the
// visitor is signed in nevertheless, and the previous session expires later.
func (s *site) startSession(w http.ResponseWriter, r *http.Request, c personal.Credentials) {
	setCookie(w, r, c)
	previous, ok := credentials(r)
	if !ok {
		return
	}
	err := s.Service.Logout(r.Context(), personal.LogoutRequest{Credentials: previous})
	if err != nil && personal.CodeOf(err) != personal.CodeUnauthenticated {
		s.Log.WarnContext(r.Context(), "ending the previous session at sign-in failed",
			"request_id", personal.CallFrom(r.Context()).RequestID, "code", string(personal.CodeOf(err)))
	}
}
