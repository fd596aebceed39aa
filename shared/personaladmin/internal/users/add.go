package users

import (
	"net/http"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// The controls of a new user that are not about their data. No user field has such a name.
const (
	languageControl = "mail:language"
	inviteControl   = "mail:invite"
)

func (p *Pages) showNew(w http.ResponseWriter, r *http.Request) error {
	return p.renderNew(w, r, http.StatusOK, p.newForm(r))
}

func (p *Pages) renderNew(w http.ResponseWriter, r *http.Request, status int, form ui.Form) error {
	return p.site.Render(w, r, status, "usernew", ui.Page{Body: form})
}

// newForm is the form of a new user. A link may bring a login or an e-mail.
func (p *Pages) newForm(r *http.Request) ui.Form {
	text := func(key string) string { return p.site.Text(r, key) }
	login, email := r.URL.Query().Get("login"), ""
	if strings.Contains(login, "@") { // no login has one
		login, email = "", login
	}
	var languages []ui.Choice
	for _, locale := range p.site.VisitorLocales() {
		choice := ui.Choice{Value: locale, Label: p.site.LanguageName(locale)}
		if slices.Contains(personal.Languages(), locale) {
			choice.Label = text("users_language_" + locale)
		}
		languages = append(languages, choice)
	}
	language := personal.CallFrom(r.Context()).Locale
	if !slices.Contains(p.site.VisitorLocales(), language) {
		language = p.site.VisitorLocales()[0]
	}
	form := ui.Form{Action: listPath + "/new", Submit: text("users_new_submit"), Controls: []ui.Control{
		{Name: "login", Label: text("users_login"), Hint: text("users_login_hint"), Value: login, Required: true, Autocomplete: "off"},
		{Name: "email", Type: "email", Label: text("users_email"), Hint: text("users_new_email_hint"), Value: email, Autocomplete: "off"},
		{Kind: ui.KindCheckbox, Name: inviteControl, Label: text("users_invite"), Hint: text("users_invite_hint"), Value: "true"},
		{
			Kind: ui.KindSelect, Name: languageControl, Label: text("users_language"), Options: languages,
			Value: language,
		},
		{Name: "name", Label: text("users_name"), Autocomplete: "off"},
	}}
	labels := p.site.API.Labels(r)
	for _, f := range p.settableFields(r) {
		c := p.site.FieldControl(r, f, labels, ui.FieldDefault(f))
		c.Autocomplete, c.Required = "off", false // the user may be asked for it later
		form.Controls = append(form.Controls, c)
	}
	form.Remember()
	return form
}

// create adds a user. Fields that show their default still are left to the plugin.
func (p *Pages) create(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	request := personal.CreateUserRequest{
		Login: posted.Get("login"), Email: posted.Get("email"), Fields: posted.Changes(p.settableFields(r)),
		Invite: posted.Get(inviteControl) == "true", Locale: posted.Get(languageControl),
	}
	id, err := p.Administration.CreateUser(r.Context(), request)
	switch personal.CodeOf(err) {
	case "":
	case personal.CodeValidationFailed, personal.CodeMalformedRequest, personal.CodeAlreadyExists:
		form := p.newForm(r)
		form.Fill(posted)
		return p.renderNew(w, r, p.site.RefuseForm(r, &form, err), form)
	default:
		return p.pageError(r, err)
	}
	notice := "users_created"
	if request.Invite {
		notice = "users_invited"
	}
	p.logChange(r, notice, id)
	return p.done(w, r, notice, id)
}
