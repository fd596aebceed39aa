package personalpages

import (
	"net/http"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// accountPages are the pages to change the profile, the password and the e-mail
// address. The address takes effect on the page of [verificationPages].
type accountPages struct{ *site }

func (p accountPages) route(mux *http.ServeMux) {
	p.accountForm(mux, Path, form{build: p.profileForm, submit: p.saveProfile})
	p.provenForm(mux, passwordPath, form{build: p.passwordForm, submit: p.changePassword})
	p.provenForm(mux, newEmailPath, form{build: p.newEmailForm, submit: p.changeEmail, judged: personal.OpChangeEmail})
}

func (p accountPages) profileForm(r *http.Request) (formPage, error) {
	fields, err := p.formFields(r)
	if err != nil {
		return formPage{}, err
	}
	user := profileOf(r)
	values := map[string]any{}
	for _, f := range user.Fields {
		values[f.Name] = f.Value
	}
	email, unverified := p.emailState(r, user)
	change := &ui.Link{Text: p.text(r, "change"), Path: newEmailPath}
	controls := []ui.Control{
		{Kind: ui.KindText, Name: "login", Label: p.text(r, "login"), Value: user.Login},
		{Kind: ui.KindText, Name: "email", Label: p.text(r, "email"), Value: email, Link: change},
		p.nameControl(r, user.Name),
	}
	labels := p.API.Labels(r)
	for _, f := range fields {
		controls = append(controls, p.pages.FieldControl(r, f, labels, ui.FieldText(f, values[f.Name])))
	}
	form := ui.Form{Action: Path, Submit: p.text(r, "save"), Controls: controls}
	form.Remember()
	leave := &section{
		Title: p.text(r, "delete"), Text: p.deletion(r, user),
		Link: ui.Link{Text: p.text(r, "delete_link"), Path: deletePath},
	}
	return formPage{Title: p.text(r, "profile"), Above: unverified, Form: form, Below: leave}, nil
}

// saveProfile sends only what was changed on the page.
func (p accountPages) saveProfile(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	fields, err := p.Service.Fields(r.Context())
	if err != nil {
		return done{}, err
	}
	change := personal.UpdateProfileRequest{Credentials: p.credentials(r), Fields: posted.Changes(fields)}
	if len(change.Fields) > 0 {
		_, err = p.Service.UpdateProfile(r.Context(), change)
	}
	return done{operation: "profile", next: Path}, err
}

func (p accountPages) passwordForm(r *http.Request) (formPage, error) {
	controls := p.withCode(r, append(p.currentPassword(r, "old_password"), p.newPasswordControls(r, "new_password")...)...)
	controls = append(controls, ui.Control{ // whether or not the visitor knows of any: a thief may have added one
		Kind: ui.KindCheckbox, Name: "remove_other_ways_in", Label: p.text(r, "remove_ways"), Hint: p.text(r, "hint_remove_ways"),
	})
	title, lead := "password", "password_lead"
	if profileOf(r).NoPassword {
		title, lead = "password_first", "password_first_lead"
	}
	return formPage{
		Title: p.text(r, title),
		Lead:  p.text(r, lead),
		Form: ui.Form{
			Action: passwordPath, Submit: p.text(r, "password_button"),
			User:     profileOf(r).Login,
			Controls: controls,
		},
	}, nil
}

// changePassword keeps this session, with new credentials, and revokes all others. If it removes
// what began this one, the next page asks the user to sign in.
func (p accountPages) changePassword(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	c, err := p.Service.ChangePassword(r.Context(), personal.ChangePasswordRequest{
		Credentials: p.credentials(r), OldPassword: posted.Get("old_password"),
		Password: posted.Get("password"), ConfirmPassword: posted.Get("confirm_password"),
		Code: posted.Get("code"), Proof: p.proofOf(r), RemoveOtherWaysIn: posted.Get("remove_other_ways_in") == "true",
	})
	if err != nil {
		return done{}, err
	}
	p.session.Set(w, r, c)
	personalweb.ForgetProof(p.API, w, r)
	return done{operation: "password", next: passwordPath}, nil
}

func (p accountPages) newEmailForm(r *http.Request) (formPage, error) {
	user := profileOf(r)
	lead := p.text(r, "new_email_lead_none")
	if user.Email != "" {
		lead = p.text(r, "new_email_lead", user.Email)
	}
	return formPage{
		Title: p.text(r, "email"),
		Lead:  lead,
		Form: ui.Form{
			Action: newEmailPath, Submit: p.text(r, "new_email_button"),
			Controls: p.withCode(r, append([]ui.Control{required(p.emailControl(r, "new_email"))}, p.currentPassword(r, "password")...)...),
		},
	}, nil
}

// changeEmail leads to the page that says to look into the new mailbox.
func (p accountPages) changeEmail(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	err := p.Service.ChangeEmail(r.Context(), personal.ChangeEmailRequest{
		Credentials: p.credentials(r), Email: posted.Get("email"), Password: posted.Get("password"), Code: posted.Get("code"), Proof: p.proofOf(r),
	})
	return done{next: mailboxURL("email")}, err
}
