package personalpages

import (
	"net/http"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// mailedCodePages are the pages to sign in, and to prove who one is, with a mailed code: one that has
// it sent, and one that takes it. The attempt stays sealed in the browser that asked, so that a code is
// of no use on any other page, whoever has learnt it.
type mailedCodePages struct{ *site }

func (p mailedCodePages) route(mux *http.ServeMux) {
	// once: a second mail would replace the attempt of the first, and a code is used up.
	p.publicForm(mux, mailCodePath, form{
		build: p.mailForm, submit: p.mail, instead: p.notOffered, judged: personal.OpBeginMailedCode, once: true,
	})
	p.publicForm(mux, mailedCodePath, form{
		build: p.codeForm, submit: p.signIn, instead: p.noCode, judged: personal.OpAuthorizeMailedCode, once: true,
	})
	p.accountForm(mux, proveMailPath, form{
		build: p.proveMailForm, submit: p.proveMail, instead: p.noProof, judged: personal.OpBeginMailedCode, once: true,
	})
	p.accountForm(mux, proveCodePath, form{build: p.proveForm, submit: p.prove, instead: p.noProofCode, once: true})
}

// mailedCodeLifetime is how long a mailed code is valid (HTTP contract, section 3, code_begin).
const mailedCodeLifetime = 10 * time.Minute

const mailedCodeMinutes = int(mailedCodeLifetime / time.Minute)

// mailedCodeControl takes a mailed code as it is copied from the mail, or typed.
func (s *site) mailedCodeControl(r *http.Request) ui.Control {
	return ui.Control{
		Name: "mailed_code", Label: s.text(r, "code"), Hint: s.text(r, "hint_mailed_code"), Required: true,
		Autocomplete: ui.OneTimeCode, InputMode: "text", Autocapitalize: "characters",
	}
}

// mailedAttempt returns the attempt of a purpose that this browser has started, false if there is none.
func (s *site) mailedAttempt(r *http.Request, purpose personal.MailedCodePurpose) (signInStep, bool) {
	in, ok := s.keptStep(r)
	return in, ok && in.Purpose == purpose
}

// begin has a code mailed, and leads to the page that takes it.
func (p mailedCodePages) begin(w http.ResponseWriter, r *http.Request, request personal.BeginMailedCodeRequest, next string) (done, error) {
	started, err := p.Service.BeginMailedCode(r.Context(), request)
	if err != nil {
		return done{}, err
	}
	p.keepStep(w, r, signInStep{Purpose: request.Purpose, Attempt: started.Attempt})
	return done{next: withNext(r, next)}, nil
}

// notOffered returns the page to sign in otherwise if users cannot sign in with a mailed code.
func (p mailedCodePages) notOffered(r *http.Request) string {
	if !p.features(r).MailedCode {
		return withNext(r, SignInPath)
	}
	return ""
}

func (p mailedCodePages) mailForm(r *http.Request) (formPage, error) {
	lead := "mailed_code_lead"
	if r.URL.Query().Has("again") {
		lead = "mailed_code_again"
	}
	return formPage{
		Title: p.text(r, "mailed_code"), Lead: p.text(r, lead), NotOffered: p.text(r, "mailed_code_not_offered"),
		Aliases: emailAtLogin,
		Form: ui.Form{
			Action: withNext(r, mailCodePath), Submit: p.text(r, "mailed_code_button"),
			Controls: []ui.Control{p.signInControl(r)},
		},
		Asides: []aside{p.aside(r, "sign_in_otherwise_question", "sign_in_otherwise_link", withNext(r, SignInPath))},
	}, nil
}

// mail leads to the page that takes the code, also if there is no such account: the response never
// reveals whether an account exists.
func (p mailedCodePages) mail(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	login, email := loginOrEmail(posted)
	return p.begin(w, r, personal.BeginMailedCodeRequest{Purpose: personal.MailedCodeSignIn, Login: login, Email: email}, mailedCodePath)
}

// noCode returns the page to begin with if this browser has no attempt to sign in.
func (p mailedCodePages) noCode(r *http.Request) string {
	if _, ok := p.mailedAttempt(r, personal.MailedCodeSignIn); !ok {
		return againPath(r, mailCodePath)
	}
	return ""
}

func (p mailedCodePages) codeForm(r *http.Request) (formPage, error) {
	return formPage{
		Title:      p.text(r, "mailed_code_enter"),
		Lead:       p.API.SuccessMessage(r, "code_begin") + " " + p.text(r, "mailed_code_valid", mailedCodeMinutes),
		NotOffered: p.text(r, "mailed_code_not_offered"),
		Form: ui.Form{
			Action: withNext(r, mailedCodePath), Submit: p.text(r, "sign_in_button"),
			Controls: []ui.Control{p.mailedCodeControl(r)},
		},
		Asides: []aside{
			p.aside(r, "mailbox_again_question", "mailbox_again_link", withNext(r, mailCodePath)),
			p.aside(r, "sign_in_otherwise_question", "sign_in_otherwise_link", withNext(r, SignInPath)),
		},
	}, nil
}

func (p mailedCodePages) signIn(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	step, ok := p.mailedAttempt(r, personal.MailedCodeSignIn)
	if !ok {
		return done{next: againPath(r, mailCodePath)}, nil
	}
	step.MailedCode = posted.Get("mailed_code")
	in, err := p.authorize(r, step, "")
	switch personal.CodeOf(err) {
	case "":
		p.forgetStep(w, r)
		return p.signedIn(w, r, in), nil
	case personal.CodeCodeRequired:
		return p.askForCode(w, r, step)
	case personal.CodeInvalidCode: // its own message is about the second factor
		return done{}, personal.FieldErrors{"mailed_code": personal.FieldErrorMismatch}.Err()
	}
	return done{}, err
}

// provesByMail reports whether the signed-in user can have a code mailed to prove who they are.
func (s *site) provesByMail(r *http.Request) bool {
	user := profileOf(r)
	return user.EmailVerified && user.Email != "" && (user.NoPassword || s.features(r).MailedCode)
}

// noProof returns the page of the other ways to prove who one is, if no code is mailed for that.
func (p mailedCodePages) noProof(r *http.Request) string {
	if !p.provesByMail(r) {
		return withNext(r, provePath)
	}
	return ""
}

func (p mailedCodePages) proveMailForm(r *http.Request) (formPage, error) {
	lead := p.text(r, "prove_mail_lead", profileOf(r).Email)
	if r.URL.Query().Has("again") {
		lead = p.text(r, "mailed_code_again")
	}
	return formPage{
		Title: p.text(r, "prove"), Lead: lead, Asides: p.otherProofs(r),
		Form: ui.Form{Action: withNext(r, proveMailPath), Submit: p.text(r, "prove_mail_button")},
	}, nil
}

// otherProofs leads to the other ways to prove who one is, if there are any.
func (p mailedCodePages) otherProofs(r *http.Request) []aside {
	if p.onlyByMail(r) != "" {
		return nil
	}
	return []aside{p.aside(r, "prove_other_question", "prove_other_link", withNext(r, provePath))}
}

func (p mailedCodePages) proveMail(w http.ResponseWriter, r *http.Request, _ ui.Posted) (done, error) {
	if other := p.noProof(r); other != "" {
		return done{next: other}, nil
	}
	return p.begin(w, r, personal.BeginMailedCodeRequest{Purpose: personal.MailedCodeProve, Credentials: p.credentials(r)}, proveCodePath)
}

// noProofCode returns the page to begin with if this browser has no attempt to prove who its user is.
func (p mailedCodePages) noProofCode(r *http.Request) string {
	if _, ok := p.mailedAttempt(r, personal.MailedCodeProve); !ok {
		return againPath(r, proveMailPath)
	}
	return ""
}

func (p mailedCodePages) proveForm(r *http.Request) (formPage, error) {
	return formPage{
		Title: p.text(r, "prove"), Lead: p.text(r, "prove_mailed_lead", profileOf(r).Email, mailedCodeMinutes),
		Form: ui.Form{
			Action: withNext(r, proveCodePath), Submit: p.text(r, "prove_button"),
			Controls: p.withCode(withoutProof(r), p.mailedCodeControl(r)),
		},
		Asides: append([]aside{p.aside(r, "mailbox_again_question", "mailbox_again_link", withNext(r, proveMailPath))}, p.otherProofs(r)...),
	}, nil
}

func (p mailedCodePages) prove(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	in, ok := p.mailedAttempt(r, personal.MailedCodeProve)
	if !ok {
		return done{next: againPath(r, proveMailPath)}, nil
	}
	if posted.Get("mailed_code") == "" { // the service takes an attempt alone for that of a passkey
		return done{}, personal.FieldErrors{"mailed_code": personal.FieldErrorRequired}.Err()
	}
	_, err := p.proveAndKeep(w, r, personal.ProveRequest{
		Attempt: in.Attempt, MailedCode: posted.Get("mailed_code"), Code: posted.Get("code"),
	})
	if err == nil {
		p.forgetStep(w, r)
	}
	return done{next: nextOf(r)}, err
}
