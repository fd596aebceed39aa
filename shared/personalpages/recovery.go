package personalpages

import (
	"net/http"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// recoveryPages are the pages to replace a forgotten password.
type recoveryPages struct{ *site }

func (p recoveryPages) route(mux *http.ServeMux) {
	p.publicForm(mux, forgotPath, form{build: p.forgotForm, submit: p.sendMail})
	p.publicForm(mux, recoverPath, form{build: p.recoverForm, submit: p.setPassword})
}

func (p recoveryPages) forgotForm(r *http.Request) (formPage, error) {
	return formPage{
		Title: p.text(r, "forgot"),
		Lead:  p.text(r, "forgot_lead"),
		Form: ui.Form{
			Action: forgotPath, Submit: p.text(r, "forgot_button"),
			Controls: []ui.Control{p.emailControl(r, "email"), p.loginControl(r, "login")},
		},
		Asides: []aside{p.aside(r, "have_code_question", "have_code_link", recoverPath)},
	}, nil
}

// sendMail leads to the form for the mailed code, also if there is no such account:
// the response never reveals whether an account exists.
func (p recoveryPages) sendMail(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	err := p.Service.Recover(r.Context(), personal.RecoverRequest{Login: posted.Get("login"), Email: posted.Get("email")})
	return done{operation: "recover", next: recoverPath}, err
}

// recoverForm is the page that recovery mails link to. Opening it changes nothing,
// because mail scanners open links too.
func (p recoveryPages) recoverForm(r *http.Request) (formPage, error) {
	return formPage{
		Title:  p.text(r, "recover"),
		Script: true,
		Form: ui.Form{
			Action: recoverPath, Submit: p.text(r, "recover_button"),
			Controls: append([]ui.Control{p.tokenControl(r)}, p.newPasswordControls(r, "new_password")...),
		},
		Asides: []aside{p.aside(r, "no_code_question", "no_code_link", forgotPath)},
	}, nil
}

// setPassword revokes every session of the account and leads to the sign-in.
func (p recoveryPages) setPassword(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	_, err := p.Service.RecoverConfirm(r.Context(), personal.RecoverConfirmRequest{
		Token: tokenOf(posted), Password: posted.Get("password"), ConfirmPassword: posted.Get("confirm_password"),
	})
	return done{operation: "recover_confirm", next: SignInPath}, err
}
