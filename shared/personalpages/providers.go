package personalpages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// Provider is a service with which users can sign in. Package personaloidc makes them.
type Provider struct {
	// Name is in the paths of the provider's pages, and is the Method of the sessions that it begins: a to z,
	// 0 to 9 and _, and none of [personal.ModuleMethods]. It stays the same: the provider knows the paths.
	Name string

	Label string        // for people, such as Google
	Icon  template.HTML // beside the label, such as an <svg> that is hidden from screen readers; may be empty
	ProviderProtocol
}

// ProviderProtocol is what a provider and this site say to each other. It is safe for concurrent use, and honours the
// context's deadline. It stores nothing about visitors.
type ProviderProtocol interface {
	// Begin returns the URL of the provider's page at which the user signs in. The error wraps
	// [ErrProviderDown] if the provider does not respond.
	Begin(ctx context.Context, r ProviderRequest) (string, error)

	// Finish returns the user whom the response, a query, to a request is about. The error wraps
	// [ErrProviderDown], or [ErrProviderCancelled] if the user has not signed in there.
	Finish(ctx context.Context, r ProviderRequest, response url.Values) (ProviderUser, error)

	// Proves reports whether the provider says when it has asked its user who they are, so that its word is a
	// proof, see [personal.Administration.ProveIdentity]. It is false while that is unknown.
	Proves(ctx context.Context) bool

	// Issues reports whether identities of an issuer are the provider's.
	Issues(issuer string) bool

	// SignOutURL returns the page of the provider that ends the user's session there, and then leads back to a page of
	// this site; "" if it has none. The hint is that of [ProviderUser].
	SignOutURL(ctx context.Context, hint, back string) string

	// SignedOut checks a logout token of the provider (OpenID Connect Back-Channel Logout 1.0), and has end end the
	// sessions that it is about. A token is refused after end has succeeded for it. The error wraps [ErrProviderDown] if
	// the token cannot be checked now; else it is that of end, or says what is wrong with the token.
	SignedOut(ctx context.Context, token string, end func(context.Context, personal.EndIdentitySessionsRequest) error) error
}

// What the user is told about an error of a [ProviderProtocol]; for any other one, that the sign-in has failed.
var (
	ErrProviderDown      = errors.New("the provider does not respond as expected")
	ErrProviderCancelled = errors.New("the user has not signed in")
)

// ProviderRequest is a sign-in that a visitor's browser has started. All of it is random or the site's own.
type ProviderRequest struct {
	State, Nonce, Verifier string // the verifier is that of PKCE (RFC 7636)

	Redirect string // the URL at this site to which the provider responds
	Fresh    bool   // the provider must ask the user who they are, although they are signed in there
}

// ProviderUser is a user as a provider has authenticated them.
type ProviderUser struct {
	personal.Identity

	// Login, Name and Email are what the provider says about the user. They fill in a form and name the user to
	// themselves: they prove nothing.
	Login, Name, Email string

	// EmailVerified says that Email is the user's, because the provider is the authority of its domain.
	EmailVerified bool

	SecondFactor    bool      // the provider has checked one
	AuthenticatedAt time.Time // zero: unknown
	Session         string    // at the provider, see [personal.SignInRequest]; may be empty
	Hint            string    `json:"-"` // for SignOutURL; may be empty
}

// who names a user of a provider as it does, to themselves.
func (u ProviderUser) who() string {
	name := cmp.Or(u.Name, u.Login, u.Email, u.Subject)
	if u.Email != "" && u.Email != name {
		name += " (" + u.Email + ")"
	}
	return name
}

// providerTimeout bounds the requests to the provider for one page.
const providerTimeout = 10 * time.Second

var providerName = regexp.MustCompile(`\A[a-z][a-z0-9_]*\z`)

