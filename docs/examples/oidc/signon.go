package main

import (
	"context"
	_ "embed"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

const (
	startPath    = "/sso/start"
	callbackPath = "/sso/callback" // registered at the provider
	choosePath   = "/sso/choose"
	registerPath = "/sso/register"
	linkPath     = "/sso/link"
	codePath     = "/sso/code"
)

// maxNext bounds the path to return to, which is in a cookie, in bytes.
const maxNext = 300

// method is how these users sign in, for the list of their sessions and for events.
const method = "oidc"

// signOn is sign-in with an OpenID provider. An account is found by issuer and subject alone.
type signOn struct {
	api            *personalhttp.Handler
	service        personal.Service
	administration personal.Administration
	account        *personalpages.Pages
	party          *relyingParty
	attempts       attempts
	pages          *template.Template
}

//go:embed signon.html
var pages string

func newSignOn(m personalpages.Module, account *personalpages.Pages, p provider) (http.Handler, error) {
	attempts, err := newAttempts(m.API())
	if err != nil {
		return nil, err
	}
	s := &signOn{
		api: m.API(), service: m.Service(), administration: m.Administration(), account: account,
		party: &relyingParty{provider: p}, attempts: attempts,
		pages: template.Must(template.New("").Parse(pages)),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+startPath, s.start)
	mux.HandleFunc("GET "+callbackPath, s.callback)
	mux.HandleFunc("GET "+choosePath, s.choose)
	mux.HandleFunc("POST "+registerPath, s.register)
	mux.HandleFunc("GET "+codePath, s.askForCode)
	mux.HandleFunc("POST "+codePath, s.enterCode)
	mux.Handle("GET "+linkPath, account.RequireUser(http.HandlerFunc(s.askForPassword)))
	mux.Handle("POST "+linkPath, account.RequireUser(http.HandlerFunc(s.link)))
	return account.WithCall(personalweb.Guard(m.API(), s.problem, attemptCookie)(mux)), nil
}

// start leads to the provider. Pages of other sites start nothing: they would push out what the
// visitor has started.
func (s *signOn) start(w http.ResponseWriter, r *http.Request) {
	if mode := r.Header.Get("Sec-Fetch-Mode"); r.Header.Get("Sec-Fetch-Site") == "cross-site" || mode != "" && mode != "navigate" {
		s.startAgain(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	a := attempt{Expires: time.Now().Add(attemptLifetime), Next: personalweb.LocalPath(r.URL.Query().Get("next"), personalpages.Path)}
	if len(a.Next) > maxNext {
		a.Next = personalpages.Path
	}
	at, err := s.party.begin(ctx, &a)
	if err != nil {
		s.refuse(w, r, http.StatusServiceUnavailable, s.party.name+" does not respond. Please try again later.", err)
		return
	}
	s.attempts.put(w, r, append(s.attempts.of(r), a))
	http.Redirect(w, r, at, http.StatusSeeOther)
}

// callback takes the provider's response. The attempt ends with it: a second response finds none,
// and a forged one ends none.
func (s *signOn) callback(w http.ResponseWriter, r *http.Request) {
	response := r.URL.Query()
	a, others, ok := find(s.attempts.of(r), func(a attempt) bool { return a.State != "" && equal(a.State, response.Get("state")) })
	if !ok {
		s.startAgain(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	who, err := s.party.finish(ctx, a, response)
	if err != nil {
		s.attempts.put(w, r, others)
		s.refuse(w, r, http.StatusBadRequest, s.party.name+" has not signed you in.", err)
		return
	}
	_, others, _ = find(others, attempt.waits) // the latest person counts
	s.signIn(w, r, attempt{Expires: time.Now().Add(attemptLifetime), Next: a.Next, Who: who}, others, "")
}

// signIn opens a session for the user whom the provider has authenticated. If no account has the
// identity, every visitor gets the same choice, whatever e-mail the provider has named: accounts
// with that e-mail are not looked for.
func (s *signOn) signIn(w http.ResponseWriter, r *http.Request, a attempt, others []attempt, code string) {
	in, err := s.administration.SignIn(r.Context(), personal.SignInRequest{Identity: a.Who.Identity, Method: method, Code: code,
		AuthenticatedAt: a.Who.Authenticated})
	a.Known = personal.CodeOf(err) != personal.CodeNotFound
	switch personal.CodeOf(err) {
	case "":
		s.signedIn(w, r, in)
		s.keep(w, r, others, a.Next)
	case personal.CodeNotFound:
		s.keep(w, r, append(others, a), choosePath)
	case personal.CodeCodeRequired:
		s.keep(w, r, append(others, a), codePath)
	case personal.CodeInvalidCode, personal.CodeCodesBlocked:
		s.show(w, r, "code", form{Refused: s.api.ErrorResponse(r, err)})
	default:
		s.problem(w, r, err)
	}
}

// keep stores the attempts, and leads to the page that goes on.
func (s *signOn) keep(w http.ResponseWriter, r *http.Request, all []attempt, path string) {
	s.attempts.put(w, r, all)
	ui.Redirect(w, r, path)
}

// form is what a page shows.
type form struct {
	Provider string
	Who      person
	Login    string
	Email    string
	SignIn   string // URL of the sign-in that leads to the link
	Code     bool   // a code of the second factor is needed
	Refused  personalhttp.ErrorResponse
}

// choose offers to link the identity with an account, and to register.
func (s *signOn) choose(w http.ResponseWriter, r *http.Request) {
	if a, _, ok := s.pending(w, r); ok {
		s.show(w, r, "choose", form{Who: a.Who, Login: a.Who.Name, Email: a.Who.Email})
	}
}

// pending returns the attempt of a visitor whom the provider has authenticated, and who has no
// account with that identity, and the others of that browser.
func (s *signOn) pending(w http.ResponseWriter, r *http.Request) (a attempt, others []attempt, ok bool) {
	if a, others, ok = find(s.attempts.of(r), attempt.waits); !ok || a.Known {
		s.startAgain(w, r)
		return attempt{}, nil, false
	}
	return a, others, true
}

// waits reports whether the provider has authenticated the visitor.
func (a attempt) waits() bool { return a.Who.Subject != "" }

// register creates a user with the identity, and signs them in. The e-mail is not verified, whatever the
// provider says: the user gets a mail to confirm it, and where the site requires that, they wait for it.
func (s *signOn) register(w http.ResponseWriter, r *http.Request) {
	a, others, ok := s.pending(w, r)
	if !ok {
		return
	}
	login, email := r.PostFormValue("login"), r.PostFormValue("email")
	in, err := s.administration.RegisterIdentity(r.Context(), personal.RegisterIdentityRequest{
		Identity: a.Who.Identity, Login: login, Email: email, Method: method, AuthenticatedAt: a.Who.Authenticated,
	})
	switch {
	case err != nil:
		s.show(w, r, "choose", form{Who: a.Who, Login: login, Email: email, Refused: s.api.ErrorResponse(r, err)})
	case in.Credentials.UserID == 0:
		s.keep(w, r, others, personalpages.SignInPath)
	default:
		s.signedIn(w, r, in)
		s.keep(w, r, others, a.Next)
	}
}

// signedIn starts the session of a user.
func (s *signOn) signedIn(w http.ResponseWriter, r *http.Request, in personal.SignedIn) {
	s.account.Session().SignIn(w, r, in.Credentials)
	personalweb.KeepProof(s.api, w, r, in.Proof)
}

func (s *signOn) askForCode(w http.ResponseWriter, r *http.Request) {
	if a, _, ok := find(s.attempts.of(r), attempt.waits); !ok || !a.Known {
		s.startAgain(w, r)
		return
	}
	s.show(w, r, "code", form{})
}

func (s *signOn) enterCode(w http.ResponseWriter, r *http.Request) {
	a, others, ok := find(s.attempts.of(r), attempt.waits)
	if !ok || !a.Known {
		s.startAgain(w, r)
		return
	}
	s.signIn(w, r, a, others, r.PostFormValue("code")) // which finds the account again
}

// askForPassword asks a signed-in user to confirm that the identity becomes theirs.
func (s *signOn) askForPassword(w http.ResponseWriter, r *http.Request) {
	if a, _, ok := s.pending(w, r); ok {
		user, _ := personalhttp.UserFrom(r.Context())
		s.show(w, r, "link", form{Who: a.Who, Code: user.Profile.TwoFactor})
	}
}

// link links the identity with the account of the session. The session alone is not enough: it may
// be stolen, or left open.
func (s *signOn) link(w http.ResponseWriter, r *http.Request) {
	a, others, ok := s.pending(w, r)
	if !ok {
		return
	}
	pair, _ := s.account.Session().Credentials(r)
	proof, err := s.service.Prove(r.Context(), personal.ProveRequest{Credentials: pair, Password: r.PostFormValue("password"),
		Code: r.PostFormValue("code")})
	if err == nil {
		err = s.administration.LinkIdentity(r.Context(), personal.LinkIdentityRequest{Identity: a.Who.Identity, Credentials: pair,
			Proof: proof.Proof})
	}
	if err != nil {
		user, _ := personalhttp.UserFrom(r.Context())
		s.show(w, r, "link", form{Who: a.Who, Code: user.Profile.TwoFactor, Refused: s.api.ErrorResponse(r, err)})
		return
	}
	s.keep(w, r, others, a.Next)
}

func (s *signOn) show(w http.ResponseWriter, r *http.Request, name string, f form) {
	f.Provider = s.party.name
	f.SignIn = personalpages.SignInPath + "?" + url.Values{"next": {linkPath}}.Encode()
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	header.Set("Referrer-Policy", "no-referrer") // URLs of the callback have codes
	if f.Refused.Status != 0 {
		w.WriteHeader(f.Refused.Status)
	}
	if err := s.pages.ExecuteTemplate(w, name, f); err != nil {
		slog.WarnContext(r.Context(), "a page could not be sent", "error", err)
	}
}

// problem sends a page about an error of the service.
func (s *signOn) problem(w http.ResponseWriter, r *http.Request, err error) {
	s.show(w, r, "problem", form{Refused: s.api.ErrorResponse(r, err)})
}

// refuse sends a page about another error, which the log has.
func (s *signOn) refuse(w http.ResponseWriter, r *http.Request, status int, message string, err error) {
	if err != nil {
		slog.WarnContext(r.Context(), "single sign-on", "error", err)
	}
	s.show(w, r, "problem", form{Refused: personalhttp.ErrorResponse{Status: status, Message: message}})
}

func (s *signOn) startAgain(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, http.StatusBadRequest, "This sign-in has expired, or was started in another browser. Please start again.", nil)
}
