// Package personalweb has parts of a site that renders its pages on the server: the
// session of a visitor in a cookie ([Session]), a guard against forged requests ([Guard])
// and the check of paths to return to ([LocalPath]). Together with
// [personalhttp.Handler.RequireUser] and [personalhttp.Handler.OptionalUser] they are what
// pages of a CMS need besides its own forms.
package personalweb

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// The defaults of [SessionOptions].
const (
	DefaultName = "account"
	DefaultLife = 30 * 24 * time.Hour // the default of the setting session.absolute
)

// refreshAfter is the age at which [Session.Refresh] rotates credentials: soon enough that
// stolen ones expire quickly, and late enough that pages that load at the same time
// rarely do it twice.
const refreshAfter = 5 * time.Minute

// SessionOptions configure a [Session].
type SessionOptions struct {
	// Name is the cookie's name over plain HTTP; [DefaultName] if empty. Over HTTPS it
	// has the prefix __Host-.
	Name string

	// Life is the cookie's Max-Age, in whole seconds; [DefaultLife] if zero. Set it to the
	// setting session.absolute if the site changes that: a shorter one signs users out of
	// the browser earlier. The service may end the session before.
	Life time.Duration

	Log *slog.Logger // [slog.Default] if nil
}

// Session keeps a visitor's credentials in a cookie: HttpOnly, SameSite=Lax, and Secure
// over HTTPS (see [SetCookie]). Browsers do not send it with posts from other sites; they
// do when a link in a mail is followed. It is safe for concurrent use.
//
// Pages need no refresh: each view of a page behind RequireUser or OptionalUser counts as
// use, which extends the session by the setting session.idle, until session.absolute. Polls
// ([personalhttp.IsPoll]) do not count. [Session.Refresh] rotates the hash: a stolen copy of
// the old one is then refused, and its use ends the session.
type Session struct {
	options SessionOptions
	api     *personalhttp.Handler
	service personal.Service
}

// NewSession returns the session of a site's pages. The service is the one that the pages
// call, and api is over the same one. The error names the option that is invalid.
func NewSession(api *personalhttp.Handler, service personal.Service, o SessionOptions) (*Session, error) {
	o.Name, o.Life = cmp.Or(o.Name, DefaultName), cmp.Or(o.Life, DefaultLife)
	o.Log = cmp.Or(o.Log, slog.Default())
	if err := (&http.Cookie{Name: o.Name}).Valid(); err != nil || strings.HasPrefix(o.Name, "__") {
		return nil, fmt.Errorf("personalweb: session: Name %q cannot be that of a cookie, to which __Host- is added over HTTPS", o.Name)
	}
	if o.Life < time.Second {
		return nil, errors.New("personalweb: session: Life is less than 1s")
	}
	return &Session{o, api, service}, nil
}

// Credentials returns those of a request; false if the cookie is missing or malformed. The
// service has not verified them. It is for [personalhttp.WithExtractor].
func (s *Session) Credentials(r *http.Request) (personal.Credentials, bool) {
	c, _, ok := s.read(r)
	return c, ok
}

// read also returns when the credentials were issued, which visitors can forge.
func (s *Session) read(r *http.Request) (c personal.Credentials, issued time.Time, ok bool) {
	parts := strings.Split(CookieValue(s.api, r, s.options.Name), ".")
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

// Set stores new credentials of the visitor's session: operations such as ChangePassword
// return them. The response must not be cached: Set sends Cache-Control: no-store.
func (s *Session) Set(w http.ResponseWriter, r *http.Request, c personal.Credentials) {
	id, issued := strconv.FormatInt(c.UserID, 10), strconv.FormatInt(time.Now().Unix(), 10)
	s.send(w, r, strings.Join([]string{id, c.UserHash, issued}, "."), int(s.options.Life/time.Second))
}

// Clear deletes the cookie of a session that has ended, by Delete for example, and that of its proof.
func (s *Session) Clear(w http.ResponseWriter, r *http.Request) {
	s.send(w, r, "", -1)
	ForgetProof(s.api, w, r)
}

func (s *Session) send(w http.ResponseWriter, r *http.Request, value string, maxAge int) {
	w.Header().Set("Cache-Control", "no-store")
	SetCookie(s.api, w, r, http.Cookie{Name: s.options.Name, Value: value, MaxAge: maxAge})
}

// SignIn stores the credentials of a new session and ends the browser's previous one,
// whose credentials are lost now, and deletes its proof. If that fails the visitor is signed in nevertheless, a
// warning is logged, and the previous session expires later.
func (s *Session) SignIn(w http.ResponseWriter, r *http.Request, c personal.Credentials) {
	s.Set(w, r, c)
	ForgetProof(s.api, w, r)
	if previous, ok := s.Credentials(r); ok {
		if err := s.end(r, previous, false); err != nil {
			s.log(r, slog.LevelWarn, "ending the previous session at sign-in failed", err)
		}
	}
}

// SignOut ends the visitor's session, or all of the account, and deletes the cookie. It
// also succeeds if the session has ended before. After an error of the service the session
// may still exist, so the cookie is kept.
func (s *Session) SignOut(w http.ResponseWriter, r *http.Request, all bool) error {
	c, _ := s.Credentials(r)
	if err := s.end(r, c, all); err != nil {
		return err
	}
	s.Clear(w, r)
	return nil
}

func (s *Session) end(r *http.Request, c personal.Credentials, all bool) error {
	err := s.service.Logout(r.Context(), personal.LogoutRequest{Credentials: c, All: all})
	if personal.CodeOf(err) == personal.CodeUnauthenticated {
		return nil
	}
	return err
}

// Refresh rotates credentials that are older than five minutes, and sends the new ones with
// the page. Call it for a signed-in user before the page is written; it ignores polls, and
// requests other than GET. The page itself uses the old ones: the service accepts them until
// the new ones have been used, so a lost response does not end the session. If the rotation
// fails, the old ones remain valid and the next page tries again.
func (s *Session) Refresh(w http.ResponseWriter, r *http.Request) {
	old, issued, ok := s.read(r)
	if age := time.Since(issued); !ok || r.Method != http.MethodGet || personalhttp.IsPoll(r) || 0 <= age && age < refreshAfter {
		return
	}
	next, err := s.service.Refresh(r.Context(), old)
	if err != nil {
		s.log(r, slog.LevelInfo, "credentials were not refreshed", err)
		return
	}
	s.Set(w, r, next)
}

func (s *Session) log(r *http.Request, level slog.Level, message string, err error) {
	s.options.Log.Log(r.Context(), level, message,
		"request_id", personal.CallFrom(r.Context()).RequestID, "code", string(personal.CodeOf(err)))
}
