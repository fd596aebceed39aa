package personalpages

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// missingFieldsPages ask signed-in visitors for user fields that the site needs and that have
// no valid value: the schema has changed since they registered.
type missingFieldsPages struct{ *site }

func (p missingFieldsPages) route(mux *http.ServeMux) {
	p.accountForm(mux, completePath, form{build: p.form, submit: p.save})
}

// CompletionURL is the page that asks for missing user fields, and then leads to next, a path.
func CompletionURL(next string) string {
	return completePath + "?" + url.Values{"next": {next}}.Encode()
}

// demandedURL is CompletionURL for a next page that demands a complete profile: there is no
// way to do it later.
func demandedURL(next string) string { return CompletionURL(next) + "&demanded=true" }

func nextOf(r *http.Request) string {
	return personalweb.LocalPath(r.URL.Query().Get("next"), Path)
}

// missing returns the fields to ask for. While the service is unavailable they are those
// that were posted, so that nothing that was typed is lost.
func (p missingFieldsPages) missing(r *http.Request) ([]personal.Field, map[string]any, error) {
	fields, err := p.formFields(r)
	if err != nil {
		return nil, nil, err
	}
	user, known := personalhttp.UserFrom(r.Context())
	values := map[string]any{}
	for _, f := range user.Profile.Fields {
		values[f.Name] = f.Value
	}
	return slices.DeleteFunc(slices.Clone(fields), func(f personal.Field) bool {
		if !known {
			return !r.PostForm.Has(f.Name)
		}
		return !slices.Contains(user.Profile.Missing, f.Name)
	}), values, nil
}

func (p missingFieldsPages) form(r *http.Request) (formPage, error) {
	fields, values, err := p.missing(r)
	if err != nil {
		return formPage{}, err
	}
	page := formPage{
		Title: p.text(r, "complete"), Lead: p.text(r, "complete_lead"),
		Form:   ui.Form{Action: CompletionURL(nextOf(r)), Submit: p.text(r, "save")},
		Asides: []aside{{Text: p.text(r, "complete_later"), Link: ui.Link{Text: p.text(r, "complete_do_later"), Path: nextOf(r)}}},
	}
	if r.URL.Query().Has("demanded") {
		page.Lead, page.Form.Action, page.Asides = p.text(r, "complete_demanded"), demandedURL(nextOf(r)), nil
	}
	if len(fields) == 0 {
		page.Lead = p.text(r, "complete_nothing")
		page.Form.Submit = p.text(r, "complete_go_on")
		page.Asides = nil
	}
	labels := p.API.Labels(r)
	for _, f := range fields {
		c := p.pages.FieldControl(r, f, labels, ui.FieldText(f, values[f.Name]))
		if value := values[f.Name]; value != nil {
			c.Hint = strings.TrimSpace(p.text(r, "complete_invalid", strings.ReplaceAll(ui.FieldText(f, value), "\n", ", ")) + " " + c.Hint)
		}
		page.Form.Controls = append(page.Form.Controls, c)
	}
	return page, nil
}

// save sends just the fields that the page asked for, and goes on.
func (p missingFieldsPages) save(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	fields, _, err := p.missing(r)
	if err != nil || len(fields) == 0 {
		return done{next: nextOf(r)}, err
	}
	request := personal.UpdateProfileRequest{Credentials: p.credentials(r), Fields: map[string]personal.Input{}}
	for _, f := range fields {
		request.Fields[f.Name] = ui.FieldInput(f, posted.Field(f))
	}
	_, err = p.Service.UpdateProfile(r.Context(), request)
	return done{operation: "profile", next: nextOf(r)}, err
}
