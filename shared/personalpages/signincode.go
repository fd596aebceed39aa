package personalpages

import (
	"net/http"
	"net/url"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// codePages are the second page of the sign-in, for users with a second factor. The
// operation takes login, password and code at once, so that there is no session before the
// code is right. Between the pages the visitor's browser keeps login and password, the
// response of a passkey, a mailed code, or what a provider has said, sealed in a cookie.
type codePages struct{ *site }

func (p codePages) route(mux *http.ServeMux) {
	code := func(r *http.Request) form {
		f := form{build: p.codeForm, submit: p.signIn, instead: p.noStep, judged: personal.OpAuthorize}
		switch in, _ := p.step(r); {
		case in.User != nil:
			f.judged = personal.OpSignIn
		case in.MailedCode != "":
			f.judged = personal.OpAuthorizeMailedCode
		}
		return f
	}
	mux.Handle("GET "+signInCodePath, p.public(func(w http.ResponseWriter, r *http.Request) { p.show(code(r))(w, r) }))
	mux.Handle("POST "+signInCodePath, p.public(func(w http.ResponseWriter, r *http.Request) { p.submit(code(r))(w, r) }))
}

// step returns what the first page has taken, false if there is nothing that lacks just the code.
func (p codePages) step(r *http.Request) (signInStep, bool) {
	in, ok := p.keptStep(r)
	return in, ok && (in.Purpose == "" || in.MailedCode != "")
}

// noStep returns the first page if there is no step.
func (p codePages) noStep(r *http.Request) string {
	if _, ok := p.step(r); !ok {
		return againPath(r, SignInPath)
	}
	return ""
}

// askForCode leads to the page that asks for the code.
func (s *site) askForCode(w http.ResponseWriter, r *http.Request, in signInStep) (done, error) {
	s.keepStep(w, r, in)
	return done{next: withNext(r, signInCodePath)}, nil
}

// againPath returns the path of the first page, which says why the visitor starts again.
func againPath(r *http.Request, first string) string {
	query := nextQuery(r)
	query.Set("again", "true")
	return first + "?" + query.Encode()
}

// nextQuery returns the part of the query that names the page to return to.
func nextQuery(r *http.Request) url.Values {
	query := url.Values{}
	if next := r.URL.Query().Get("next"); next != "" {
		query.Set("next", next)
	}
	return query
}

// withNext returns a path that leads to the same page as the request's path does afterwards.
func withNext(r *http.Request, path string) string {
	to := url.URL{Path: path, RawQuery: nextQuery(r).Encode()}
	return to.String()
}

// codesBlocked is the notice, and the key of its text, that only recovery codes are
// accepted.
const codesBlocked = "codes_blocked"

// codeFormPath returns the path of the page that asks for a code of the app, or for a
// recovery code.
func codeFormPath(r *http.Request, recovery bool) string {
	query := nextQuery(r)
	if recovery {
		query.Set("recovery", "true")
	}
	return (&url.URL{Path: signInCodePath, RawQuery: query.Encode()}).String()
}

// codeForm asks for a code of the app, or for a recovery code after the link to that. It
// takes both in either case; they differ in the keyboard that a phone shows.
func (p codePages) codeForm(r *http.Request) (formPage, error) {
	at := func(recovery bool) string { return codeFormPath(r, recovery) }
	recovery := r.URL.Query().Has("recovery")
	code := p.codeControl(r, "app_code")
	code.Hint, code.InputMode = p.text(r, "hint_app_code"), "numeric"
	other := p.aside(r, "no_app_question", "no_app_link", at(true))
	if recovery {
		code = p.codeControl(r, "recovery_code")
		code.Hint = p.text(r, "hint_recovery_code")
		other = p.aside(r, "have_app_question", "have_app_link", at(false))
	}
	page := formPage{
		Title: p.text(r, "sign_in_code"),
		Form:  ui.Form{Action: at(recovery), Submit: p.text(r, "sign_in_button"), Controls: []ui.Control{code}},
		Asides: []aside{other, p.aside(r, "sign_in_other_question", "sign_in_other_link", SignInPath),
			{Text: p.text(r, "factor_unknown")}}, // a thief's factor outlives a recovery
	}
	if in, ok := p.step(r); ok && in.MailedCode != "" { // which the service refuses like a wrong code of the app
		page.Asides = append(page.Asides, p.aside(r, "mailed_code_ended_question", "mailed_code_ended_link", withNext(r, mailCodePath)))
	}
	if !recovery { // it may be the secret key that is missing, which recovery codes do not need
		page.Unavailable = p.text(r, "recovery_code_helps")
	}
	return page, nil
}

func (p codePages) signIn(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	in, ok := p.step(r)
	if !ok {
		return done{next: againPath(r, SignInPath)}, nil
	}
	signedIn, err := p.authorize(r, in, posted.Get("code"))
	switch personal.CodeOf(err) {
	case "":
		p.forgetStep(w, r)
		return p.signedIn(w, r, signedIn), nil
	case personal.CodeInvalidCredentials, personal.CodeEmailUnverified, personal.CodeNotFound: // changed since
		p.forgetStep(w, r)
		return done{next: againPath(r, SignInPath)}, nil
	case personal.CodeCodesBlocked:
		return done{operation: codesBlocked, next: codeFormPath(r, true)}, nil
	}
	return done{}, err
}

// signInStep is what the first page of the sign-in has taken.
type signInStep struct {
	Login      string `json:",omitempty"`
	Password   []byte `json:",omitempty"` // JSON may lengthen a text by far, and cookies are limited to 4096 bytes
	Attempt    string `json:",omitempty"` // with Credential or MailedCode, in place of login and password
	Credential []byte `json:",omitempty"`

	Purpose    personal.MailedCodePurpose `json:",omitempty"` // of the attempt whose code is mailed; "": none is
	MailedCode string                     `json:",omitempty"` // "" until it was typed

	Provider string        `json:",omitempty"` // that has authenticated User; "" for none
	User     *ProviderUser `json:",omitempty"`

	Expires time.Time // zero: to be set
}

// lifetime is the longest time between the pages of a sign-in.
func (in signInStep) lifetime() time.Duration {
	if in.Purpose != "" {
		return mailedCodeLifetime
	}
	return signInLifetime
}

// signInCookie is sent to all pages, because only then it may have the prefix that keeps
// other hosts of the domain from setting it (see [personalweb.SetCookie]).
const signInCookie = "sign_in"

// signInLifetime is the lifetime of a step that has no mailed code.
const signInLifetime = 5 * time.Minute

// keepStep keeps what the first page has taken in the visitor's browser.
func (s *site) keepStep(w http.ResponseWriter, r *http.Request, in signInStep) {
	if in.Expires.IsZero() { // a mailed code that was typed does not live longer
		in.Expires = time.Now().Add(in.lifetime())
	}
	left := max(time.Until(in.Expires).Round(time.Second), time.Second)
	personalweb.SetCookie(s.API, w, r, http.Cookie{
		Name: signInCookie, Value: s.sealer.value(signInCookie, in), MaxAge: int(left / time.Second), SameSite: http.SameSiteStrictMode,
	})
}

// keptStep returns false if the request has no valid step, or an expired one.
func (s *site) keptStep(r *http.Request) (in signInStep, ok bool) {
	if !s.sealer.open(r, signInCookie, &in) || !time.Now().Before(in.Expires) {
		return signInStep{}, false
	}
	return in, true
}

func (s *site) forgetStep(w http.ResponseWriter, r *http.Request) {
	personalweb.SetCookie(s.API, w, r, http.Cookie{Name: signInCookie, MaxAge: -1})
}
