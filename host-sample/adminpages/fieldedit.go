package adminpages

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/cms-personal/personal/host-sample/fieldstore"
	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/userfields"
)

// fieldBody is the page of one user field.
type fieldBody struct {
	Field    string // the one to change; empty: a new one
	Revision string
	Form     *fieldForm
	Rows     int       // for options
	Previews []preview // of what was typed; nil if nobody asked for it
}

// showField shows the form of a field, or of a new one behind all others.
func (s *site) showField(w http.ResponseWriter, r *http.Request) {
	schema := s.Fields.Get().Schema
	name := r.PathValue("name")
	f := personal.Field{Type: personal.TypeText, Order: nextOrder(schema.Fields)}
	if name != "" {
		i := indexOf(schema.Fields, name)
		if i < 0 {
			s.problem(w, r, ui.Problem{Status: http.StatusNotFound, Message: s.pages.Text(r, "fields_unknown")})
			return
		}
		f = schema.Fields[i]
	}
	rows := len(f.Options) + spareOptions
	form := s.newFieldForm(r, f, rows, labelLocales(schema.Fields))
	s.renderField(w, r, http.StatusOK, fieldBody{Field: name, Revision: schema.Revision, Form: form, Rows: rows})
}

func (s *site) renderField(w http.ResponseWriter, r *http.Request, status int, body fieldBody) {
	body.Form.Action = r.URL.Path
	s.render(w, r, status, "field", ui.Page{Body: body})
}

// nextOrder leaves room for others in between.
func nextOrder(fields []personal.Field) int {
	if len(fields) == 0 {
		return 10
	}
	return fields[len(fields)-1].Order + 10
}

// saveField saves a field, or draws its form anew: with more rows for options, or
// with a preview. What is refused is shown again as it was typed.
func (s *site) saveField(w http.ResponseWriter, r *http.Request) {
	posted, ok := s.postedLarge(w, r)
	if !ok {
		return
	}
	schema := s.Fields.Get().Schema
	locales := labelLocales(schema.Fields)
	rows, _ := strconv.Atoi(posted.Get("rows")) // 0 if that is no number
	rows = max(0, min(rows, mostOptions))
	f, faults := s.readField(r, posted, rows, locales)
	do := posted.Get("do")
	if do == "more" {
		rows += spareOptions
	}
	body := fieldBody{Field: r.PathValue("name"), Revision: posted.Get("revision"), Form: s.newFieldForm(r, f, rows, locales), Rows: rows}
	body.Form.Fill(posted)
	if do == "more" {
		s.renderField(w, r, http.StatusOK, body)
		return
	}
	if len(faults) > 0 {
		body.Form.Refuse(s.pages.Text(r, "fields_faulty"), faults)
		s.renderField(w, r, http.StatusUnprocessableEntity, body)
		return
	}
	fields := withField(schema.Fields, body.Field, f)
	if do == "preview" {
		s.previewField(w, r, body, fields, f)
		return
	}
	if _, err := s.Fields.PutFields(fields, body.Revision); err != nil {
		s.refuseField(w, r, body, f, err)
		return
	}
	s.noteFields(r)
	ui.LeaveNotice(w, r, "fields_saved")
	ui.Redirect(w, r, fieldsPath+"#listed-"+f.Name)
}

// previewField shows how a field would look, and saves nothing.
func (s *site) previewField(w http.ResponseWriter, r *http.Request, body fieldBody, fields []personal.Field, f personal.Field) {
	if _, err := userfields.Compile(fields); err != nil {
		s.refuseField(w, r, body, f, err)
		return
	}
	body.Previews = s.previews(r, []personal.Field{f})
	s.renderField(w, r, http.StatusOK, body)
}

// withField returns the fields with one in the place of the one of a name, or
// behind all others.
func withField(fields []personal.Field, name string, f personal.Field) []personal.Field {
	fields = slices.Clone(fields)
	if i := indexOf(fields, name); i >= 0 {
		fields[i] = f
		return fields
	}
	return append(fields, f)
}

// refuseField shows the form again, with what is wrong beside the control.
func (s *site) refuseField(w http.ResponseWriter, r *http.Request, body fieldBody, f personal.Field, err error) {
	status := http.StatusUnprocessableEntity
	var faulty *userfields.SchemaError
	switch {
	case errors.As(err, &faulty) && (faulty.Field == f.Name || f.Name == ""):
		body.Form.Refuse(s.pages.Text(r, "fields_faulty"), map[string]string{controlOf(faulty.Property): faulty.Problem})
	case errors.As(err, &faulty):
		body.Form.Refuse(faulty.Error(), nil)
	case errors.Is(err, fieldstore.ErrChanged):
		status, body.Revision = http.StatusConflict, s.Fields.Get().Schema.Revision
		body.Form.Refuse(s.pages.Text(r, "fields_changed_form"), nil)
	default:
		s.fail(w, r, "changing the user fields", err)
		return
	}
	s.renderField(w, r, status, body)
}

// controlOf names the control of a property; of several, the first.
func controlOf(property string) string {
	switch property {
	case "options":
		return optionName(0, "value")
	case "label":
		return "label_" + ui.Locales()[0]
	}
	return property
}
