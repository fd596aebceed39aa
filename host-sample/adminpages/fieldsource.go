package adminpages

import (
	"errors"
	"net/http"

	"github.com/cms-personal/personal/host-sample/fieldstore"
	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/userfields"
)

// showSource shows the schema as the file has it.
func (s *site) showSource(w http.ResponseWriter, r *http.Request) {
	set := s.Fields.Get()
	form := s.sourceForm(r, set.Schema.Revision)
	form.Controls[0].Value = string(set.Source)
	s.render(w, r, http.StatusOK, "fieldsjson", ui.Page{Body: form})
}

func (s *site) sourceForm(r *http.Request, revision string) ui.Form {
	return ui.Form{
		Action:   fieldsPath + "/json",
		Submit:   s.pages.Text(r, "fields_save"),
		Hidden:   []ui.Hidden{{Name: "revision", Value: revision}},
		Controls: []ui.Control{{Kind: ui.KindLongText, Name: "source", Label: s.pages.Text(r, "fields_source")}},
	}
}

func (s *site) saveSource(w http.ResponseWriter, r *http.Request) {
	posted, ok := s.postedLarge(w, r)
	if !ok {
		return
	}
	known := posted.Get("revision")
	_, err := s.Fields.Put([]byte(posted.Get("source")), func(revision string) bool { return revision == known })
	if err == nil {
		s.noteFields(r)
		ui.LeaveNotice(w, r, "fields_saved")
		ui.Redirect(w, r, fieldsPath)
		return
	}
	form := s.sourceForm(r, s.Fields.Get().Schema.Revision)
	form.Fill(posted)
	status := http.StatusUnprocessableEntity
	var faulty *userfields.SchemaError
	switch {
	case errors.Is(err, fieldstore.ErrChanged):
		status = http.StatusConflict
		form.Refuse(s.pages.Text(r, "fields_changed_form"), nil)
	case errors.As(err, &faulty):
		form.Refuse(s.pages.Text(r, "fields_faulty"), map[string]string{"source": faulty.Error()})
	default:
		s.fail(w, r, "changing the user fields", err)
		return
	}
	s.render(w, r, status, "fieldsjson", ui.Page{Body: form})
}
