package fields

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhost/fieldstore"
	"github.com/cms-personal/personal/shared/personalweb/ui"
	"github.com/cms-personal/personal/shared/userfields"
)

// fieldBody is the body of the page of one field.
type fieldBody struct {
	Field    string // name of the field to change; empty for a new one
	Revision string
	Form     *fieldForm
	Previews []preview // of the posted field; nil unless requested
}

// showField shows the form of a field, or of a new one at the end of the list.
func (p *Pages) showField(w http.ResponseWriter, r *http.Request) error {
	schema := p.schema()
	body := fieldBody{Field: r.PathValue("name"), Revision: schema.Revision}
	f := personal.Field{Type: personal.TypeText, Order: 10}
	if n := len(schema.Fields); n > 0 {
		f.Order = schema.Fields[n-1].Order + 10 // leaves room between the two
	}
	if body.Field != "" {
		i := indexOf(schema.Fields, body.Field)
		if i < 0 {
			return p.site.PageError(r, http.StatusNotFound, "fields_unknown")
		}
		if f = schema.Fields[i]; !f.Type.Known() {
			return p.site.PageError(r, http.StatusConflict, "fields_later")
		}
	}
	body.Form = p.newForm(r, f, len(f.Options)+spareOptions, p.textLocales(schema.Fields))
	return p.renderField(w, r, http.StatusOK, body)
}

func (p *Pages) renderField(w http.ResponseWriter, r *http.Request, status int, body fieldBody) error {
	body.Form.Action = r.URL.Path
	return p.site.Render(w, r, status, "field", ui.Page{Body: body})
}

// saveField saves the posted field. It shows the form again with more rows for
// options or with a preview if the button asks for that, and with the errors of a
// field that is refused.
func (p *Pages) saveField(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	schema := p.schema()
	locales := p.textLocales(schema.Fields)
	rows, _ := strconv.Atoi(posted.Get("rows")) // 0 if it is not a number
	rows = max(0, min(rows, maxOptions))
	f, fieldErrors := p.readForm(r, posted, rows, locales)
	do := posted.Get("do")
	if do == "more" {
		rows += spareOptions
	}
	body := fieldBody{Field: r.PathValue("name"), Revision: posted.Get("revision"), Form: p.newForm(r, f, rows, locales)}
	body.Form.Fill(posted)
	if do == "more" {
		return p.renderField(w, r, http.StatusOK, body)
	}
	if len(fieldErrors) > 0 {
		body.Form.Refuse(p.site.Text(r, "fields_invalid"), fieldErrors)
		return p.renderField(w, r, http.StatusUnprocessableEntity, body)
	}
	fields := slices.Clone(schema.Fields)
	switch i := indexOf(fields, body.Field); {
	case i < 0:
		fields = append(fields, f)
	case !fields[i].Type.Known():
		return p.site.PageError(r, http.StatusConflict, "fields_later")
	default:
		fields[i] = f
	}
	notice, asked := "", false
	source, err := p.Store.Encode(fields)
	if err == nil {
		_, _, err = userfields.ParseJSON(source, schema.Fields...)
	}
	if err == nil && do != "preview" {
		notice, asked, err = p.put(w, r, fields, source, body.Revision)
	}
	switch {
	case asked:
		return err
	case err != nil:
		return p.refuseField(w, r, body, f, err)
	case do == "preview":
		body.Previews = p.previews(r, []personal.Field{f})
		return p.renderField(w, r, http.StatusOK, body)
	}
	return p.saved(w, r, listPath+"#listed-"+f.Name, notice)
}

// refuseField shows the form again, with an error of the schema at its control.
func (p *Pages) refuseField(w http.ResponseWriter, r *http.Request, body fieldBody, f personal.Field, err error) error {
	status := http.StatusUnprocessableEntity
	var invalid *userfields.SchemaError
	switch {
	case errors.As(err, &invalid) && (invalid.Field == f.Name || f.Name == ""):
		body.Form.Refuse(p.site.Text(r, "fields_invalid"), map[string]string{p.controlOf(invalid.Property): invalid.Problem})
		body.Form.ErrorsIn("en")
	case errors.As(err, &invalid):
		body.Form.Refuse(invalid.Error(), nil)
	case errors.Is(err, errUnavailable):
		status = http.StatusServiceUnavailable
		body.Form.Refuse(p.site.Text(r, "fields_unavailable"), nil)
	case errors.Is(err, fieldstore.ErrChanged):
		status, body.Revision = http.StatusConflict, p.schema().Revision
		body.Form.Refuse(p.site.Text(r, "fields_changed_form"), nil)
	default:
		return err
	}
	return p.renderField(w, r, status, body)
}

// controlOf names the control of a property; the first one if it has several.
func (p *Pages) controlOf(property string) string {
	switch property {
	case "options":
		return optionName(0, "value")
	case "label":
		return "label_" + p.site.VisitorLocales()[0]
	}
	return property
}
