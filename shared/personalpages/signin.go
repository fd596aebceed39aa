package personalpages

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// signedInNotice is the notice of a sign-in: the name of the operation, as everywhere.
const signedInNotice = "auth"

// signInPages are the pages to register, sign in and sign out.
type signInPages struct{ *site }

func (p signInPages) route(mux *http.ServeMux) {
	p.publicForm(mux, SignInPath, form{build: p.signInForm, submit: p.signIn, judged: personal.OpAuthorize})
	p.publicForm(mux, RegisterPath, form{build: p.registerForm, submit: p.register, judged: personal.OpRegister, once: true})
	mux.HandleFunc("POST "+signOutPath, p.signOut)
}

func (p signInPages) signInForm(r *http.Request) (formPage, error) {
	// The query holds the page to return to. The form posts to the same query.
	action, lead := url.URL{Path: SignInPath, RawQuery: r.URL.RawQuery}, ""
	switch query := r.URL.Query(); {
	case query.Has("again"):
		lead = p.text(r, "sign_in_again")
	case query.Has("next"):
		lead = p.askToSignIn(r)
	}
	login := p.signInControl(r)
	page := formPage{
		Title: p.text(r, "sign_in"),
		Lead:  lead,
		Asides: []aside{
			p.aside(r, "forgot_question", "forgot_link", forgotPath),
			p.aside(r, "register_question", "register_link", withReturn(r, RegisterPath)),
		},
	}
	if p.features(r).MailedCode {
		page.Asides = slices.Insert(page.Asides, 0, p.aside(r, "mailed_code_question", "mailed_code", withReturn(r, mailCodePath)))
	}
	if p.features(r).Passkeys {
		login.Autocomplete += " webauthn" // the browser offers passkeys here
		page.Passkey = p.passkeyButton(r, passkeySignIn, action.String())
	}
	page.Form = ui.Form{
		Action: action.String(), Submit: p.text(r, "sign_in_button"),
		Controls: []ui.Control{login, p.passwordControl(r, "password", "password")},
	}
	return page, nil
}

// askToSignIn says why a visitor who wants to see another page sees that of the sign-in; "" to those who are signed
// in. The cookie of a session that has ended is kept.
func (p signInPages) askToSignIn(r *http.Request) string {
	_, signedIn := p.viewer(r)
	_, had := p.session.Credentials(r)
	switch {
	case signedIn:
		return ""
	case had:
		return p.text(r, "sign_in_ended")
	case personalweb.CookieValue(p.API, r, ui.LanguageCookie) == "" && comesFromSignIn(r):
		return p.text(r, "sign_in_no_cookie")
	}
	return p.text(r, "sign_in_first")
}

// comesFromSignIn reports whether the browser was led here from a page that begins a session, or that one links here.
func comesFromSignIn(r *http.Request) bool {
	from, err := url.Parse(r.Referer())
	return err == nil && slices.Contains([]string{SignInPath, signInCodePath, mailedCodePath, RegisterPath}, from.Path)
}

// withReturn returns a path that leads to the same page as the request's path does
// afterwards, unless the address of that page is long: it would be in the page several times.
func withReturn(r *http.Request, path string) string {
	next := nextQuery(r).Encode()
	if len(next) > 1<<10 {
		next = ""
	}
	to := url.URL{Path: path, RawQuery: next}
	return to.String()
}

func (p signInPages) signIn(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	step := signInStep{
		Login: posted.Get("login"), Password: []byte(posted.Get("password")),
		Attempt: posted.Get("attempt"), Credential: []byte(posted.Get("credential")),
	}
	in, err := p.authorize(r, step, "")
	if personal.CodeOf(err) == personal.CodeCodeRequired {
		return p.askForCode(w, r, step)
	}
	if err != nil {
		return done{}, err
	}
	return p.signedIn(w, r, in), nil
}

