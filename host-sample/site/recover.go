package site

import (
	"net/http"
	"strings"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

func (s *site) askForm(r *http.Request) (formPage, error) {
	return formPage{
		Title: s.pages.Text(r, "forgot"),
		Lead:  s.pages.Text(r, "forgot_lead"),
		Form: ui.Form{
			Action: askPath, Submit: s.pages.Text(r, "forgot_button"),
			Controls: []ui.Control{s.emailControl(r, "email"), s.loginControl(r, "login")},
		},
		Asides: []aside{s.aside(r, "have_code_question", "have_code_link", recoverPath)},
	}, nil
}

// ask leads to where the code of the mail goes, whether or not there will be
// one: nothing tells who has an account.
func (s *site) ask(_ http.ResponseWriter, r *http.Request, p ui.Posted) (done, error) {
	err := s.service.Recover(r.Context(), personal.RecoverRequest{Login: p.Get("login"), Email: p.Get("email")})
	return done{operation: "recover", next: recoverPath}, err
}

// recoverForm is where recovery mails lead. Opening it does nothing: scanners of
// mail do that too.
func (s *site) recoverForm(r *http.Request) (formPage, error) {
	return formPage{
		Title:  s.pages.Text(r, "recover"),
		Script: true,
		Form: ui.Form{
			Action: recoverPath, Submit: s.pages.Text(r, "recover_button"),
			Controls: append([]ui.Control{s.tokenControl(r)}, s.newPasswordControls(r, "new_password")...),
		},
		Asides: []aside{s.aside(r, "no_code_question", "no_code_link", askPath)},
	}, nil
}

// recover ends every session of the account, so the way on is to sign in.
func (s *site) recover(_ http.ResponseWriter, r *http.Request, p ui.Posted) (done, error) {
	err := s.service.RecoverConfirm(r.Context(), personal.RecoverConfirmRequest{
		Token: codeOf(p), Password: p.Get("password"), ConfirmPassword: p.Get("confirm_password"),
	})
	return done{operation: "recover_confirm", next: signInPath}, err
}

// codeOf returns the code of a mail, without what copying adds around it.
func codeOf(p ui.Posted) string { return strings.TrimSpace(p.Get("token")) }
