package site

import (
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func (s *site) profileForm(r *http.Request) (formPage, error) {
	fields, err := s.formFields(r)
	if err != nil {
		return formPage{}, err
	}
	user, _ := personalhttp.UserFrom(r.Context())
	controls := []ui.Control{
		{Kind: ui.KindText, Name: "login", Label: s.pages.Text(r, "login"), Value: user.Profile.Login},
		s.nameControl(r, user.Profile.Name),
	}
	labels := s.api.Labels(r)
	for _, f := range fields {
		controls = append(controls, s.pages.FieldControl(r, f, labels, ui.FieldText(f, valueOf(user.Profile, f.Name))))
	}
	form := ui.Form{Action: accountPath, Submit: s.pages.Text(r, "save"), Controls: controls}
	form.Remember()
	return formPage{account: true, Title: s.pages.Text(r, "profile"), Form: form}, nil
}

// saveProfile sends what was changed on the page.
func (s *site) saveProfile(_ http.ResponseWriter, r *http.Request, p ui.Posted) (done, error) {
	fields, err := s.service.Fields(r.Context())
	if err != nil {
		return done{}, err
	}
	c, _ := s.cookies.credentials(r)
	change := personal.UpdateProfileRequest{Credentials: c, Fields: p.Changes(fields)}
	if len(change.Fields) > 0 {
		_, err = s.service.UpdateProfile(r.Context(), change)
	}
	return done{operation: "profile", next: accountPath}, err
}

func valueOf(p personal.Profile, name string) any {
	for _, f := range p.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}
