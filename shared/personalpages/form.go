package personalpages

import (
	"cmp"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// form is a page with one form: GET shows it, and POST to the same path submits it.
type form struct {
	build  func(*http.Request) (formPage, error)
	submit func(http.ResponseWriter, *http.Request, ui.Posted) (done, error)

	// instead returns the path of the page to show instead, empty for none; may be nil.
	instead func(*http.Request) string

	judged personal.OperationName // that it submits, for the site's inputs; empty if none is judged

	account bool // for signed-in visitors; set by accountForm
	either  bool // a page of the account for signed-in visitors, and for others as well
	proven  bool // set by provenForm
	once    bool // a post that is sent again gets the response to the first one; see onces

	// again returns the page on which to show an error; the same if nil.
	again func(*http.Request, formPage, ui.Posted, error) formPage
}

// done is the result of a submitted form.
type done struct {
	operation string // of the API, whose confirmation the next page shows; empty for none
	next      string // path of the next page; empty if the response was sent
}

// formPage is what the template of a form gets.
type formPage struct {
	Title   string
	Lead    string   // may be empty; a page with a lead and no button is just that
	Preview string   // path at which the script asks for a better lead; empty for none
	Above   *section // a form above the page's own; may be nil

	Providers []providerButton // above the form

	Enrolment *enrolment // a secret above the form that confirms it; may be nil

	Form    ui.Form
	Passkey *passkeyPart // what the script of passkeys needs; nil if the page takes none
	Below   *section     // a form below the page's own; may be nil
	Asides  []aside
	Script  bool // loads the script that reads a code from the address

	Scripts []string // URLs of those of the site's inputs
	sources map[string][]string

	// Aliases name the control that shows an error of a parameter without its own control.
	Aliases map[string]string

	Taken      string // said instead of the errors if another account has it; may be empty
	BadToken   string // said of a code that is not valid; empty: to request a new one
	NotOffered string // said if the module does not have the operation; empty: that the page does not exist

	Unavailable string // added to what is said while the service is unavailable; may be empty
}

// section is another part of a page.
type section struct {
	Title, Text string
	Form        ui.Form // with an empty Action there is none
	Link        ui.Link // with an empty Path there is none
}

// aside is a question below a form, with a link.
type aside struct {
	Text string
	Link ui.Link // with an empty Path there is none
}

// publicForm routes a form that everyone may use.
func (s *site) publicForm(mux *http.ServeMux, path string, f form) {
	mux.Handle("GET "+path, s.public(s.show(f)))
	s.post(mux, path, f, s.public(s.submit(f)))
}

// post routes the posts of a form.
func (s *site) post(mux *http.ServeMux, path string, f form, handler http.Handler) {
	if f.once {
		handler = s.onces.handle(handler)
	}
	mux.Handle("POST "+path, handler)
}

// accountForm routes a form for signed-in visitors.
func (s *site) accountForm(mux *http.ServeMux, path string, f form) {
	f.account = true
	mux.Handle("GET "+path, s.requireUser(s.show(f)))
	s.post(mux, path, f, s.requireUser(s.submit(f), personalhttp.WithErrorHandler(s.showTypedAgain(f))))
}

func (s *site) show(f form) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if f.instead != nil {
			if path := f.instead(r); path != "" {
				ui.Redirect(w, r, path)
				return
			}
		}
		page, err := s.built(r, f)
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		s.render(w, r, http.StatusOK, f, page)
	}
}

// submit submits a form and redirects, or shows it again with its errors and what
// was typed.
func (s *site) submit(f form) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		posted, page, ok := s.read(w, r, f)
		if !ok {
			return
		}
		d, err := f.submit(w, s.withTransient(r, posted), posted)
		if err != nil {
			r, page = s.refusedProof(w, r, f, page, err)
			if f.again != nil {
				page = f.again(r, page, posted, err)
			}
			s.showAgain(w, r, f, page, posted, err)
			return
		}
		if d.operation != "" {
			s.pages.LeaveNotice(w, r, d.operation)
		}
		if d.next != "" {
			ui.Redirect(w, r, d.next)
		}
	}
}

// showTypedAgain handles a post to an account's form that is not authenticated. While
// the service is unavailable, it shows the form again with what was typed.
func (s *site) showTypedAgain(f form) personalhttp.ErrorHandler {
	return func(w http.ResponseWriter, r *http.Request, refusal error) {
		if personal.CodeOf(refusal) != personal.CodeUnavailable {
			s.refuse(w, r, refusal)
			return
		}
		posted, page, ok := s.read(w, r, f)
		if !ok {
			return
		}
		// What the form shows of the account is unknown now.
		page.Lead, page.Below = "", nil
		if page.Enrolment != nil { // nor whether the visitor has a session
			page.Enrolment.drawn = ""
		}
		page.Form.Controls = slices.DeleteFunc(page.Form.Controls, func(c ui.Control) bool { return c.Kind == ui.KindText })
		s.showAgain(w, r, f, page, posted, refusal)
	}
}

