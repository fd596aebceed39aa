// Package personalpages has the account pages of a site: registration, sign-in with and
// without a second factor, recovery, confirmation of an e-mail, profile, password, sessions,
// export, deletion. A CMS mounts them below [Path] in its own layout:
//
//	account, err := personalpages.New(module, personalpages.Config{Layout: layout})
//	mux.Handle("/account", account)
//	mux.Handle("/account/", account)
//
// The pages are rendered on the server and work without scripts. They call the service in
// process, keep the session in a cookie that scripts cannot read ([personalweb.Session]) and
// refuse forged requests ([personalweb.Guard]).
package personalpages

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages/texts"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

//go:embed templates assets
var files embed.FS

// The paths that a site's own pages link to.
const (
	Path         = "/account" // the profile; all other pages are below it
	SignInPath   = Path + "/sign-in"
	RegisterPath = Path + "/register"
)

const (
	forgotPath   = Path + "/forgot"
	mailboxPath  = Path + "/mailbox"
	recoverPath  = Path + "/recover"         // linked from mails
	previewPath  = Path + "/recover/preview" // for the script
	confirmPath  = Path + "/email"           // linked from mails
	verifyPath   = Path + "/verify"
	provePath    = Path + "/confirm"
	passwordPath = Path + "/password"
	newEmailPath = Path + "/new-email"
	sessionsPath = Path + "/sessions"
	revokePath   = Path + "/sessions/end"
	othersPath   = Path + "/sessions/end-others"
	dataPath     = Path + "/data"
	deletePath   = Path + "/delete"
	undoPath     = Path + "/undo-delete" // linked from mails
	signOutPath  = Path + "/sign-out"
	completePath = Path + "/complete"
	LanguagePath = Path + "/language"
	assetsPath   = Path + "/assets/"

	passkeysPath      = Path + "/passkeys"
	addPasskeyPath    = Path + "/passkeys/add"
	renamePasskeyPath = Path + "/passkeys/rename"
	removePasskeyPath = Path + "/passkeys/remove"
	beginPasskeyPath  = Path + "/passkeys/begin" // for the script

	providersPath = Path + "/providers/{provider}"
	callbackPath  = providersPath + "/callback" // registered at the provider
	endedPath     = providersPath + "/sign-out" // back-channel logout, for the provider
	choosePath    = Path + "/sign-in/choose"
	linkedPath    = Path + "/linked"
	addLinkPath   = Path + "/linked/add/{provider}"
	linkPath      = Path + "/linked/confirm"
	dontLinkPath  = Path + "/linked/cancel"
	unlinkPath    = Path + "/linked/remove"
	proveAtPath   = Path + "/confirm/at/{provider}"
	proveUserPath = Path + "/confirm/code" // the code of a second factor, after a provider

	mailCodePath   = Path + "/sign-in/mail"        // has a code mailed
	mailedCodePath = Path + "/sign-in/mailed-code" // takes it
	proveMailPath  = Path + "/confirm/mail"
	proveCodePath  = Path + "/confirm/mailed-code"

	signInCodePath    = Path + "/sign-in/code"
	twoFactorPath     = Path + "/two-factor"
	beginPath         = Path + "/two-factor/set-up"
	confirmFactorPath = Path + "/two-factor/confirm"
	codesPath         = Path + "/two-factor/codes"
	endPath           = Path + "/two-factor/switch-off"
)

// Module is the part of personalhost.Module that the pages need.
type Module interface {
	API() *personalhttp.Handler
	Service() personal.Service               // what visitors may do
	Administration() personal.Administration // the last sign-in, how many recovery codes are left, and sign-ins by providers
}

