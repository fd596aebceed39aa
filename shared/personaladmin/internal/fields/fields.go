// Package fields has the admin pages of the user-field schema: the list with a
// preview, the form of one field, and the schema as JSON.
package fields

import (
	"errors"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalweb/ui"
	"github.com/cms-personal/personal/shared/userfields"
)

const listPath = frame.Path + "/fields"

// Pages are the pages of the user fields.
type Pages struct {
	Store          *fieldstore.Store
	Administration Administration

	site    *frame.Site
	removed atomic.Pointer[removal]
}

// Name implements [frame.Section].
func (p *Pages) Name() string { return "fields" }

// Register implements [frame.Section].
func (p *Pages) Register(s *frame.Site) {
	p.site = s
	s.Handle("GET "+listPath, func(w http.ResponseWriter, r *http.Request) error { return p.renderList(w, r, http.StatusOK, "") })
	s.HandleForm("POST "+listPath+"/move", ui.ReadForm, p.move)
	s.HandleForm("POST "+listPath+"/remove", ui.ReadForm, p.remove)
	s.HandleForm("POST "+listPath+"/put-back", ui.ReadForm, p.putBack)
	s.HandleForm("POST "+listPath+"/choose", ui.ReadLargeForm, p.choose)
	s.Handle("GET "+listPath+"/fill", p.refreshProgress)
	s.Handle("GET "+listPath+"/new", p.showField)
	s.HandleForm("POST "+listPath+"/new", ui.ReadLargeForm, p.saveField)
	s.Handle("GET "+listPath+"/edit/{name}", p.showField)
	s.HandleForm("POST "+listPath+"/edit/{name}", ui.ReadLargeForm, p.saveField)
	s.Handle("GET "+listPath+"/json", p.showSource)
	s.HandleForm("POST "+listPath+"/json", ui.ReadLargeForm, p.saveSource)
}

// listBody is the body of the list page.
type listBody struct {
	Message  string // why the last change failed; may be empty
	Warning  string // what to know about the last change; may be empty
	Revision string
	Fields   []listedField
	Previews []preview
	Fill     frame.LivePart // of a fillView
	Removed  *removal       // nil if there is nothing to put back
}

// listedField is a field in the list.
type listedField struct {
	personal.Field
	Label, TypeText string // in the administrator's language
	First, Last     bool
}

// renderList sends the list with a message; empty for none.
func (p *Pages) renderList(w http.ResponseWriter, r *http.Request, status int, message string) error {
	schema := p.schema()
	labels := p.site.API.Labels(r)
	body := listBody{Message: message, Revision: schema.Revision, Previews: p.previews(r, schema.Fields)}
	for i, f := range schema.Fields {
		body.Fields = append(body.Fields, listedField{
			Field: f, Label: labels(f.Label, f.Name), TypeText: p.typeText(r, f.Type),
			First: i == 0, Last: i == len(schema.Fields)-1,
		})
	}
	fill := p.progress(r)
	body.Fill = frame.NewLivePart(fill)
	if last := p.removed.Load(); last != nil && last.revision == schema.Revision {
		body.Removed = last
	}
	page := ui.Page{Live: fill.Refresh}
	switch key := p.site.TakeNotice(w, r); key {
	case noticeSaved, noticeFilling, "fields_removed", "fields_put_back":
		page.Notice = p.site.Text(r, key)
	case noticeNotFilling:
		body.Warning = p.site.Text(r, key)
	}
	page.Body = body
	return p.site.Render(w, r, status, "fields", page)
}

func (p *Pages) schema() personal.Schema { return p.Store.Get().Schema }

func (p *Pages) typeText(r *http.Request, t personal.FieldType) string {
	if !t.Known() {
		return string(t)
	}
	return p.site.Text(r, "fields_type_"+string(t))
}

// move swaps a field with the one above or below it.
func (p *Pages) move(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	name, step := posted.Get("up"), -1
	if name == "" {
		name, step = posted.Get("down"), 1
	}
	fields := slices.Clone(p.schema().Fields)
	from := indexOf(fields, name)
	if to := from + step; from >= 0 && to >= 0 && to < len(fields) {
		// The fields are sorted by Order, so the two swap that as well.
		fields[from], fields[to] = fields[to], fields[from]
		fields[from].Order, fields[to].Order = fields[to].Order, fields[from].Order
	}
	return p.replace(w, r, fields, posted, listPath+"#listed-"+name, "")
}

// remove removes a field from the schema. The stored values stay in the database.
func (p *Pages) remove(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	fields := slices.Clone(p.schema().Fields)
	i := indexOf(fields, posted.Get("name"))
	if i < 0 {
		return p.site.PageError(r, http.StatusNotFound, "fields_unknown")
	}
	gone := &removal{Field: fields[i], at: i}
	set, err := p.Store.PutFields(slices.Delete(fields, i, i+1), posted.Get("revision"))
	switch {
	case errors.Is(err, fieldstore.ErrChanged):
		return p.renderList(w, r, http.StatusConflict, p.site.Text(r, "fields_changed"))
	case err != nil:
		return err
	}
	gone.revision = set.Schema.Revision
	p.removed.Store(gone)
	return p.saved(w, r, listPath, "fields_removed")
}

