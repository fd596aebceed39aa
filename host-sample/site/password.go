package site

import (
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func (s *site) passwordForm(r *http.Request) (formPage, error) {
	user, _ := personalhttp.UserFrom(r.Context())
	old := s.passwordControl(r, "old_password", "current_password")
	return formPage{
		account: true,
		Title:   s.pages.Text(r, "password"),
		Lead:    s.pages.Text(r, "password_lead"),
		Form: ui.Form{
			Action: passwordPath, Submit: s.pages.Text(r, "password_button"),
			User:     user.Profile.Login,
			Controls: append([]ui.Control{old}, s.newPasswordControls(r, "new_password")...),
		},
	}, nil
}

// changePassword keeps this session, by the new pair, and ends all others.
func (s *site) changePassword(w http.ResponseWriter, r *http.Request, p ui.Posted) (done, error) {
	old, _ := s.cookies.credentials(r)
	c, err := s.service.ChangePassword(r.Context(), personal.ChangePasswordRequest{
		Credentials: old, OldPassword: p.Get("old_password"),
		Password: p.Get("password"), ConfirmPassword: p.Get("confirm_password"),
	})
	if err != nil {
		return done{}, err
	}
	s.cookies.keep(w, r, c)
	return done{operation: "password", next: passwordPath}, nil
}