// Config is what a site gives to the pages. The zero value is valid.
type Config struct {
	// Layout is the site's own: a template with the blocks "title", "head" and "body", see
	// [ui.TemplateLayout]. LayoutFunc is a layout that is no template. Without either the pages
	// have their own layout. With the site's layout the site sends the
	// Content-Security-Policy for what it loads; the pages need no more than script-src 'self',
	// style-src 'self' and, for passkeys, connect-src 'self', besides the Sources of Inputs.
	Layout     *template.Template
	LayoutFunc ui.Layout

	// FrameAncestors are the sources of the Content-Security-Policy that may frame the pages;
	// 'none' if empty. FormAction and BaseURI are where the forms and the <base> of the site's
	// layout may lead; 'self' and 'none' if empty. These policies hold beside the site's own.
	FrameAncestors, FormAction, BaseURI string

	// Style is the URL of the style sheet that the pages load; their own if empty.
	Style string

	// Home is the path to which the pages lead after a sign-out; "/" if empty.
	Home string

	// Nav returns the site's links in the pages' own layout; none if nil.
	Nav func(r *http.Request, signedIn bool) []ui.Link

	// Texts replaces and adds texts: LOCALE.json is an object of texts by key. Every language must be one of
	// [personalhttp.Handler.Locales]. A text that it lacks is that of a parent, such as de of de-AT, or else of the
	// default language, or English; the log says how many it lacks.
	Texts fs.FS

	// Inputs are what forms ask for the site's [personal.Admission], below their own controls.
	Inputs []Input

	// Templates replaces single pages: NAME.html, where NAME is the path below [Path], such
	// as register, with "-" for "/"; profile for the path itself; recovery-codes for the page
	// that shows them. A template defines "title" and "main", see [ui.Options].
	Templates fs.FS

	// AfterRegister and AfterSignIn are called before the response to a registration or a
	// sign-in is sent, and may set cookies. Credentials are zero after a registration whose
	// e-mail must be confirmed first. If next is not empty, it is the path on this site to which
	// the visitor is led.
	AfterRegister, AfterSignIn func(w http.ResponseWriter, r *http.Request, in personal.SignedIn) (next string)

	// Block returns what a page shows below its own content, empty for nothing. The pages have
	// the same names as in Templates. The user is in the request's context, if there is one.
	Block func(r *http.Request, page string) template.HTML

	// Session configures the cookie.
	Session personalweb.SessionOptions

	Log *slog.Logger // [slog.Default] if nil
}

// Pages serves the account pages. It is safe for concurrent use.
type Pages struct {
	site    *site
	handler http.Handler
}

// site is what all page families share.
type site struct {
	Config
	API        *personalhttp.Handler
	Service    personal.Service
	admin      administration
	pages      *ui.Pages
	session    *personalweb.Session
	sealer     sealer
	providers  []Provider
	onces      *onces
	lastFields atomic.Pointer[[]personal.Field] // see formFields

	lastFeatures atomic.Pointer[features]
}

// administration is the part of [personal.Administration] that the pages need. It does not check
// who asks.
type administration interface {
	AuditEntries(context.Context, personal.AuditEntriesRequest) (personal.AuditPage, error)
	Explain(context.Context, personal.ExplainRequest) (personal.Explanation, error)
	User(context.Context, int64) (personal.UserRecord, error)

	SignIn(context.Context, personal.SignInRequest) (personal.SignedIn, error)
	RegisterIdentity(context.Context, personal.RegisterIdentityRequest) (personal.SignedIn, error)
	LinkIdentity(context.Context, personal.LinkIdentityRequest) error
	UnlinkIdentity(context.Context, personal.UnlinkIdentityRequest) error
	ProveIdentity(context.Context, personal.ProveIdentityRequest) (personal.Proof, error)
	EndIdentitySessions(context.Context, personal.EndIdentitySessionsRequest) (int64, error)
}