// read returns what was posted, and the page to show it on again. If it returns
// false it has sent an error.
func (s *site) read(w http.ResponseWriter, r *http.Request, f form) (posted ui.Posted, page formPage, ok bool) {
	posted, ok = s.readPosted(w, r)
	if !ok {
		return posted, page, false
	}
	page, err := s.built(r, f)
	if err != nil {
		s.refuse(w, r, err)
		return posted, page, false
	}
	return posted, page, true
}

// readPosted returns what was posted. If it returns false it has sent an error. The
// cause of that error is dropped, because it may quote a password.
func (s *site) readPosted(w http.ResponseWriter, r *http.Request) (ui.Posted, bool) {
	posted, err := ui.ReadForm(w, r)
	if err == nil {
		return posted, true
	}
	code := personal.CodeMalformedRequest
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		code = personal.CodeTooLarge
	}
	s.refuse(w, r, personal.NewError(code, nil))
	return posted, false
}

func (s *site) showAgain(w http.ResponseWriter, r *http.Request, f form, page formPage, posted ui.Posted, err error) {
	if f.account && personal.CodeOf(err) == personal.CodeUnauthenticated {
		s.refuse(w, r, err)
		return
	}
	x := s.API.ErrorResponse(r, err)
	refusal, _ := errors.AsType[*personal.Error](err)
	fieldErrors := make(map[string]string, len(x.FieldErrors))
	for name, fieldError := range x.FieldErrors {
		at := cmp.Or(page.Aliases[name], name)
		fieldErrors[at] = fieldError.Message
		switch minLength := s.features(r).PasswordMinLength; {
		case refusal != nil && refusal.FieldTexts[name] != nil: // the admission has its own text
		case name == "code" && fieldError.Code == personal.FieldErrorMismatch && page.Enrolment != nil: // which takes no recovery code
			fieldErrors[at] = s.text(r, "app_code_mismatch")
		case name == "password" && fieldError.Code == personal.FieldErrorTooShort && minLength > 0:
			fieldErrors[at] = s.text(r, "password_too_short", minLength)
		case name == "mailed_code" && fieldError.Code == personal.FieldErrorMismatch:
			fieldErrors[at] = s.text(r, "mailed_code_mismatch")
		case passkeyNameTooLong(r, name, fieldError.Code):
			fieldErrors[at] = s.text(r, "passkey_name_too_long", personal.MaxPasskeyName)
		}
	}
	message := s.withWait(r, x)
	for _, name := range []string{"proof", "attempt", "credential"} { // which have no control
		delete(fieldErrors, name)
		if fieldError, ok := x.FieldErrors[name]; ok && len(fieldErrors) == 0 {
			message = fieldError.Message
		}
	}
	byPasskey := posted.Get("credential") != ""
	switch x.Code {
	case personal.CodeAlreadyExists:
		if page.Taken != "" {
			message = page.Taken
			clear(fieldErrors)
		}
		if f.once {
			message += " " + s.text(r, "register_twice")
		}
	case personal.CodeInvalidToken:
		message = cmp.Or(page.BadToken, message)
		if f.once {
			message += " " + s.text(r, "recover_twice")
		}
	case personal.CodeInvalidCredentials:
		message += " " + s.text(r, "sign_in_help")
		if byPasskey {
			message = s.text(r, "passkey_refused")
		}
	case personal.CodeNotFound:
		message = cmp.Or(page.NotOffered, message)
	case personal.CodeUnavailable:
		message = strings.TrimSpace(message + " " + page.Unavailable)
	case personal.CodeEmailUnverified:
		if login := cmp.Or(posted.Get("login"), profileOf(r).Login); login != "" {
			page.Below = s.resendSection(r, login, s.text(r, "resend_question"))
		} else {
			page.Asides = append(page.Asides, s.aside(r, "mailbox_again_question", "mailbox_again_link", verifyPath))
		}
	case personal.CodeAccountDisabled:
		page.Asides = append(page.Asides, s.aside(r, "undo_question", "undo_link", undoPath))
	}
	page.Form.Fill(posted)
	page.Form.Refuse(message, fieldErrors)
	for i := range page.Form.Controls { // a code that has nothing wrong stays in the background
		c := &page.Form.Controls[i]
		c.Folded = c.Details && c.Value != "" && c.Error == "" && x.Code != personal.CodeInvalidToken
	}
	setRetryAfter(w, x)
	s.render(w, r, x.Status, f, page)
}

// withWait returns the message of an error, with the time after which trying again may help.
func (s *site) withWait(r *http.Request, x personalhttp.ErrorResponse) string {
	message := x.Message
	if x.RetryAfter > 0 && x.Code == personal.CodeTooManyAttempts { // the message says "later"
		message = s.text(r, "too_many_attempts")
	}
	switch {
	case x.RetryAfter >= 2*3600: // of exports
		message += " " + s.text(r, "wait_hours", (x.RetryAfter+3599)/3600)
	case x.RetryAfter >= 120:
		message += " " + s.text(r, "wait_minutes", (x.RetryAfter+59)/60)
	case x.RetryAfter > 0:
		message += " " + s.text(r, "wait_seconds", x.RetryAfter)
	}
	return message
}

