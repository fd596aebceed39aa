package personalpages

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// recoveryPages are the pages to replace a forgotten password, and the page after every
// request for a mail.
type recoveryPages struct{ *site }

func (p recoveryPages) route(mux *http.ServeMux) {
	p.publicForm(mux, forgotPath, form{build: p.forgotForm, submit: p.sendMail, judged: personal.OpRecover, once: true})
	p.publicForm(mux, recoverPath, form{build: p.recoverForm, submit: p.setPassword, once: true})
	mux.HandleFunc("POST "+previewPath, p.preview)
	mux.Handle("GET "+mailboxPath, p.public(p.show(form{build: p.mailbox, either: true})))
}

// mailboxURL is the page that says to look into the mailbox, after the operation that sends
// the mail.
func mailboxURL(operation string) string {
	return mailboxPath + "?" + url.Values{"sent": {operation}}.Encode()
}

// mailbox is that page. It looks the same whether or not a mail was sent.
func (p recoveryPages) mailbox(r *http.Request) (formPage, error) {
	sent := r.URL.Query().Get("sent")
	code, again := confirmPath, verifyPath
	switch _, signedIn := p.session.Credentials(r); {
	case sent == "recover":
		code, again = recoverPath, forgotPath
	case sent == "email":
		again = newEmailPath
	case signedIn:
		sent, again = "email_resend", Path
	case sent != "unverified":
		sent = "email_resend"
	}
	return formPage{
		Title: p.text(r, "mailbox"), Lead: p.API.SuccessMessage(r, sent),
		Asides: []aside{
			p.aside(r, "mailbox_code_question", "mailbox_code_link", code),
			p.aside(r, "mailbox_again_question", "mailbox_again_link", again),
		},
	}, nil
}

func (p recoveryPages) forgotForm(r *http.Request) (formPage, error) {
	return formPage{
		Title:   p.text(r, "forgot"),
		Lead:    p.text(r, "forgot_lead"),
		Aliases: emailAtLogin,
		Form: ui.Form{
			Action: forgotPath, Submit: p.text(r, "forgot_button"),
			Controls: []ui.Control{p.loginOrEmailControl(r)},
		},
		Asides: []aside{p.aside(r, "have_code_question", "have_code_link", recoverPath)},
	}, nil
}

// sendMail leads to the page that says to look into the mailbox, also if there is no such
// account: the response never reveals whether an account exists.
func (p recoveryPages) sendMail(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	login, email := loginOrEmail(posted)
	err := p.Service.Recover(r.Context(), personal.RecoverRequest{Login: login, Email: email})
	return done{next: mailboxURL("recover")}, err
}

// recoverForm is the page that recovery mails link to. Opening it changes nothing,
// because mail scanners open links too.
func (p recoveryPages) recoverForm(r *http.Request) (formPage, error) {
	return formPage{
		Title:   p.text(r, "recover"),
		Lead:    p.text(r, "recover_lead"),
		Preview: previewPath,
		Script:  true,
		Form: ui.Form{
			Action: recoverPath, Submit: p.text(r, "recover_button"),
			Controls: append([]ui.Control{p.tokenControl(r)}, p.newPasswordControls(r, "new_password")...),
		},
		Asides: []aside{p.aside(r, "no_code_question", "no_code_link", forgotPath)},
	}, nil
}

// preview responds to the script with what the recovery would remove, in place of the page's lead: only
// the code names the account.
func (p recoveryPages) preview(w http.ResponseWriter, r *http.Request) {
	posted, ok := p.readPosted(w, r)
	if !ok {
		return
	}
	preview, err := p.Service.RecoverConfirm(r.Context(), personal.RecoverConfirmRequest{Token: posted.Get("token"), Preview: true})
	if personal.CodeOf(err) == personal.CodeInvalidToken { // the page says so when the form is sent
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if err != nil {
		x := p.API.ErrorResponse(r, err)
		setRetryAfter(w, x)
		p.respond(w, r, x.Status, struct{}{})
		return
	}
	var response struct {
		Lead string `json:"lead"` // empty: nothing would be removed
	}
	removed := preview.Providers
	if preview.Passkeys > 0 {
		removed = append([]string{p.text(r, "recover_passkeys", preview.Passkeys)}, removed...)
	}
	if len(removed) > 0 {
		response.Lead = p.text(r, "recover_removes", strings.Join(removed, ", "))
	}
	p.respond(w, r, http.StatusOK, response)
}

// setPassword revokes every session of the account and leads to the sign-in.
func (p recoveryPages) setPassword(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	_, err := p.Service.RecoverConfirm(r.Context(), personal.RecoverConfirmRequest{
		Token: posted.Get("token"), Password: posted.Get("password"), ConfirmPassword: posted.Get("confirm_password"),
	})
	return done{operation: "recover_confirm", next: SignInPath}, err
}
