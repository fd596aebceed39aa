package site

import (
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

// verificationPages are the pages to confirm an e-mail address: that of a registration,
// or a new one.
type verificationPages struct{ *site }

func (p verificationPages) route(mux *http.ServeMux) {
	p.publicForm(mux, verifyPath, form{build: p.resendForm, submit: p.resend})
	p.publicForm(mux, confirmPath, form{build: p.confirmForm, submit: p.confirm})
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
	resend = s.resendSection(r, ui.Hidden{Name: "email", Value: user.Email}, s.text(r, "unverified_lead", user.Email))
	return s.text(r, "email_unverified", user.Email), resend
}

// resendSection is a button that sends the mail again to the account of this login or
// e-mail.
func (s *site) resendSection(r *http.Request, account ui.Hidden, text string) *section {
	return &section{
		Title: s.text(r, "confirm_email"),
		Text:  text,
		Form:  ui.Form{Action: verifyPath, Submit: s.text(r, "resend_button"), Hidden: []ui.Hidden{account}, Quiet: true},
	}
}

// resendForm is the page after a registration that needs a verified e-mail, and for
// users who look for the mail later.
func (p verificationPages) resendForm(r *http.Request) (formPage, error) {
	return formPage{
		Title: p.text(r, "verify"),
		Lead:  p.text(r, "verify_lead"),
		Form: ui.Form{
			Action: verifyPath, Submit: p.text(r, "resend_button"),
			Controls: []ui.Control{p.emailControl(r, "email"), p.loginControl(r, "login")},
		},
		Asides: []aside{p.aside(r, "have_code_question", "have_code_link", confirmPath)},
	}, nil
}

// resend leads to the form for the mailed code, also if no mail is sent: the response
// never reveals whether an account exists.
func (p verificationPages) resend(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	err := p.Service.ResendVerification(r.Context(), personal.ResendVerificationRequest{Login: posted.Get("login"), Email: posted.Get("email")})
	return done{operation: "email_resend", next: confirmPath}, err
}

// confirmForm is the page that mails to a new address, and after a registration, link
// to. Opening it changes nothing, because mail scanners open links too.
func (p verificationPages) confirmForm(r *http.Request) (formPage, error) {
	again := p.aside(r, "no_code_question", "no_code_link", verifyPath)
	if _, ok := credentials(r); ok { // it may be the code of a new address, which verifyPath does not mail
		again = p.aside(r, "no_code_question", "no_code_account", accountPath)
	}
	return formPage{
		Title:  p.text(r, "confirm_email"),
		Lead:   p.text(r, "confirm_email_lead"),
		Script: true,
		Form: ui.Form{
			Action: confirmPath, Submit: p.text(r, "confirm_email_button"),
			Controls: []ui.Control{p.tokenControl(r)},
		},
		Asides: []aside{again},
	}, nil
}

// confirm leads to the account, or to the sign-in.
func (p verificationPages) confirm(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	_, err := p.Service.ConfirmEmail(r.Context(), personal.ConfirmEmailRequest{Token: tokenOf(posted)})
	next := signInPath
	if _, ok := credentials(r); ok {
		next = accountPath
	}
	return done{operation: "email_confirm", next: next}, err
}