// replace saves a change of the list and redirects to path, or shows the list with
// the reason why it was not saved.
func (p *Pages) replace(w http.ResponseWriter, r *http.Request, fields []personal.Field, posted ui.Posted, path, notice string) error {
	_, err := p.Store.PutFields(fields, posted.Get("revision"))
	switch {
	case errors.Is(err, fieldstore.ErrChanged):
		return p.renderList(w, r, http.StatusConflict, p.site.Text(r, "fields_changed"))
	case err != nil:
		return err
	}
	return p.saved(w, r, path, notice)
}

// saved logs a change of the schema and redirects to path.
func (p *Pages) saved(w http.ResponseWriter, r *http.Request, path, notice string) error {
	schema := p.schema()
	p.site.Log.InfoContext(r.Context(), "user fields changed", "revision", schema.Revision, "fields", len(schema.Fields))
	return p.site.Redirect(w, r, path, notice)
}

// indexOf returns the index of the field of a name, -1 if there is none.
func indexOf(fields []personal.Field, name string) int {
	return slices.IndexFunc(fields, func(f personal.Field) bool { return f.Name == name })
}

func (p *Pages) showSource(w http.ResponseWriter, r *http.Request) error {
	form := p.sourceForm(r)
	form.Controls[0].Value = string(p.Store.Get().Source)
	return p.site.Render(w, r, http.StatusOK, "fieldsjson", ui.Page{Body: form})
}

// sourceForm returns an empty form for the current revision.
func (p *Pages) sourceForm(r *http.Request) ui.Form {
	return ui.Form{
		Action:   listPath + "/json",
		Submit:   p.site.Text(r, "fields_save"),
		Hidden:   []ui.Hidden{{Name: "revision", Value: p.schema().Revision}},
		Controls: []ui.Control{{Kind: ui.KindLongText, Name: "source", Label: p.site.Text(r, "fields_source")}},
	}
}

func (p *Pages) saveSource(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	if posted.Get("do") == "edit" { // a proposed schema, which is to be changed before it is saved
		form := p.sourceForm(r)
		form.Fill(posted)
		form.Hidden[0].Value = posted.Get("revision")
		return p.site.Render(w, r, http.StatusOK, "fieldsjson", ui.Page{Body: form})
	}
	source, notice, asked := []byte(posted.Get("source")), "", false
	_, schema, err := userfields.ParseJSON(source, p.schema().Fields...)
	if err == nil {
		notice, asked, err = p.put(w, r, schema.Fields(), source, posted.Get("revision"))
	}
	switch {
	case asked:
		return err
	case err == nil:
		return p.saved(w, r, listPath, notice)
	}
	form := p.sourceForm(r)
	form.Fill(posted)
	status := http.StatusUnprocessableEntity
	var invalid *userfields.SchemaError
	switch {
	case errors.Is(err, fieldstore.ErrChanged):
		status = http.StatusConflict
		form.Refuse(p.site.Text(r, "fields_changed_form"), nil)
	case errors.As(err, &invalid):
		form.Refuse(p.site.Text(r, "fields_invalid"), map[string]string{"source": p.sourceError(r, invalid)})
		form.ErrorsIn("en")
	case errors.Is(err, errUnavailable):
		status = http.StatusServiceUnavailable
		form.Refuse(p.site.Text(r, "fields_unavailable"), nil)
	default:
		return err
	}
	return p.site.Render(w, r, status, "fieldsjson", ui.Page{Body: form})
}

// sourceError says what is wrong with a schema as JSON, and where.
func (p *Pages) sourceError(r *http.Request, e *userfields.SchemaError) string {
	if e.Line == 0 {
		return e.Error()
	}
	return p.site.Text(r, "fields_line", e.Line, e.Error())
}

// preview is the form of the fields as visitors see it in one language.
type preview struct {
	Locale   string
	Language string // its name in itself
	Controls []ui.Control
}

// previews returns a preview in every language of the site.
func (p *Pages) previews(r *http.Request, fields []personal.Field) []preview {
	var all []preview
	for _, locale := range p.site.VisitorLocales() {
		call := personal.CallFrom(r.Context())
		call.Locale = locale
		visitor := r.Clone(personal.WithCall(r.Context(), call))
		visitor.Header.Set("Accept-Language", locale)
		shown := preview{Locale: locale, Language: p.site.LanguageName(locale)}
		labels := p.site.API.Labels(visitor)
		for _, f := range fields {
			if f.Hidden || !f.Type.Known() {
				continue
			}
			c := p.site.FieldControl(visitor, f, labels, ui.FieldDefault(f))
			c.Name = "preview_" + locale + "_" + c.Name // unique on the page
			c.Autocomplete = ""                         // browsers are not to fill it in
			shown.Controls = append(shown.Controls, c)
		}
		all = append(all, shown)
	}
	return all
}
