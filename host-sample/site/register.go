package site

import (
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

func (s *site) registerForm(r *http.Request) (formPage, error) {
	fields, err := s.formFields(r)
	if err != nil {
		return formPage{}, err
	}
	login := required(s.loginControl(r, "login"))
	login.Hint = s.pages.Text(r, "hint_login")
	controls := append([]ui.Control{login, required(s.emailControl(r, "email"))}, s.newPasswordControls(r, "password")...)
	controls = append(controls, s.nameControl(r, nil))
	labels := s.api.Labels(r)
	for _, f := range fields {
		if !f.ReadOnly {
			controls = append(controls, s.pages.FieldControl(r, f, labels, ui.FieldDefault(f)))
		}
	}
	return formPage{
		Title:  s.pages.Text(r, "register"),
		Form:   ui.Form{Action: registerPath, Submit: s.pages.Text(r, "register_button"), Controls: controls},
		Asides: []aside{s.aside(r, "sign_in_question", "sign_in_link", signInPath)},
	}, nil
}

func (s *site) register(w http.ResponseWriter, r *http.Request, p ui.Posted) (done, error) {
	fields, err := s.service.Fields(r.Context())
	if err != nil {
		return done{}, err
	}
	request := personal.RegisterRequest{
		Login: p.Get("login"), Email: p.Get("email"),
		Password: p.Get("password"), ConfirmPassword: p.Get("confirm_password"),
		Fields: map[string]personal.Input{},
	}
	if name := personal.Text(p.Get("name")); !name.IsZero() {
		request.Fields["name"] = name
	}
	for _, f := range fields {
		if in := ui.FieldInput(f, p.Field(f)); !f.ReadOnly && !in.IsZero() {
			request.Fields[f.Name] = in
		}
	}
	in, err := s.service.Register(r.Context(), request)
	if err != nil {
		return done{}, err
	}
	s.begin(w, r, in.Credentials)
	return done{operation: "register", next: accountPath}, nil
}

// nameControl is the display name, which every account may have.
func (s *site) nameControl(r *http.Request, name *string) ui.Control {
	c := ui.Control{Name: "name", Label: s.pages.Text(r, "name"), Autocomplete: "name"}
	if name != nil {
		c.Value = *name
	}
	return c
}
