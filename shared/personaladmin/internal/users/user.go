package users

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaladmin/internal/frame"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// userHandler handles a request about one user. posted is empty if the route reads
// no form.
type userHandler func(w http.ResponseWriter, r *http.Request, user personal.UserRecord, posted ui.Posted) error

// handler handles a request to a route. posted is as for userHandler.
type handler = func(w http.ResponseWriter, r *http.Request, posted ui.Posted) error

// forID returns a handler of the user id in the path.
func (p *Pages) forID(handle func(w http.ResponseWriter, r *http.Request, id int64, posted ui.Posted) error) handler {
	return func(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil || id < 1 {
			return p.site.PageError(r, http.StatusNotFound, "users_unknown")
		}
		return handle(w, r, id, posted)
	}
}

// forUser returns a handler that reads the user whom the path names.
func (p *Pages) forUser(handle userHandler) handler {
	return p.forID(func(w http.ResponseWriter, r *http.Request, id int64, posted ui.Posted) error {
		user, err := p.Administration.User(r.Context(), id)
		if err != nil {
			return p.pageError(r, err)
		}
		return handle(w, r, user, posted)
	})
}

// userBody is the body of the page of one user.
type userBody struct {
	User        personal.UserRecord
	Path        string // of the page
	Why         string // URL that explains why they cannot sign in; may be empty
	History     string // URL; may be empty
	Profile     ui.Form
	Email       ui.Form
	Recoverable bool // a recovery mail can be sent
	Sessions    []session
}

// session is a session in the list.
type session struct {
	personal.Session
	Device string // empty if unknown
	How    string // it began; empty if unknown
}

func (p *Pages) show(w http.ResponseWriter, r *http.Request, user personal.UserRecord, _ ui.Posted) error {
	return p.render(w, r, http.StatusOK, p.body(r, user))
}

// body returns the page of a user without the sessions.
func (p *Pages) body(r *http.Request, user personal.UserRecord) *userBody {
	return &userBody{User: user, Path: userURL(user.ID, ""), Why: p.why(user.Login),
		History: p.site.LinkTo(frame.Events, userURL(user.ID, "/events")), Profile: p.profileForm(r, user), Email: p.emailForm(r, user), Recoverable: recoverable(user.User)}
}

func (p *Pages) render(w http.ResponseWriter, r *http.Request, status int, body *userBody) error {
	sessions, err := p.Administration.UserSessions(r.Context(), body.User.ID)
	if err != nil {
		return p.pageError(r, err)
	}
	for _, one := range sessions {
		body.Sessions = append(body.Sessions, session{one, ui.Device(one.Agent), p.how(r, one.Method)})
	}
	page := p.page(w, r, body, []string{"users_saved", "users_email_saved", "users_created", "users_invited", "users_session_ended", "users_reset_done"}, nil)
	return p.site.Render(w, r, status, "user", page)
}

// how says how a session began: a site that opens sessions itself has its own names.
func (p *Pages) how(r *http.Request, method string) string {
	if slices.Contains(personal.ModuleMethods(), method) {
		return p.site.Text(r, "session_method_"+method)
	}
	return method
}

// endSession ends one session of a user.
func (p *Pages) endSession(w http.ResponseWriter, r *http.Request, user personal.UserRecord, posted ui.Posted) error {
	err := p.Administration.RevokeUserSession(r.Context(), personal.RevokeUserSessionRequest{UserID: user.ID, ID: posted.Get("id")})
	if err != nil {
		return p.pageError(r, err)
	}
	p.logChange(r, "users_session_ended", user.ID)
	return p.done(w, r, "users_session_ended", user.ID)
}

// refuse shows a form of the page again, as it was typed and with its errors.
func (p *Pages) refuse(w http.ResponseWriter, r *http.Request, body *userBody, form *ui.Form, posted ui.Posted, err error) error {
	switch personal.CodeOf(err) {
	case personal.CodeValidationFailed, personal.CodeMalformedRequest, personal.CodeAlreadyExists:
		form.Fill(posted)
		return p.render(w, r, p.site.RefuseForm(r, form, err), body)
	}
	return p.pageError(r, err)
}

// userURL returns the URL of the page of a user, or of one below it.
func userURL(id int64, below string) string {
	return listPath + "/" + strconv.FormatInt(id, 10) + below
}

// done leads back to the page of a user.
func (p *Pages) done(w http.ResponseWriter, r *http.Request, notice string, id int64) error {
	return p.site.Redirect(w, r, userURL(id, ""), notice)
}

func (p *Pages) logChange(r *http.Request, change string, id int64) {
	p.site.Log.InfoContext(r.Context(), "user changed by an administrator", "change", change, "user_id", id,
		"request_id", personal.CallFrom(r.Context()).RequestID)
}

