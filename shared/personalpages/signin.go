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
		Lead:  lead, Providers: p.providerButtons(r),
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

// authorize signs a visitor in with what they have typed, with a passkey, with a mailed code or by a provider.
func (s *site) authorize(r *http.Request, in signInStep, code string) (personal.SignedIn, error) {
	switch {
	case in.User != nil:
		return s.admin.SignIn(r.Context(), personal.SignInRequest{
			Identity: in.User.Identity, Method: in.Provider, Code: code, SecondFactorDone: in.User.SecondFactor,
			AuthenticatedAt: in.User.AuthenticatedAt, ProviderSession: in.User.Session,
		})
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
	next := nextOf(r)
	s.startSession(w, r, in, next)
	if s.AfterSignIn != nil {
		next = cmp.Or(s.AfterSignIn(w, r, in), next)
	}
	if len(in.Profile.Missing) > 0 && !strings.HasPrefix(next, completePath+"?") {
		next = CompletionURL(next)
	}
	return done{operation: signedInNotice, next: next}
}

// startSession starts a session. Whoever a provider has named in this browser waits no longer, unless the next page is the one
// that asks whether to link them.
func (s *site) startSession(w http.ResponseWriter, r *http.Request, in personal.SignedIn, next string) {
	s.session.SignIn(w, r, in.Credentials)
	personalweb.KeepProof(s.API, w, r, in.Proof)
	if next != linkPath {
		s.forgetWaiting(w, r)
	}
}

func (p signInPages) registerForm(r *http.Request) (formPage, error) {
	own, err := p.registrationControls(r, nil)
	if err != nil {
		return formPage{}, err
	}
	login, email := p.registrationLogin(r)
	return formPage{
		Title: p.text(r, "register"), Providers: p.providerButtons(r),
		Form: ui.Form{Action: withReturn(r, RegisterPath), Submit: p.text(r, "register_button"), Controls: slices.Concat(
			[]ui.Control{login, email}, p.newPasswordControls(r, "password"), own)},
		Asides: []aside{p.aside(r, "sign_in_question", "sign_in_link", withReturn(r, SignInPath))},
	}, nil
}

// registrationLogin returns the controls of a new user's login and e-mail.
func (s *site) registrationLogin(r *http.Request) (login, email ui.Control) {
	login = required(s.loginControl(r, "login"))
	offered := s.features(r)
	login.Hint = s.text(r, "hint_login", offered.LoginMinLength, offered.LoginMaxLength)
	return login, required(s.emailControl(r, "email"))
}

// registrationControls returns those of a new user's name and user fields.
func (s *site) registrationControls(r *http.Request, name *string) ([]ui.Control, error) {
	fields, err := s.formFields(r)
	if err != nil {
		return nil, err
	}
	controls := []ui.Control{s.nameControl(r, name)}
	labels := s.API.Labels(r)
	for _, f := range fields {
		if f.ReadOnly {
			continue
		}
		c := s.pages.FieldControl(r, f, labels, ui.FieldDefault(f))
		if c.Kind == ui.KindSelect && !f.Default.IsZero() { // which replaces no choice
			c.Options = slices.DeleteFunc(c.Options, func(o ui.Choice) bool { return o.Value == "" })
		}
		controls = append(controls, c)
	}
	return controls, nil
}

// registrationFields returns the user fields of a posted registration.
func (s *site) registrationFields(r *http.Request, posted ui.Posted) (map[string]personal.Input, error) {
	fields, err := s.Service.Fields(r.Context())
	if err != nil {
		return nil, err
	}
	inputs := map[string]personal.Input{}
	for _, f := range fields {
		if in := ui.FieldInput(f, posted.Field(f)); !f.ReadOnly && !in.IsZero() {
			inputs[f.Name] = in
		}
	}
	return inputs, nil
}

func (p signInPages) register(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	fields, err := p.registrationFields(r, posted)
	if err != nil {
		return done{}, err
	}
	request := personal.RegisterRequest{
		Login: posted.Get("login"), Email: posted.Get("email"),
		Password: posted.Get("password"), ConfirmPassword: posted.Get("confirm_password"), Fields: fields,
	}
	if name := personal.Text(posted.Get("name")); !name.IsZero() {
		fields["name"] = name
	}
	in, err := p.Service.Register(r.Context(), request)
	if err != nil {
		return done{}, err
	}
	return p.registered(w, r, in, request.Login, nextOf(r)), nil
}

// registered starts the session of a new user, or leads to the page that says to look into the mailbox.
func (s *site) registered(w http.ResponseWriter, r *http.Request, in personal.SignedIn, login, next string) done {
	instead := ""
	if s.AfterRegister != nil {
		instead = s.AfterRegister(w, r, in)
	}
	if in.Credentials.UserID == 0 { // they must verify their e-mail first
		s.rememberRegistered(w, r, login)
		s.forgetWaiting(w, r)
		return done{next: cmp.Or(instead, mailboxURL("unverified"))}
	}
	s.startSession(w, r, in, next)
	return done{operation: "register", next: cmp.Or(instead, next)}
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
	p.forgetWaiting(w, r)
	if p.warnOfProviderSession(w, r, p.API.SuccessMessage(r, "logout")) {
		return
	}
	p.pages.LeaveNotice(w, r, "logout")
	ui.Redirect(w, r, p.Home)
}
