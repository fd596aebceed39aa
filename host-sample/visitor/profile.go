package visitor

import (
	"net/http"
	"slices"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
)

func (s *site) profileForm(r *http.Request) (formPage, error) {
	fields, err := s.service.Fields(r.Context())
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
	return formPage{
		account: true,
		Title:   s.pages.Text(r, "profile"),
		Form:    ui.Form{Action: accountPath, Submit: s.pages.Text(r, "save"), Controls: controls},
	}, nil
}

// saveProfile sends what differs from the profile and nothing else, so that a
// page that was open for long does not undo what was changed elsewhere, and
// what a control shows shortened is not cut.
func (s *site) saveProfile(_ http.ResponseWriter, r *http.Request, p ui.Posted) (done, error) {
	fields, err := s.service.Fields(r.Context())
	if err != nil {
		return done{}, err
	}
	user, _ := personalhttp.UserFrom(r.Context())
	c, _ := s.cookies.credentials(r)
	change := personal.UpdateProfileRequest{Credentials: c, Fields: map[string]personal.Input{}}
	if name := p.Get("name"); name != s.nameControl(r, user.Profile.Name).Value {
		change.Fields["name"] = personal.Text(name)
	}
	for _, f := range fields {
		is := ui.FieldInput(f, ui.FieldText(f, valueOf(user.Profile, f.Name)))
		if to := ui.FieldInput(f, p.Field(f)); !f.ReadOnly && !equal(is, to) {
			change.Fields[f.Name] = to
		}
	}
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

func equal(a, b personal.Input) bool {
	return a.Kind == b.Kind && a.Text == b.Text && slices.Equal(a.List, b.List)
}