// authorize signs a visitor in with what they have typed, with a passkey or with a mailed code.
func (s *site) authorize(r *http.Request, in signInStep, code string) (personal.SignedIn, error) {
	switch {
	case in.Purpose != "":
		return s.Service.AuthorizeMailedCode(r.Context(), personal.AuthorizeMailedCodeRequest{
			Attempt: in.Attempt, MailedCode: in.MailedCode, Code: code,
		})
	case len(in.Credential) > 0:
		return s.Service.AuthorizePasskey(r.Context(), personal.AuthorizePasskeyRequest{
			Attempt: in.Attempt, Credential: string(in.Credential), Code: code,
		})
	}
	return s.Service.Authorize(r.Context(), personal.AuthorizeRequest{Login: in.Login, Password: string(in.Password), Code: code})
}

// signedIn starts a session and leads to the page that the visitor came from, by way of
// the page that asks for missing user fields. The browser keeps the proof.
func (s *site) signedIn(w http.ResponseWriter, r *http.Request, in personal.SignedIn) done {
	s.session.SignIn(w, r, in.Credentials)
	personalweb.KeepProof(s.API, w, r, in.Proof)
	next := nextOf(r)
	if s.AfterSignIn != nil {
		next = cmp.Or(s.AfterSignIn(w, r, in), next)
	}
	if len(in.Profile.Missing) > 0 && !strings.HasPrefix(next, completePath+"?") {
		next = CompletionURL(next)
	}
	return done{operation: signedInNotice, next: next}
}

func (p signInPages) registerForm(r *http.Request) (formPage, error) {
	fields, err := p.formFields(r)
	if err != nil {
		return formPage{}, err
	}
	login := required(p.loginControl(r, "login"))
	offered := p.features(r)
	login.Hint = p.text(r, "hint_login", offered.LoginMinLength, offered.LoginMaxLength)
	controls := append([]ui.Control{login, required(p.emailControl(r, "email"))}, p.newPasswordControls(r, "password")...)
	controls = append(controls, p.nameControl(r, nil))
	labels := p.API.Labels(r)
	for _, f := range fields {
		if !f.ReadOnly {
			controls = append(controls, p.pages.FieldControl(r, f, labels, ui.FieldDefault(f)))
		}
	}
	return formPage{
		Title:  p.text(r, "register"),
		Form:   ui.Form{Action: withReturn(r, RegisterPath), Submit: p.text(r, "register_button"), Controls: controls},
		Asides: []aside{p.aside(r, "sign_in_question", "sign_in_link", withReturn(r, SignInPath))},
	}, nil
}

func (p signInPages) register(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	fields, err := p.Service.Fields(r.Context())
	if err != nil {
		return done{}, err
	}
	request := personal.RegisterRequest{
		Login: posted.Get("login"), Email: posted.Get("email"),
		Password: posted.Get("password"), ConfirmPassword: posted.Get("confirm_password"),
		Fields: map[string]personal.Input{},
	}
	if name := personal.Text(posted.Get("name")); !name.IsZero() {
		request.Fields["name"] = name
	}
	for _, f := range fields {
		if in := ui.FieldInput(f, posted.Field(f)); !f.ReadOnly && !in.IsZero() {
			request.Fields[f.Name] = in
		}
	}
	in, err := p.Service.Register(r.Context(), request)
	if err != nil {
		return done{}, err
	}
	next := ""
	if p.AfterRegister != nil {
		next = p.AfterRegister(w, r, in)
	}
	if in.Credentials.UserID == 0 { // they must verify their e-mail first
		p.rememberRegistered(w, r, request.Login)
		return done{next: cmp.Or(next, mailboxURL("unverified"))}, nil
	}
	p.session.SignIn(w, r, in.Credentials)
	personalweb.KeepProof(p.API, w, r, in.Proof)
	return done{operation: "register", next: cmp.Or(next, nextOf(r))}, nil
}

// signOut ends the session, or all sessions of the account.
func (p signInPages) signOut(w http.ResponseWriter, r *http.Request) {
	posted, ok := p.readPosted(w, r)
	if !ok {
		return
	}
	if err := p.session.SignOut(w, r, posted.Get("all") == "true"); err != nil {
		p.problem(w, r, p.API.ErrorResponse(r, err), "", nil)
		return
	}
	p.pages.LeaveNotice(w, r, "logout")
	ui.Redirect(w, r, p.Home)
}
