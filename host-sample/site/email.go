package site

import (
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func (s *site) newEmailForm(r *http.Request) (formPage, error) {
	user, _ := personalhttp.UserFrom(r.Context())
	address := s.emailControl(r, "new_email")
	return formPage{
		account: true,
		Title:   s.pages.Text(r, "email"),
		Lead:    s.pages.Text(r, "new_email_lead", user.Profile.Email),
		Form: ui.Form{
			Action: newEmailPath, Submit: s.pages.Text(r, "new_email_button"),
			Controls: []ui.Control{required(address), s.passwordControl(r, "password", "current_password")},
		},
	}, nil
}

// changeEmail leads to where the code goes that is mailed to the new address.
func (s *site) changeEmail(_ http.ResponseWriter, r *http.Request, p ui.Posted) (done, error) {
	c, _ := s.cookies.credentials(r)
	err := s.service.ChangeEmail(r.Context(), personal.ChangeEmailRequest{
		Credentials: c, Email: p.Get("email"), Password: p.Get("password"),
	})
	return done{operation: "email", next: confirmPath}, err
}

// confirmForm is where mails to a new address lead. Opening it does nothing.
func (s *site) confirmForm(r *http.Request) (formPage, error) {
	return formPage{
		Title:  s.pages.Text(r, "confirm_email"),
		Lead:   s.pages.Text(r, "confirm_email_lead"),
		Script: true,
		Form: ui.Form{
			Action: confirmPath, Submit: s.pages.Text(r, "confirm_email_button"),
			Controls: []ui.Control{s.tokenControl(r)},
		},
	}, nil
}

func (s *site) confirm(_ http.ResponseWriter, r *http.Request, p ui.Posted) (done, error) {
	err := s.service.ConfirmEmail(r.Context(), personal.ConfirmEmailRequest{Token: codeOf(p)})
	return done{operation: "email_confirm", next: accountPath}, err
}