// New returns the pages of a module. The error names what is invalid in the config: a
// template that cannot be parsed, a text that is missing, an input without a transient parameter.
func New(m Module, c Config) (*Pages, error) {
	if err := checkInputs(c.Inputs, m.API().Options().Transient); err != nil {
		return nil, fmt.Errorf("account pages: %w", err)
	}
	c.Home = cmp.Or(c.Home, "/")
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Session.Name = cmp.Or(c.Session.Name, personalweb.DefaultName)
	c.Session.Log = cmp.Or(c.Session.Log, c.Log)
	pages, errPages := ui.New(ui.Options{
		Templates: ui.Folder(files, "templates"), Texts: texts.Files, Assets: ui.Folder(files, "assets"),
		AssetPath: assetsPath, LanguagePath: LanguagePath,
		Layout: c.LayoutFunc, LayoutTemplate: c.Layout,
		FrameAncestors: c.FrameAncestors, FormAction: c.FormAction, BaseURI: c.BaseURI, Style: c.Style, SiteTexts: c.Texts, SiteTemplates: c.Templates,
		API: m.API(), Cookies: []string{c.Session.Name, signInCookie, personalweb.ProofCookie, registeredCookie, attemptsCookie, signOutCookie}, Log: c.Log,
	})
	sealer, errSeal := newSealer(m.API())
	session, errSession := personalweb.NewSession(m.API(), m.Service(), c.Session)
	if err := errors.Join(errPages, errSeal, errSession); err != nil {
		return nil, fmt.Errorf("account pages: %w", err)
	}
	p := &site{Config: c, API: m.API(), Service: m.Service(), admin: m.Administration(), pages: pages, session: session, sealer: sealer}
	p.onces = newOnces(p)
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+LanguagePath, pages.SwitchLanguage)
	signInPages{p}.route(mux)
	codePages{p}.route(mux)
	recoveryPages{p}.route(mux)
	proofPages{p}.route(mux)
	mailedCodePages{p}.route(mux)
	accountPages{p}.route(mux)
	passkeyPages{p}.route(mux)
	twoFactorPages{p}.route(mux)
	sessionPages{p}.route(mux)
	verificationPages{p}.route(mux)
	leavingPages{p}.route(mux)
	missingFieldsPages{p}.route(mux)
	providerPages{p}.route(mux)
	linkedPages{p}.route(mux)
	return &Pages{site: p, handler: mendMailLinks(p.takePostedResponse(p.prepared(pages.Handler(mux))))}, nil
}

// ServeHTTP serves the pages, and an error page for any other path.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.handler.ServeHTTP(w, r) }

// Session returns the session that the pages keep in a cookie.
func (p *Pages) Session() *personalweb.Session { return p.site.session }

// RequireUser passes requests of signed-in visitors to next, a page of the site's own. It
// leads others to the sign-in, from which they return, and those who lack what the options
// demand to the page that asks for it. The user is in the request's context, see
// [personalhttp.UserFrom]. Forged requests are refused, see [personalweb.Guard].
func (p *Pages) RequireUser(next http.Handler, options ...personalhttp.RequireOption) http.Handler {
	return p.site.prepared(p.site.pages.Guard(p.site.requireUser(next.ServeHTTP, options...)))
}

// OptionalUser passes every request to next, a page of the site's own, with the user in its
// context if the visitor is signed in. While the service is unavailable there is none. It
// refuses forged requests as [Pages.RequireUser] does.
func (p *Pages) OptionalUser(next http.Handler) http.Handler {
	return p.site.prepared(p.site.pages.Guard(p.site.public(next.ServeHTTP)))
}

// Page returns what a page of the site that package ui renders has in common with the account
// pages: the navigation, the notice that the previous page has left and, after a sign-in,
// where the one before it came from.
func (p *Pages) Page(w http.ResponseWriter, r *http.Request) ui.Page { return p.site.page(w, r) }

// Viewer returns the profile of the visitor of a page behind [Pages.OptionalUser] or
// [Pages.RequireUser], and whether they are signed in. While the service is unavailable, a
// visitor with a cookie counts as signed in, with an empty profile.
func (p *Pages) Viewer(r *http.Request) (personal.Profile, bool) { return p.site.viewer(r) }

// WithCall gives requests of the site's other pages their [personal.Call] in the language that
// the visitor has chosen on these, as [personalhttp.Handler.WithCall] does.
func (p *Pages) WithCall(next http.Handler) http.Handler { return p.site.prepared(next) }

func (s *site) prepared(next http.Handler) http.Handler {
	return s.pages.Prepared(s.onces.used(next))
}

func (s *site) text(r *http.Request, key string, args ...any) string {
	return s.pages.Text(r, key, args...)
}

