package main

import (
	"context"
	_ "embed"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"

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

// method is how these users sign in, for the list of their sessions and for events.
const method = "oidc"

// signOn is sign-in with an OpenID provider. An account is found by issuer and subject alone.
type signOn struct {
	api            *personalhttp.Handler
	service        personal.Service
	administration personal.Administration
	account        *personalpages.Pages
	admission      *personal.Admission // says who may register
	party          *relyingParty
	attempts       attempts
	pages          *template.Template
}

//go:embed signon.html
var pages string

func newSignOn(m personalpages.Module, account *personalpages.Pages, admission *personal.Admission, p provider) http.Handler {
	s := &signOn{
		api: m.API(), service: m.Service(), administration: m.Administration(), account: account, admission: admission,
		party: &relyingParty{provider: p}, attempts: attempts{api: m.API(), all: map[string]attempt{}},
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
	return account.WithCall(personalweb.Guard(m.API(), s.problem, attemptCookie)(mux))
}

// start leads to the provider.
func (s *signOn) start(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	a := attempt{next: personalweb.LocalPath(r.URL.Query().Get("next"), personalpages.Path)}
	at, err := s.party.begin(ctx, &a)
	if err != nil {
		s.refuse(w, r, http.StatusServiceUnavailable, s.party.name+" does not respond. Please try again later.", err)
		return
	}
	if !s.attempts.put(w, r, a) {
		s.refuse(w, r, http.StatusServiceUnavailable, "Too many people are signing in. Please try again later.", nil)
		return
	}
	http.Redirect(w, r, at, http.StatusSeeOther)
}

// callback takes the provider's response.
func (s *signOn) callback(w http.ResponseWriter, r *http.Request) {
	response := r.URL.Query()
	a, ok := s.attempts.take(r, response.Get("state"))
	if !ok {
		s.startAgain(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	who, err := s.party.finish(ctx, a, response)
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, s.party.name+" has not signed you in.", err)
		return
	}
	s.signIn(w, r, attempt{next: a.next, who: who}, "")
}

// signIn opens a session for the user whom the provider has authenticated. If no account has the
// identity, every visitor gets the same choice, whatever e-mail the provider has named: accounts
// with that e-mail are not looked for.
func (s *signOn) signIn(w http.ResponseWriter, r *http.Request, a attempt, code string) {
	in, err := s.administration.SignIn(r.Context(), personal.SignInRequest{Identity: a.who.Identity, Method: method, Code: code,
		AuthenticatedAt: a.who.Authenticated})
	a.known = personal.CodeOf(err) != personal.CodeNotFound
	switch personal.CodeOf(err) {
	case "":
		s.attempts.remove(r)
		s.account.Session().SignIn(w, r, in.Credentials)
		ui.Redirect(w, r, a.next)
	case personal.CodeNotFound:
		s.keep(w, r, a, choosePath)
	case personal.CodeCodeRequired:
		s.keep(w, r, a, codePath)
	case personal.CodeInvalidCode, personal.CodeCodesBlocked:
		s.show(w, r, "code", form{Refused: s.api.Explain(r, err)})
	default:
		s.problem(w, r, err)
	}
}

// keep stores an attempt that the provider has responded to, and leads to the page that goes on.
func (s *signOn) keep(w http.ResponseWriter, r *http.Request, a attempt, path string) {
	if !s.attempts.put(w, r, a) {
		s.startAgain(w, r)
		return
	}
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
	if a, ok := s.pending(w, r); ok {
		s.show(w, r, "choose", form{Who: a.who, Login: a.who.Name, Email: a.who.Email})
	}
}

// pending returns the attempt of a visitor whom the provider has authenticated, and who has no
// account with that identity.
func (s *signOn) pending(w http.ResponseWriter, r *http.Request) (attempt, bool) {
	a, ok := s.attempts.of(r)
	if !ok || a.who.Subject == "" || a.known {
		s.startAgain(w, r)
		return attempt{}, false
	}
	return a, true
}

// register creates a user, links the identity, and signs them in. The e-mail is not verified,
// whatever the provider says: the user gets a mail to confirm it.
func (s *signOn) register(w http.ResponseWriter, r *http.Request) {
	a, ok := s.pending(w, r)
	if !ok {
		return
	}
	if !s.attempts.try(r) { // else one provider account could find out which logins and e-mails are taken
		s.problem(w, r, &personal.Error{Code: personal.CodeTooManyAttempts, RetryAfter: attemptLifetime})
		return
	}
	login, email := r.PostFormValue("login"), r.PostFormValue("email")
	if err := s.create(r.Context(), a.who, login, email); err != nil {
		s.show(w, r, "choose", form{Who: a.who, Login: login, Email: email, Refused: s.api.Explain(r, err)})
		return
	}
	s.signIn(w, r, a, "")
}

func (s *signOn) create(ctx context.Context, who person, login, email string) error {
	features, err := s.service.Features(ctx)
	if err != nil {
		return err
	}
	if features.EmailVerification == personal.VerificationRequired { // this would open a session before the e-mail is confirmed
		return personal.Refuse(personal.LocalText{"en": "Please register on this site first. Then sign in here and link."})
	}
	err = s.admission.Judge(ctx, personal.AdmissionRequest{Operation: personal.OpRegister, Method: method, Login: login, Email: email})
	if err != nil {
		return err
	}
	if email == "" {
		return personal.FieldErrors{"email": personal.FieldErrorRequired}.Err()
	}
	call := personal.CallFrom(ctx)
	call.Administrator = "single sign-on" // in the audit log
	id, err := s.administration.CreateUser(personal.WithCall(ctx, call), personal.CreateUserRequest{Login: login, Email: email})
	if err != nil {
		return err
	}
	if err := s.administration.LinkIdentity(ctx, personal.LinkIdentityRequest{Identity: who.Identity, UserID: id}); err != nil {
		_ = s.administration.DeleteUser(context.WithoutCancel(ctx), id) // no one could sign in to it
		return err
	}
	if err := s.service.ResendVerification(ctx, personal.ResendVerificationRequest{Login: login, Email: email}); err != nil {
		slog.WarnContext(ctx, "a new user gets no mail to confirm the e-mail", "error", err)
	}
	return nil
}

func (s *signOn) askForCode(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.attempts.of(r); !ok || !a.known {
		s.startAgain(w, r)
		return
	}
	s.show(w, r, "code", form{})
}

func (s *signOn) enterCode(w http.ResponseWriter, r *http.Request) {
	a, ok := s.attempts.of(r)
	if !ok || !a.known {
		s.startAgain(w, r)
		return
	}
	s.signIn(w, r, a, r.PostFormValue("code")) // which finds the account again
}

// askForPassword asks a signed-in user to confirm that the identity becomes theirs.
func (s *signOn) askForPassword(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.pending(w, r); ok {
		user, _ := personalhttp.UserFrom(r.Context())
		s.show(w, r, "link", form{Who: a.who, Code: user.Profile.TwoFactor})
	}
}

// link links the identity with the account of the session. The session alone is not enough: it may
// be stolen, or left open.
func (s *signOn) link(w http.ResponseWriter, r *http.Request) {
	a, ok := s.pending(w, r)
	if !ok {
		return
	}
	pair, _ := s.account.Session().Credentials(r)
	proof, err := s.service.Prove(r.Context(), personal.ProveRequest{Credentials: pair, Password: r.PostFormValue("password"),
		Code: r.PostFormValue("code")})
	if err == nil {
		err = s.administration.LinkIdentity(r.Context(), personal.LinkIdentityRequest{Identity: a.who.Identity, Credentials: pair,
			Proof: proof.Proof})
	}
	if err != nil {
		user, _ := personalhttp.UserFrom(r.Context())
		s.show(w, r, "link", form{Who: a.who, Code: user.Profile.TwoFactor, Refused: s.api.Explain(r, err)})
		return
	}
	s.attempts.remove(r)
	ui.Redirect(w, r, a.next)
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
	s.show(w, r, "problem", form{Refused: s.api.Explain(r, err)})
}

// refuse sends a page about another error, which the log has.
func (s *signOn) refuse(w http.ResponseWriter, r *http.Request, status int, message string, err error) {
	if err != nil {
		slog.WarnContext(r.Context(), "single sign-on", "error", err)
	}
	s.show(w, r, "problem", form{Refused: personalhttp.ErrorResponse{Status: status, Message: message}})
}

func (s *signOn) startAgain(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, r, http.StatusBadRequest, "This sign-in has expired, or was begun in another browser. Please start again.", nil)
}