// profileForm is the form of the name and of all user fields: administrators may
// set hidden and read-only fields, too.
func (p *Pages) profileForm(r *http.Request, user personal.UserRecord) ui.Form {
	name := ui.Control{Name: "name", Label: p.site.Text(r, "users_name"), Autocomplete: "off"}
	if user.Name != nil {
		name.Value = *user.Name
	}
	form := ui.Form{Action: userURL(user.ID, ""), Submit: p.site.Text(r, "users_save"), Controls: []ui.Control{name}}
	values := map[string]any{}
	for _, f := range user.Fields {
		values[f.Name] = f.Value
	}
	labels := p.site.API.Labels(r)
	for _, f := range p.settableFields(r) {
		c := p.site.FieldControl(r, f, labels, ui.FieldText(f, values[f.Name]))
		c.Autocomplete = "off" // the data is not the administrator's own
		form.Controls = append(form.Controls, c)
	}
	form.Remember()
	return form
}

// settableFields returns the user fields as administrators may set them, none if the host cannot
// tell.
func (p *Pages) settableFields(r *http.Request) []personal.Field {
	schema, err := p.Schema(r.Context())
	if err != nil {
		p.site.Log.ErrorContext(r.Context(), "reading the user fields for an admin page", "error", err)
	}
	fields := slices.DeleteFunc(slices.Clone(schema.Fields), func(f personal.Field) bool { return !f.Type.Known() })
	for i := range fields {
		fields[i].ReadOnly = false
	}
	return fields
}

// saveProfile saves the name and the fields that were changed on the page.
func (p *Pages) saveProfile(w http.ResponseWriter, r *http.Request, user personal.UserRecord, posted ui.Posted) error {
	request := personal.UpdateUserRequest{UserID: user.ID, Fields: posted.Changes(p.settableFields(r))}
	if len(request.Fields) > 0 {
		if err := p.Administration.UpdateUser(r.Context(), request); err != nil {
			body := p.body(r, user)
			return p.refuse(w, r, body, &body.Profile, posted, err)
		}
		p.logChange(r, "users_saved", user.ID)
	}
	return p.done(w, r, "users_saved", user.ID)
}

// emailForm is its own form, because a new address revokes codes that were
// mailed before.
func (p *Pages) emailForm(r *http.Request, user personal.UserRecord) ui.Form {
	form := ui.Form{Action: userURL(user.ID, "/email"), Submit: p.site.Text(r, "users_email_save"), Controls: []ui.Control{{
		Name: "email", Type: "email", Label: p.site.Text(r, "users_email"), Hint: p.site.Text(r, "users_email_hint"),
		Value: user.Email, Autocomplete: "off",
	}}}
	form.Remember()
	return form
}

func (p *Pages) saveEmail(w http.ResponseWriter, r *http.Request, user personal.UserRecord, posted ui.Posted) error {
	if posted.Changed("email") {
		err := p.Administration.SetEmail(r.Context(), personal.SetEmailRequest{UserID: user.ID, Email: posted.Get("email")})
		if err != nil {
			body := p.body(r, user)
			return p.refuse(w, r, body, &body.Email, posted, err)
		}
		p.logChange(r, "users_email_saved", user.ID)
	}
	return p.done(w, r, "users_email_saved", user.ID)
}

// confirmation is the body of a page that asks before a change.
type confirmation struct {
	User    personal.UserRecord
	Title   string // key of a text
	Nothing string // why there is nothing to confirm; empty if there is
	Leads   []string
	Doc     string // URL of the documentation about the first of Leads; may be empty
	Form    ui.Form
}

func (p *Pages) confirm(w http.ResponseWriter, r *http.Request, status int, c confirmation) error {
	c.Form.Danger, c.Form.Cancel = true, userURL(c.User.ID, "")
	return p.site.Render(w, r, status, "userconfirm", ui.Page{Body: c})
}

// confirmRemoval asks before the second factor is removed: the person who requests that
// may be a thief who has the password.
func (p *Pages) confirmRemoval(w http.ResponseWriter, r *http.Request, user personal.UserRecord, _ ui.Posted) error {
	c := confirmation{
		User: user, Title: "users_two_factor_title",
		Leads: []string{p.site.Text(r, "users_two_factor_verify"), p.site.Text(r, "users_two_factor_lead")},
		Doc:   p.site.Doc("helping-users.md#a-user-has-lost-their-phone"),
		Form:  ui.Form{Action: userURL(user.ID, "/two-factor"), Submit: p.site.Text(r, "users_two_factor_remove")},
	}
	if !user.TwoFactor {
		c.Nothing = p.site.Text(r, "users_two_factor_off")
	}
	if passkeys, identities := len(user.Passkeys), len(user.Identities); passkeys+identities > 0 {
		c.Leads = append(c.Leads, p.site.Text(r, "users_two_factor_ways", passkeys, identities))
		c.Form.Controls = []ui.Control{{
			Kind: ui.KindCheckbox, Name: keepWays, Label: p.site.Text(r, "users_ways_keep"), Hint: p.site.Text(r, "users_ways_keep_hint"),
		}}
	}
	return p.confirm(w, r, http.StatusOK, c)
}