// UseProviders adds providers to the pages, in this order. What a visitor has started is sealed in their browser with the first
// of the keys, of 32 bytes each, and opened with all: every node has the same. Call it once, before the pages serve. The
// URL of the site must be known, see [personalhttp.Options].URL, because the providers lead back to it.
func (p *Pages) UseProviders(keys [][]byte, providers ...Provider) error {
	s := p.site
	var wrong []error
	if s.API.Options().URL == "" {
		wrong = append(wrong, errors.New("the site's own URL is unknown, to which providers lead back: set personalhost.Config.URL, or --url of the sample host"))
	}
	if len(keys) == 0 {
		wrong = append(wrong, errors.New("there is no secret key to seal cookies with: leave personalhost.Config.SecretKeys nil, or have it return a key"))
	}
	for i, one := range providers {
		switch {
		case !providerName.MatchString(one.Name) || len(one.Name) > personal.MaxMethod || slices.Contains(personal.ModuleMethods(), one.Name):
			wrong = append(wrong, fmt.Errorf("a provider cannot have the name %q: use a letter of a to z, then those, 0 to 9 and _, up to %d characters in all", one.Name, personal.MaxMethod))
		case slices.ContainsFunc(providers[:i], func(other Provider) bool { return other.Name == one.Name }):
			wrong = append(wrong, fmt.Errorf("two providers have the name %q", one.Name))
		}
	}
	sealer, err := newSealer(s.API, keys...)
	if err := errors.Join(append(wrong, err)...); err != nil {
		return fmt.Errorf("account pages: %w", err)
	}
	s.sealer, s.providers = sealer, providers
	for _, one := range providers {
		s.Log.Info("users can sign in with a provider", "provider", one.Name, "redirect_uri", s.absolute(one.at(callbackPath)))
	}
	return nil
}

// providerNamed returns the provider of a name, false if there is none.
func (s *site) providerNamed(name string) (Provider, bool) {
	i := slices.IndexFunc(s.providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return Provider{}, false
	}
	return s.providers[i], true
}

// at returns the path of a provider's page.
func (p Provider) at(path string) string { return strings.Replace(path, "{provider}", p.Name, 1) }

// providerButton leads to a provider.
type providerButton struct {
	Text string
	Icon template.HTML
	Path string
	Post bool // it posts
}

// providerButtons lead to the providers to sign in. They return to the page that the visitor wants to see.
func (s *site) providerButtons(r *http.Request) (buttons []providerButton) {
	for _, p := range s.providers {
		buttons = append(buttons, providerButton{Text: s.text(r, "provider_continue", p.Label), Icon: p.Icon, Path: withReturn(r, p.at(providersPath))})
	}
	return buttons
}

// postTo is the button of a signed-in user, which posts.
func (s *site) postTo(r *http.Request, p Provider, key, path string) providerButton {
	return providerButton{Text: s.text(r, key, p.Label), Icon: p.Icon, Path: path, Post: true}
}

// provingProviders returns those at which the signed-in user can prove who they are.
func (s *site) provingProviders(r *http.Request) (proving []Provider) {
	if len(s.providers) == 0 {
		return nil
	}
	identities, err := s.identities(r)
	if err != nil {
		return nil // there are other ways
	}
	for _, p := range s.providers {
		if slices.ContainsFunc(identities, func(i personal.LinkedIdentity) bool { return p.Issues(i.Issuer) }) && s.proves(r, p) {
			proving = append(proving, p)
		}
	}
	return proving
}

// metadataTimeout bounds what a page waits for a provider that it can do without.
const metadataTimeout = 2 * time.Second

func (s *site) proves(r *http.Request, p Provider) bool {
	ctx, cancel := context.WithTimeout(r.Context(), metadataTimeout)
	defer cancel()
	return p.Proves(ctx)
}

// identities returns those of the signed-in user.
func (s *site) identities(r *http.Request) ([]personal.LinkedIdentity, error) {
	user, ok := personalhttp.UserFrom(r.Context())
	if !ok { // a posted form is shown again while the service is unavailable: the cookie may be anyone's
		return nil, personal.NewError(personal.CodeUnavailable, nil)
	}
	record, err := s.admin.User(r.Context(), user.ID)
	return record.Identities, err
}

// providerProblem sends a page about an error of a provider, which the log has.
func (s *site) providerProblem(w http.ResponseWriter, r *http.Request, p Provider, err error, help ui.Link) {
	status, key, level := http.StatusBadRequest, "provider_refused", slog.LevelWarn
	switch {
	case errors.Is(err, ErrProviderDown) || errors.Is(err, context.DeadlineExceeded):
		status, key = http.StatusServiceUnavailable, "provider_down"
	case errors.Is(err, ErrProviderCancelled):
		key, level = "provider_cancelled", slog.LevelDebug
	}
	s.Log.Log(r.Context(), level, "a provider has not signed a user in", "request_id", personal.CallFrom(r.Context()).RequestID,
		"provider", p.Name, "error", err)
	s.providerNotice(w, r, status, s.text(r, key, p.Label), help)
}

