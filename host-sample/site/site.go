// Package site serves the sample's pages for visitors: registration, sign-in,
// recovery and the account. It shows how a CMS builds its own pages on a
// [personal.Service]: it calls the service in process, lets
// [personalhttp.Handler] authenticate users and explain errors, and keeps the
// credentials of a session in a cookie that scripts cannot read.
package site

import (
	"context"
	"embed"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
)

//go:embed templates texts assets
var files embed.FS

// The paths of pages that others link to.
const (
	homePath     = "/"
	signInPath   = "/account/sign-in"
	registerPath = "/account/register"
	forgotPath   = "/account/forgot"
	recoverPath  = "/account/recover" // linked from mails: settings of the plugin name it
	confirmPath  = "/account/email"   // likewise
	verifyPath   = "/account/verify"
	accountPath  = "/account"
	passwordPath = "/account/password"
	newEmailPath = "/account/new-email"
	sessionsPath = "/account/sessions"
	revokePath   = "/account/sessions/end"
	othersPath   = "/account/sessions/end-others"
	dataPath     = "/account/data"
	deletePath   = "/account/delete"
	undoPath     = "/account/undo-delete" // linked from mails
	signOutPath  = "/account/sign-out"
	demoPath     = "/demo"
	verifiedPath = "/demo/verified"

	completePath     = "/account/complete"
	completeDemoPath = "/demo/complete"

	signInCodePath    = "/account/sign-in/code"
	twoFactorPath     = "/account/two-factor"
	beginPath         = "/account/two-factor/set-up"
	confirmFactorPath = "/account/two-factor/confirm"
	codesPath         = "/account/two-factor/codes"
	endPath           = "/account/two-factor/switch-off"
)

// Options are what the pages need.
type Options struct {
	Service personal.Service
	Audit   AuditLog              // to show visitors where they signed in before
	API     *personalhttp.Handler // over the same service
	APIURL  string                // of the API without a final slash, shown to developers
	Origins []string              // see [ui.Options]
	Log     *slog.Logger
}

// AuditLog is the part of [personal.Administration] that the pages need.
type AuditLog interface {
	AuditEntries(context.Context, personal.AuditEntriesRequest) (personal.AuditPage, error)
}

// site is what all page families share.
type site struct {
	Options
	pages      *ui.Pages
	session    *personalweb.Session
	signIns    signInSealer
	lastFields atomic.Pointer[[]personal.Field] // see formFields
}

