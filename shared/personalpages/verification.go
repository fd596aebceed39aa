package personalpages

import (
	"encoding/base64"
	"net/http"
	"unicode/utf8"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// verificationPages are the pages to confirm an e-mail address: that of a registration,
// or a new one.
type verificationPages struct{ *site }

func (p verificationPages) route(mux *http.ServeMux) {
	p.publicForm(mux, verifyPath, form{build: p.resendForm, submit: p.resend, judged: personal.OpResendVerification})
	p.publicForm(mux, confirmPath, form{build: p.confirmForm, submit: p.confirm, either: true})
}

// registeredCookie keeps the login of a registration whose e-mail must be confirmed, for
// the form that takes the mailed code. It is sent when the link in the mail is followed.
const registeredCookie = "registered"

// registeredLifetime is how long the browser keeps the login, in seconds. Users who
// confirm later type it.
const registeredLifetime = 60 * 60

func (s *site) rememberRegistered(w http.ResponseWriter, r *http.Request, login string) {
	value := base64.RawURLEncoding.EncodeToString([]byte(login)) // it may have any letters
	personalweb.SetCookie(s.API, w, r, http.Cookie{Name: registeredCookie, Value: value, MaxAge: registeredLifetime})
}

// registeredLogin returns the login of [site.rememberRegistered], empty if there is none.
// Visitors can make one up.
func (s *site) registeredLogin(r *http.Request) string {
	login, err := base64.RawURLEncoding.DecodeString(personalweb.CookieValue(s.API, r, registeredCookie))
	if err != nil || !utf8.Valid(login) {
		return ""
	}
	return string(login)
}

// emailState returns the user's e-mail with a word on whether it is verified. If it is
// not, it also returns the section that offers another mail.
func (s *site) emailState(r *http.Request, user personal.Profile) (shown string, resend *section) {
	switch {
	case user.Email == "":
		return "", nil
	case user.EmailVerified:
		return s.text(r, "email_verified", user.Email), nil
	}
	resend = s.resendSection(r, user.Email, s.text(r, "unverified_lead", user.Email))
	return s.text(r, "email_unverified", user.Email), resend
}

// confirmFirst is the section that offers to confirm the e-mail, or to enter one.
func (s *site) confirmFirst(r *http.Request, user personal.Profile) *section {
	if _, resend := s.emailState(r, user); resend != nil {
		return resend
	}
	return &section{
		Title: s.text(r, "email"), Text: s.text(r, "new_email_lead_none"),
		Link: ui.Link{Text: s.text(r, "new_email_button"), Path: newEmailPath},
	}
}

// resendSection is a button that sends the mail again to the account of this login or
// e-mail.
func (s *site) resendSection(r *http.Request, account, text string) *section {
	return &section{
		Title: s.text(r, "confirm_email"),
		Text:  text,
		Form:  ui.Form{Action: verifyPath, Submit: s.text(r, "resend_button"), Hidden: []ui.Hidden{{Name: "login", Value: account}}, Quiet: true},
	}
}

// resendForm is the page for users who look for the mail later.
func (p verificationPages) resendForm(r *http.Request) (formPage, error) {
	return formPage{
		Title: p.text(r, "verify"),
		Lead:  p.text(r, "verify_lead"), Aliases: emailAtLogin,
		Form: ui.Form{
			Action: verifyPath, Submit: p.text(r, "resend_button"),
			Controls: []ui.Control{p.loginOrEmailControl(r)},
		},
		Asides: []aside{p.aside(r, "have_code_question", "have_code_link", confirmPath)},
	}, nil
}

// resend leads to the page that says to look into the mailbox, also if no mail is sent: the
// response never reveals whether an account exists.
func (p verificationPages) resend(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	login, email := loginOrEmail(posted)
	err := p.Service.ResendVerification(r.Context(), personal.ResendVerificationRequest{Login: login, Email: email})
	return done{next: mailboxURL("email_resend")}, err
}

// confirmForm is the page that mails to a new address, and after a registration, link
// to. Opening it changes nothing, because mail scanners open links too.
func (p verificationPages) confirmForm(r *http.Request) (formPage, error) {
	again := p.aside(r, "no_code_question", "no_code_link", verifyPath)
	_, signedIn := p.session.Credentials(r)
	if signedIn { // it may be the code of a new address, which verifyPath does not mail
		again = p.aside(r, "no_code_question", "no_code_account", Path)
	}
	controls := []ui.Control{p.tokenControl(r)}
	registered := p.registeredLogin(r)
	needed := p.features(r).EmailVerification // "" if unknown
	waits := !signedIn && (registered != "" || needed == "" || needed == personal.VerificationRequired)
	if waits || r.Method == http.MethodPost { // accounts from before a change of the setting wait, too: the refusal says so
		login := p.loginControl(r, "login")
		login.Hint, login.Value = p.text(r, "hint_confirm_login"), registered
		controls = append(controls, login)
	}
	return formPage{
		Title:    p.text(r, "confirm_email"),
		BadToken: p.text(r, "confirm_email_invalid"),
		Lead:     p.text(r, "confirm_email_lead"),
		Script:   true,
		Form:     ui.Form{Action: confirmPath, Submit: p.text(r, "confirm_email_button"), Controls: controls},
		Asides:   []aside{again},
	}, nil
}

// confirm leads to the account, or to the sign-in.
func (p verificationPages) confirm(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	_, err := p.Service.ConfirmEmail(r.Context(), personal.ConfirmEmailRequest{Token: posted.Get("token"), Login: posted.Get("login")})
	if err == nil && p.registeredLogin(r) != "" {
		personalweb.SetCookie(p.API, w, r, http.Cookie{Name: registeredCookie, MaxAge: -1})
	}
	next := SignInPath
	if _, ok := p.session.Credentials(r); ok {
		next = Path
	}
	return done{operation: "email_confirm", next: next}, err
}