// providerNotice sends a page that says why a sign-in at a provider does not go on.
func (s *site) providerNotice(w http.ResponseWriter, r *http.Request, status int, message string, help ui.Link) {
	_, signedIn := s.session.Credentials(r)
	s.pages.Problem(w, r, ui.Problem{Status: status, Title: s.text(r, "provider_problem"), Message: message, Link: &help, Nav: s.nav(r, signedIn)})
}

// startAgain says that what the visitor has started is over.
func (s *site) startAgain(w http.ResponseWriter, r *http.Request) {
	s.providerNotice(w, r, http.StatusBadRequest, s.text(r, "provider_again"), ui.Link{Text: s.text(r, "sign_in"), Path: SignInPath})
}

// leadPage is what the template of a page that leads on gets.
type leadPage struct {
	Title, Text string
	To          ui.Link
	AtOnce      bool
	Home        string // "": none is offered
}

// leadOn sends a page that leads on by a link and at once. A redirect would not do: browsers refuse one
// from a form to another site (form-action), and one from another site brings no cookies that are Strict.
func (s *site) leadOn(w http.ResponseWriter, r *http.Request, title string, to ui.Link) {
	s.lead(w, r, leadPage{Title: title, To: to, AtOnce: true})
}

// lead leaves the notice of what was done to the page after it.
func (s *site) lead(w http.ResponseWriter, r *http.Request, page leadPage) {
	_, signedIn := s.viewer(r)
	s.send(w, r, http.StatusOK, "lead", ui.Page{Nav: s.nav(r, signedIn), Body: page})
}

// signOutCookie keeps at which provider this browser has signed in last, and what that needs to end its session, too.
const signOutCookie = "sign_in_provider"

// maxHint bounds its value, in bytes: without the hint the provider asks the user.
const maxHint = 2000

// providerSession is a session at a provider.
type providerSession struct {
	Provider string
	User     int64  `json:",omitempty"` // of this site, whom the hint names
	Hint     string `json:",omitempty"`
}

// keepProviderSession keeps that the browser has a session at a provider.
func (s *site) keepProviderSession(w http.ResponseWriter, r *http.Request, in providerSession) {
	value := s.sealer.value(signOutCookie, in)
	if len(value) > maxHint {
		value = s.sealer.value(signOutCookie, providerSession{Provider: in.Provider})
	}
	life := cmp.Or(s.Session.Life, personalweb.DefaultLife)
	personalweb.SetCookie(s.API, w, r, http.Cookie{Name: signOutCookie, Value: value, MaxAge: int(life / time.Second)})
}

// warnOfProviderSession sends a page that says that the browser, whose user has signed out, is still signed in at a
// provider: others who use it could sign in with that. It leads to the provider's sign-out, if there is one. It returns false
// if the browser has no such session.
func (s *site) warnOfProviderSession(w http.ResponseWriter, r *http.Request, title string) bool {
	var kept providerSession
	if !s.sealer.open(r, signOutCookie, &kept) {
		return false
	}
	p, ok := s.providerNamed(kept.Provider)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(r.Context(), metadataTimeout)
	defer cancel()
	page := leadPage{Title: title, Text: s.text(r, "provider_signed_out", p.Label), Home: s.Home}
	if kept.User != s.credentials(r).UserID { // another user has signed in since
		kept.Hint = ""
	}
	if to := p.SignOutURL(ctx, kept.Hint, s.absolute(s.Home)); to != "" {
		page.To = ui.Link{Text: s.text(r, "provider_sign_out", p.Label), Path: to}
	}
	personalweb.SetCookie(s.API, w, r, http.Cookie{Name: signOutCookie, MaxAge: -1})
	s.lead(w, r.WithContext(context.WithValue(r.Context(), anonymousKey{}, true)), page)
	return true
}

// absolute returns the URL of a path of this site: a page below [Path] is below the site's URL of these.
func (s *site) absolute(path string) string {
	base := strings.TrimSuffix(s.API.Options().URL, "/")
	if below, ok := strings.CutPrefix(path, Path+"/"); ok {
		return base + "/" + below
	}
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	to, err := u.Parse(path)
	if err != nil {
		return base
	}
	return to.String()
}