// New returns a handler of all pages for visitors and their assets. It sends an
// error page for every other path. Each request must carry a [personal.Call], as by
// [personalhttp.Handler.WithCall].
func New(o Options) (http.Handler, error) {
	pages, err := ui.New(ui.Options{
		Templates: ui.Folder(files, "templates"), Texts: ui.Folder(files, "texts"), Assets: ui.Folder(files, "assets"),
		AssetPath: "/assets/", Origins: o.Origins, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	signIns, err := newSignInSealer()
	if err != nil {
		return nil, fmt.Errorf("sign-in: %w", err)
	}
	session, err := personalweb.NewSession(o.API, o.Service, personalweb.SessionOptions{Scheme: ui.SchemeOf, Log: o.Log})
	if err != nil {
		return nil, err
	}
	s := &site{Options: o, pages: pages, session: session, signIns: signIns}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", s.public(s.home))
	mux.Handle("GET "+demoPath, s.requireUser(s.demo))
	mux.Handle("GET "+verifiedPath, s.requireUser(s.verifiedDemo, personalhttp.VerifiedEmail()))
	mux.Handle("GET "+completeDemoPath, s.requireUser(s.completeDemo, personalhttp.Complete()))
	mux.HandleFunc("POST /language", ui.SwitchLanguage)
	signInPages{s}.route(mux)
	codePages{s}.route(mux)
	recoveryPages{s}.route(mux)
	accountPages{s}.route(mux)
	twoFactorPages{s}.route(mux)
	sessionPages{s}.route(mux)
	verificationPages{s}.route(mux)
	leavingPages{s}.route(mux)
	completionPages{s}.route(mux)
	return pages.Handler(mux), nil
}

func (s *site) text(r *http.Request, key string, args ...any) string {
	return s.pages.Text(r, key, args...)
}

// home shows the front page.
func (s *site) home(w http.ResponseWriter, r *http.Request) {
	viewer, signedIn := s.viewer(r)
	p := s.pageFor(w, r, signedIn)
	complete := ""
	if len(viewer.Missing) > 0 {
		complete = completionURL(r.URL.Path)
	}
	p.Body = struct {
		Name                            string // of the visitor; empty if unknown
		SignedIn                        bool
		SignIn, Register, Account, Demo string
		Complete                        string // where missing user fields are asked for; empty if there are none
		APIURL                          string
	}{nameOf(viewer), signedIn, signInPath, registerPath, accountPath, demoPath, complete, s.APIURL}
	s.pages.Render(w, r, http.StatusOK, "home", p)
}

// demo is an example of a page of the CMS that only signed-in visitors may see.
func (s *site) demo(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	p := s.page(w, r)
	p.SubNav = s.demoNav(r)
	p.Body = struct {
		Name   string
		UserID int64
	}{nameOf(user.Profile), user.ID}
	s.pages.Render(w, r, http.StatusOK, "demo", p)
}

// verifiedDemo is an example of a page that only visitors with a verified e-mail may
// see.
func (s *site) verifiedDemo(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	p := s.page(w, r)
	p.SubNav, p.Body = s.demoNav(r), user.Profile
	s.pages.Render(w, r, http.StatusOK, "verified", p)
}

// page returns what all pages have in common.
func (s *site) page(w http.ResponseWriter, r *http.Request) ui.Page {
	_, signedIn := s.viewer(r)
	return s.pageFor(w, r, signedIn)
}

// pageFor is page for a visitor who is known already. It has the notice that the
// previous page has left, and after a sign-in where the previous sign-in came from.
func (s *site) pageFor(w http.ResponseWriter, r *http.Request, signedIn bool) ui.Page {
	p := ui.Page{Nav: s.nav(r, signedIn)}
	switch done := ui.TakeNotice(w, r); {
	case done == noPendingFactor || done == codesBlocked:
		p.Notice = s.text(r, done)
	default:
		p.Notice = s.API.Confirm(r, done)
		if done == signedInNotice {
			p.Extra = s.lastSignIn(r)
		}
	}
	return p
}

func (s *site) nav(r *http.Request, signedIn bool) []ui.Link {
	if !signedIn {
		return []ui.Link{
			{Text: s.text(r, "sign_in"), Path: signInPath},
			{Text: s.text(r, "register"), Path: registerPath},
		}
	}
	return []ui.Link{
		{Text: s.text(r, "demo"), Path: demoPath},
		{Text: s.text(r, "account"), Path: accountPath},
		{Text: s.text(r, "sign_out"), Path: signOutPath, Post: true},
	}
}

// accountNav is the navigation of the account's pages.
func (s *site) accountNav(r *http.Request) []ui.Link {
	return []ui.Link{
		{Text: s.text(r, "profile"), Path: accountPath},
		{Text: s.text(r, "password"), Path: passwordPath},
		{Text: s.text(r, "email"), Path: newEmailPath},
		{Text: s.text(r, "two_factor"), Path: twoFactorPath},
		{Text: s.text(r, "sessions"), Path: sessionsPath},
		{Text: s.text(r, "data"), Path: dataPath},
	}
}

// demoNav is the navigation of the members' pages.
func (s *site) demoNav(r *http.Request) []ui.Link {
	return []ui.Link{
		{Text: s.text(r, "demo"), Path: demoPath},
		{Text: s.text(r, "verified"), Path: verifiedPath},
		{Text: s.text(r, "complete_demo"), Path: completeDemoPath},
	}
}

// anonymousKey marks the context of a visitor who is known not to be signed in.
type anonymousKey struct{}

// public serves a page to every visitor, and has viewer know who is signed in. While the
// service is unavailable the page is served nevertheless.
func (s *site) public(next http.HandlerFunc) http.Handler {
	known := func(w http.ResponseWriter, r *http.Request) {
		if _, ok := personalhttp.UserFrom(r.Context()); !ok {
			r = r.WithContext(context.WithValue(r.Context(), anonymousKey{}, true))
		}
		next(w, r)
	}
	unknown := func(w http.ResponseWriter, r *http.Request, err error) {
		s.API.Explain(r, err) // logs it
		next(w, r)
	}
	return s.API.OptionalUser(http.HandlerFunc(known), personalhttp.WithExtractor(s.session.Credentials), personalhttp.WithErrorHandler(unknown))
}

// viewer returns the profile of the visitor of a page, and whether they are signed in.
// While that is unknown, a visitor with a cookie counts as signed in, with an empty
// profile.
func (s *site) viewer(r *http.Request) (p personal.Profile, signedIn bool) {
	if user, ok := personalhttp.UserFrom(r.Context()); ok {
		return user.Profile, true
	}
	_, sent := s.session.Credentials(r)
	return personal.Profile{}, sent && r.Context().Value(anonymousKey{}) == nil
}

func nameOf(p personal.Profile) string {
	if p.Name != nil {
		return *p.Name
	}
	return p.Login
}

// problem sends an error page. It links to the page that helps, which may be nil.
func (s *site) problem(w http.ResponseWriter, r *http.Request, x personalhttp.Explanation, help *ui.Link) {
	setRetryAfter(w, x)
	_, signedIn := s.session.Credentials(r) // not asked of the service, which may be the problem
	s.pages.Problem(w, r, ui.Problem{
		Status: x.Status, Message: x.Message, Retry: x.RetryAfter > 0, Link: help, Nav: s.nav(r, signedIn),
	})
}
