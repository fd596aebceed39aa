package adminpages

import (
	"net/http"

	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

// userForm is the form of everything an administrator may set, hidden and
// read-only fields too.
func (s *site) userForm(r *http.Request, user personal.UserRecord) ui.Form {
	form := ui.Form{Action: userURL(user.ID, ""), Submit: s.pages.Text(r, "users_save")}
	name := ui.Control{Name: "name", Label: s.pages.Text(r, "users_name"), Autocomplete: "off"}
	if user.Name != nil {
		name.Value = *user.Name
	}
	form.Controls = append(form.Controls, name)
	labels := s.API.Labels(r)
	for _, f := range s.settable() {
		c := s.pages.FieldControl(r, f, labels, ui.FieldText(f, valueOf(user, f.Name)))
		c.Autocomplete = "off" // it is not the administrator's own
		form.Controls = append(form.Controls, c)
	}
	form.Remember()
	return form
}

// settable returns the user fields as administrators may set them.
func (s *site) settable() []personal.Field {
	var fields []personal.Field
	for _, f := range s.Fields.Get().Schema.Fields {
		f.ReadOnly = false
		fields = append(fields, f)
	}
	return fields
}

func valueOf(user personal.UserRecord, name string) any {
	for _, f := range user.Fields {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// saveUser sends what was changed on the page.
func (s *site) saveUser(w http.ResponseWriter, r *http.Request, id int64) {
	posted, ok := s.postedLarge(w, r)
	if !ok {
		return
	}
	change := personal.UpdateUserRequest{UserID: id, Fields: posted.Changes(s.settable())}
	if len(change.Fields) > 0 {
		if err := s.Users.UpdateUser(r.Context(), change); err != nil {
			s.refuseSaving(w, r, id, posted, err)
			return
		}
		s.noteUser(r, "users_saved", id)
	}
	toUser(w, r, "users_saved", id)
}

// refuseSaving shows the form again, as it was typed, with what is wrong.
func (s *site) refuseSaving(w http.ResponseWriter, r *http.Request, id int64, posted ui.Posted, err error) {
	if code := personal.CodeOf(err); code != personal.CodeValidationFailed && code != personal.CodeMalformedRequest {
		s.refuseUser(w, r, err)
		return
	}
	user, ok := s.user(w, r, id)
	if !ok {
		return
	}
	body := s.userBody(r, user)
	body.Form.Fill(posted)
	status := s.refuseForm(r, &body.Form, err)
	s.renderUser(w, r, status, body)
}
