package adminpages

import (
	"errors"
	"net/http"
	"slices"

	"github.com/cms-personal/personal/host-sample/fieldstore"
	"github.com/cms-personal/personal/host-sample/ui"
	"github.com/cms-personal/personal/shared/personal"
)

const fieldsPath = "/admin/fields"

func (s *site) fieldRoutes() {
	s.private("GET "+fieldsPath, s.listFields)
	s.private("POST "+fieldsPath+"/move", s.moveField)
	s.private("POST "+fieldsPath+"/remove", s.removeField)
	s.private("GET "+fieldsPath+"/new", s.showField)
	s.private("POST "+fieldsPath+"/new", s.saveField)
	s.private("GET "+fieldsPath+"/edit/{name}", s.showField)
	s.private("POST "+fieldsPath+"/edit/{name}", s.saveField)
	s.private("GET "+fieldsPath+"/json", s.showSource)
	s.private("POST "+fieldsPath+"/json", s.saveSource)
}

// fieldsBody is the page that lists the user fields.
type fieldsBody struct {
	Message  string // why the last change was not made; may be empty
	Revision string
	Fields   []listedField
	Previews []preview
}

// listedField is a field as listed.
type listedField struct {
	personal.Field
	Label, TypeText string // in the administrator's language
	First, Last     bool
}

func (s *site) listFields(w http.ResponseWriter, r *http.Request) {
	s.renderFields(w, r, http.StatusOK, "")
}

func (s *site) renderFields(w http.ResponseWriter, r *http.Request, status int, message string) {
	schema := s.Fields.Get().Schema
	labels := s.API.Labels(r)
	body := fieldsBody{Message: message, Revision: schema.Revision, Previews: s.previews(r, schema.Fields)}
	for i, f := range schema.Fields {
		body.Fields = append(body.Fields, listedField{
			Field: f, Label: labels(f.Label, f.Name), TypeText: s.typeText(r, f.Type),
			First: i == 0, Last: i == len(schema.Fields)-1,
		})
	}
	s.render(w, r, status, "fields", ui.Page{Notice: s.notice(w, r, "fields_saved", "fields_removed"), Body: body})
}

func (s *site) typeText(r *http.Request, t personal.FieldType) string {
	return s.pages.Text(r, "fields_type_"+string(t))
}

// moveField changes places with the field before or after.
func (s *site) moveField(w http.ResponseWriter, r *http.Request) {
	posted, ok := s.posted(w, r)
	if !ok {
		return
	}
	name, step := posted.Get("up"), -1
	if name == "" {
		name, step = posted.Get("down"), 1
	}
	fields := slices.Clone(s.Fields.Get().Schema.Fields)
	from := indexOf(fields, name)
	if to := from + step; from >= 0 && to >= 0 && to < len(fields) {
		// They stand in order, and do so again when the two orders are swapped too.
		fields[from], fields[to] = fields[to], fields[from]
		fields[from].Order, fields[to].Order = fields[to].Order, fields[from].Order
	}
	s.replaceFields(w, r, fields, posted.Get("revision"), func() { ui.Redirect(w, r, fieldsPath+"#listed-"+name) })
}

// removeField leaves what users have stored in the field where it is.
func (s *site) removeField(w http.ResponseWriter, r *http.Request) {
	posted, ok := s.posted(w, r)
	if !ok {
		return
	}
	fields := slices.DeleteFunc(slices.Clone(s.Fields.Get().Schema.Fields), func(f personal.Field) bool {
		return f.Name == posted.Get("name")
	})
	s.replaceFields(w, r, fields, posted.Get("revision"), func() {
		ui.LeaveNotice(w, r, "fields_removed")
		ui.Redirect(w, r, fieldsPath)
	})
}

// replaceFields makes a change of the list and calls done, or tells why not.
func (s *site) replaceFields(w http.ResponseWriter, r *http.Request, fields []personal.Field, revision string, done func()) {
	_, err := s.Fields.PutFields(fields, revision)
	switch {
	case errors.Is(err, fieldstore.ErrChanged):
		s.renderFields(w, r, http.StatusConflict, s.pages.Text(r, "fields_changed"))
	case err != nil:
		s.fail(w, r, "changing the user fields", err)
	default:
		s.noteFields(r)
		done()
	}
}

// noteFields leaves a change of the schema in the log.
func (s *site) noteFields(r *http.Request) {
	schema := s.Fields.Get().Schema
	s.Log.InfoContext(r.Context(), "user fields changed", "revision", schema.Revision, "fields", len(schema.Fields))
}

// indexOf returns where a field of that name stands, -1 if there is none.
func indexOf(fields []personal.Field, name string) int {
	return slices.IndexFunc(fields, func(f personal.Field) bool { return f.Name == name })
}