// setRetryAfter sends the time after which trying again may help, if any.
func setRetryAfter(w http.ResponseWriter, x personalhttp.ErrorResponse) {
	if x.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(x.RetryAfter, 10))
	}
}

func (s *site) render(w http.ResponseWriter, r *http.Request, status int, f form, page formPage) {
	p := s.page(w, r)
	if r.URL.Path != Path && page.Enrolment == nil { // which have more to read first
		page.Form.Focus()
	}
	if _, known := personalhttp.UserFrom(r.Context()); f.account || f.either && known {
		p.SubNav = s.accountNav(r)
	}
	if slices.Contains([]string{provePath, proveMailPath, proveCodePath}, r.URL.Path) { // in front of a page
		p.Below, _, _ = strings.Cut(nextOf(r), "?")
	}
	if f.once {
		page.Form.Hidden = append(page.Form.Hidden, ui.Hidden{Name: onceField, Value: rand.Text()})
	}
	p.Body, p.Sources = page, page.sources
	s.send(w, r, status, "form", p)
}

// formFields returns the user fields of a form. While the service is unavailable, a
// posted form gets the last known fields, so that nothing that was typed is lost.
func (s *site) formFields(r *http.Request) ([]personal.Field, error) {
	fields, err := s.Service.Fields(r.Context())
	if err == nil {
		s.lastFields.Store(&fields)
		return fields, nil
	}
	if last := s.lastFields.Load(); last != nil && r.Method == http.MethodPost && personal.CodeOf(err) == personal.CodeUnavailable {
		return *last, nil
	}
	return nil, err
}

// The controls below are used by several forms. Their names are those of the
// contract's parameters.

func (s *site) loginControl(r *http.Request, key string) ui.Control {
	return ui.Control{Name: "login", Label: s.text(r, key), Autocomplete: "username"}
}

// signInControl is the account that a visitor signs in to.
func (s *site) signInControl(r *http.Request) ui.Control {
	if s.features(r).LoginWithEmail {
		return s.loginOrEmailControl(r)
	}
	return required(s.loginControl(r, "login"))
}

// loginOrEmailControl is the account that a mail is for, see [loginOrEmail].
func (s *site) loginOrEmailControl(r *http.Request) ui.Control {
	return required(s.loginControl(r, "login_or_email"))
}

// emailAtLogin shows an error of the e-mail at that control.
var emailAtLogin = map[string]string{"email": "login"}

// loginOrEmail returns what was typed into [site.loginOrEmailControl]: logins have no @.
func loginOrEmail(p ui.Posted) (login, email string) {
	typed := personal.Typed(p.Get("login"))
	if strings.Contains(typed, "@") {
		return "", typed
	}
	return typed, ""
}

func (s *site) emailControl(r *http.Request, key string) ui.Control {
	return ui.Control{Name: "email", Label: s.text(r, key), Type: "email", Autocomplete: "email"}
}

// nameControl is the display name, which every account may have.
func (s *site) nameControl(r *http.Request, name *string) ui.Control {
	c := ui.Control{Name: "name", Label: s.text(r, "name"), Autocomplete: "name"}
	if name != nil {
		c.Value = *name
	}
	return c
}

func (s *site) passwordControl(r *http.Request, name, key string) ui.Control {
	return ui.Control{
		Name: name, Label: s.text(r, key), Required: true,
		Type: "password", Autocomplete: "current-password",
	}
}

// newPasswordControls are a new password and its repetition.
func (s *site) newPasswordControls(r *http.Request, key string) []ui.Control {
	first := s.passwordControl(r, "password", key)
	first.Hint = s.text(r, "hint_password")
	if minLength := s.features(r).PasswordMinLength; minLength > 0 {
		first.Hint = s.text(r, "hint_password_min", minLength) + " " + first.Hint
	}
	second := s.passwordControl(r, "confirm_password", "confirm_password")
	first.Autocomplete, second.Autocomplete = "new-password", "new-password"
	return []ui.Control{first, second}
}

// tokenControl takes the code of a mail. A script fills it in from the address that
// the mail links to, and closes it then.
func (s *site) tokenControl(r *http.Request) ui.Control {
	return ui.Control{
		Name: "token", Label: s.text(r, "code"), Hint: s.text(r, "hint_code"), Required: true,
		Autocomplete: "off", Script: "token", Details: true,
	}
}

func required(c ui.Control) ui.Control {
	c.Required = true
	return c
}

func (s *site) aside(r *http.Request, text, link, path string) aside {
	return aside{Text: s.text(r, text), Link: ui.Link{Text: s.text(r, link), Path: path}}
}