// keepWays is the control that keeps other ways in when the second factor is removed.
const keepWays = "keep_other_ways_in"

func (p *Pages) removeFactor(w http.ResponseWriter, r *http.Request, posted ui.Posted) error {
	name := "two_factor"
	if posted.Get(keepWays) == "true" {
		name = "two_factor_keeping_ways"
	}
	return p.change(name)(w, r, posted)
}

// confirmWays asks before all other ways in are removed, for the reason of confirmRemoval.
func (p *Pages) confirmWays(w http.ResponseWriter, r *http.Request, user personal.UserRecord, _ ui.Posted) error {
	passkeys, identities := len(user.Passkeys), len(user.Identities)
	c := confirmation{
		User: user, Title: "users_ways_title",
		Leads: []string{p.site.Text(r, "users_ways_verify"), p.site.Text(r, "users_ways_lead", passkeys, identities)},
		Doc:   p.site.Doc("helping-users.md#a-user-has-lost-a-passkey"),
		Form:  ui.Form{Action: userURL(user.ID, "/ways-in"), Submit: p.site.Text(r, "users_ways_remove")},
	}
	if passkeys+identities == 0 {
		c.Nothing = p.site.Text(r, "users_ways_none")
	}
	return p.confirm(w, r, http.StatusOK, c)
}

// confirmReset asks for the e-mail before the access is reset, for the reason of confirmRemoval.
func (p *Pages) confirmReset(w http.ResponseWriter, r *http.Request, user personal.UserRecord, _ ui.Posted) error {
	return p.confirm(w, r, http.StatusOK, p.resetConfirmation(r, user))
}

// resetConfirmation has an empty form: the present e-mail may be the thief's.
func (p *Pages) resetConfirmation(r *http.Request, user personal.UserRecord) confirmation {
	return confirmation{
		User: user, Title: "users_reset_title",
		Leads: []string{p.site.Text(r, "users_reset_verify"), p.site.Text(r, "users_reset_lead")},
		Doc:   p.site.Doc("incident-response.md#an-account-was-taken-over"),
		Form: ui.Form{Action: userURL(user.ID, "/reset"), Submit: p.site.Text(r, "users_reset"), Controls: []ui.Control{{
			Name: "email", Type: "email", Label: p.site.Text(r, "users_email"), Hint: p.site.Text(r, "users_reset_hint"),
			Required: true, Autocomplete: "off",
		}}},
	}
}

func (p *Pages) reset(w http.ResponseWriter, r *http.Request, user personal.UserRecord, posted ui.Posted) error {
	err := p.Administration.ResetAccess(r.Context(), personal.ResetAccessRequest{UserID: user.ID, Email: posted.Get("email")})
	switch personal.CodeOf(err) {
	case "":
		p.logChange(r, "users_reset_done", user.ID)
		return p.done(w, r, "users_reset_done", user.ID)
	case personal.CodeValidationFailed, personal.CodeAlreadyExists:
		c := p.resetConfirmation(r, user)
		c.Form.Fill(posted)
		status := p.site.RefuseForm(r, &c.Form, err)
		return p.confirm(w, r, status, c)
	}
	return p.pageError(r, err)
}

func (p *Pages) confirmDeletion(w http.ResponseWriter, r *http.Request, user personal.UserRecord, _ ui.Posted) error {
	return p.confirm(w, r, http.StatusOK, p.deletionConfirmation(r, user))
}

// deletionConfirmation asks for the login, so that no user is deleted by mistake.
func (p *Pages) deletionConfirmation(r *http.Request, user personal.UserRecord) confirmation {
	return confirmation{
		User: user, Title: "users_delete_title", Leads: []string{p.site.Text(r, "users_delete_lead")},
		Form: ui.Form{Action: userURL(user.ID, "/delete"), Submit: p.site.Text(r, "users_delete"), Controls: []ui.Control{{
			Name: "login", Label: p.site.Text(r, "users_type_login", user.Login), Required: true, Autocomplete: "off",
		}}},
	}
}

func (p *Pages) delete(w http.ResponseWriter, r *http.Request, user personal.UserRecord, posted ui.Posted) error {
	if posted.Get("login") != user.Login {
		c := p.deletionConfirmation(r, user)
		c.Form.Fill(posted)
		c.Form.Refuse(p.site.Text(r, "users_not_deleted"), map[string]string{"login": p.site.Text(r, "users_other_login")})
		return p.confirm(w, r, http.StatusUnprocessableEntity, c)
	}
	o := p.act(w, r, actions()["delete"], listPath, []int64{user.ID})
	if len(o.failed) > 0 {
		return p.pageError(r, o.failed[0].err)
	}
	return p.site.Redirect(w, r, o.back, outcomeNotice)
}