// page returns what all pages have in common. It has the notice that the
// previous page has left, and after a sign-in where the previous sign-in came from.
func (s *site) page(w http.ResponseWriter, r *http.Request) ui.Page {
	_, signedIn := s.viewer(r)
	p := ui.Page{Nav: s.nav(r, signedIn)}
	switch done := s.pages.TakeNotice(w, r); {
	case slices.Contains([]string{noPendingFactor, codesBlocked, linkedNotice, unlinkedNotice}, done):
		p.Notice = s.text(r, done)
	default:
		p.Notice = s.API.SuccessMessage(r, done)
		if done == signedInNotice {
			p.Extra = s.lastSignIn(r)
		}
	}
	return p
}

func (s *site) nav(r *http.Request, signedIn bool) (links []ui.Link) {
	if s.Nav != nil {
		links = s.Nav(r, signedIn)
	}
	if !signedIn {
		return append(links,
			ui.Link{Text: s.text(r, "sign_in"), Path: SignInPath},
			ui.Link{Text: s.text(r, "register"), Path: RegisterPath})
	}
	return append(links,
		ui.Link{Text: s.text(r, "account"), Path: Path},
		ui.Link{Text: s.text(r, "sign_out"), Path: signOutPath, Post: true})
}

// credentials returns those of the visitor's session, the zero pair if there is none.
func (s *site) credentials(r *http.Request) personal.Credentials {
	c, _ := s.session.Credentials(r)
	return c
}

// profileOf returns the profile of a visitor whose session the service has verified, zero for others.
func profileOf(r *http.Request) personal.Profile {
	user, _ := personalhttp.UserFrom(r.Context())
	return user.Profile
}

// accountNav is the navigation of the account's pages. The profile links to the others.
func (s *site) accountNav(r *http.Request) []ui.Link {
	links := []ui.Link{
		{Text: s.text(r, "profile"), Path: Path},
		{Text: s.text(r, "password"), Path: passwordPath},
	}
	if s.features(r).Passkeys {
		links = append(links, ui.Link{Text: s.text(r, "passkeys"), Path: passkeysPath})
	}
	if profileOf(r).TwoFactor || s.features(r).TwoFactor {
		links = append(links, ui.Link{Text: s.text(r, "two_factor"), Path: twoFactorPath})
	}
	if len(s.providers) > 0 {
		links = append(links, ui.Link{Text: s.text(r, "linked"), Path: linkedPath})
	}
	return append(links,
		ui.Link{Text: s.text(r, "sessions"), Path: sessionsPath},
		ui.Link{Text: s.text(r, "data"), Path: dataPath})
}

// pageName names a page for the site's templates and blocks, by its path.
func pageName(r *http.Request) string {
	if below, ok := strings.CutPrefix(r.URL.Path, Path+"/"); ok {
		return strings.ReplaceAll(below, "/", "-")
	}
	return "profile"
}

// send sends a page. A template of the site for this very page replaces the one that several
// pages may share.
func (s *site) send(w http.ResponseWriter, r *http.Request, status int, shared string, page ui.Page) {
	name := shared
	if shared == "form" {
		name = pageName(r)
	}
	if s.Block != nil {
		page.Block = s.Block(r, name)
	}
	if !s.pages.Has(name) {
		name = shared
	}
	s.pages.Render(w, r, status, name, page)
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
		s.API.ErrorResponse(r, err) // logs it
		next(w, r)
	}
	return s.API.OptionalUser(http.HandlerFunc(known), personalhttp.WithExtractor(s.session.Credentials),
		personalhttp.WithErrorHandler(unknown))
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

// problem sends an error page. Without a title it has that of its status. It links to the page
// that helps, which may be nil.
func (s *site) problem(w http.ResponseWriter, r *http.Request, x personalhttp.ErrorResponse, title string, help *ui.Link) {
	setRetryAfter(w, x)
	_, signedIn := s.session.Credentials(r) // not asked of the service, which may be the problem
	s.pages.Problem(w, r, ui.Problem{
		Status: x.Status, Title: title, Message: x.Message, Retry: x.RetryAfter > 0, Link: help, Nav: s.nav(r, signedIn),
	})
}
