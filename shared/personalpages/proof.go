package personalpages

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// proofPages is the page that asks users once who they are, and leads back to the page that needs
// to know. The browser keeps the proof in a cookie.
type proofPages struct{ *site }

func (p proofPages) route(mux *http.ServeMux) {
	p.accountForm(mux, provePath, form{build: p.proveForm, submit: p.prove, instead: p.onlyByMail, again: p.codeOfPasskey})
}

// provenForm is accountForm for a form that the password, and the code of a second factor, or a
// proof authorise. It leads to the page that asks for them, and has no controls for them while
// there is a proof: see [site.currentPassword] and [site.withCode].
func (s *site) provenForm(mux *http.ServeMux, path string, f form) {
	first := f.instead
	f.instead = func(r *http.Request) string {
		if first != nil {
			if path := first(r); path != "" {
				return path
			}
		}
		return s.askForProof(r)
	}
	f.proven = true
	s.accountForm(mux, path, f)
}

// onlyByMail returns the page that has a code mailed if that is the one way to prove who the user is.
func (s *site) onlyByMail(r *http.Request) string {
	if profileOf(r).NoPassword && s.provesByMail(r) && !s.hasPasskeys(r) && len(s.provingProviders(r)) == 0 {
		return withNext(r, proveMailPath)
	}
	return ""
}

func (p proofPages) proveForm(r *http.Request) (formPage, error) {
	action := withNext(r, provePath)
	r = withoutProof(r) // to give another one
	page := formPage{
		Title: p.text(r, "prove"), Lead: p.text(r, "prove_lead"),
	}
	if p.provesByMail(r) {
		page.Asides = append(page.Asides, p.aside(r, "prove_mail_question", "prove_mail_link", withNext(r, proveMailPath)))
	}
	for _, one := range p.provingProviders(r) {
		page.Providers = append(page.Providers, p.postTo(r, one, "provider_prove", withNext(r, one.at(proveAtPath))))
	}
	switch user := profileOf(r); {
	case !user.NoPassword:
		page.Form = ui.Form{
			Action: action, Submit: p.text(r, "prove_button"), User: user.Login,
			Controls: p.withCode(r, p.currentPassword(r, "password")...),
		}
	case len(page.Providers) > 0: // or in another way
		page.Lead = p.text(r, "prove_by_provider")
	case p.provesByMail(r): // or with a passkey
		page.Lead = p.text(r, "prove_by_mail")
	case personalweb.ProofOf(p.API, r).OfSignIn: // which is not enough here
		page.Lead = p.text(r, "prove_by_password_first")
		page.Asides = append(page.Asides, p.aside(r, "prove_first_question", "password_first", passwordPath))
	default:
		page.Lead = p.text(r, "prove_without_password")
		_, page.Below = p.emailState(r, user)
	}
	if p.hasPasskeys(r) {
		page.Passkey = p.passkeyButton(r, passkeyProve, action)
	}
	return page, nil
}

// codeOfPasskey asks for the code alone if a passkey needs one. The response of the passkey stays
// valid, so that the user does not use it again.
func (p proofPages) codeOfPasskey(r *http.Request, page formPage, posted ui.Posted, err error) formPage {
	var refused *personal.Error
	if posted.Get("credential") == "" || !errors.As(err, &refused) || refused.FieldErrors["code"] == "" {
		return page
	}
	page.Passkey = nil
	page.Lead = p.text(r, "prove_lead")
	page.Form = ui.Form{ // that of a user without a password is another one
		Action: withNext(r, provePath), Submit: p.text(r, "prove_button"), User: profileOf(r).Login,
		Controls: []ui.Control{p.codeControl(r, "code_any")},
		Hidden:   []ui.Hidden{{Name: "attempt", Value: posted.Get("attempt")}, {Name: "credential", Value: posted.Get("credential")}},
	}
	return page
}

func (p proofPages) prove(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	_, err := p.proveAndKeep(w, r, personal.ProveRequest{
		Password: posted.Get("password"), Code: posted.Get("code"),
		Attempt: posted.Get("attempt"), Credential: posted.Get("credential"),
	})
	return done{next: nextOf(r)}, err
}

// proveAndKeep has the service judge what the visitor has shown, and their browser keep the proof.
func (s *site) proveAndKeep(w http.ResponseWriter, r *http.Request, shown personal.ProveRequest) (proof string, err error) {
	shown.Credentials = s.credentials(r)
	given, err := s.Service.Prove(r.Context(), shown)
	if err == nil {
		personalweb.KeepGivenProof(s.API, w, r, given)
	}
	return given.Proof, err
}

// noProofKey marks the context of a request whose proof does not count.
type noProofKey struct{}

func withoutProof(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), noProofKey{}, true))
}

// proofOf returns the proof that the visitor's browser has sent, which may be void; "" for none.
func (s *site) proofOf(r *http.Request) string {
	if r.Context().Value(noProofKey{}) != nil {
		return ""
	}
	return personalweb.ProofOf(s.API, r).Proof
}

// currentPassword is the control of the password, unless there is a proof, or the user has no password.
func (s *site) currentPassword(r *http.Request, name string) []ui.Control {
	if s.proofOf(r) != "" || profileOf(r).NoPassword {
		return nil
	}
	return []ui.Control{s.passwordControl(r, name, "current_password")}
}

// provenAnew is provenForm for a form that the proof of a sign-in does not authorise.
func (s *site) provenAnew(mux *http.ServeMux, path string, f form) {
	given := func(r *http.Request) *http.Request {
		if personalweb.ProofOf(s.API, r).OfSignIn {
			return withoutProof(r)
		}
		return r
	}
	build, submit := f.build, f.submit
	f.instead = func(r *http.Request) string { return s.askForProof(given(r)) }
	f.build = func(r *http.Request) (formPage, error) { return build(given(r)) }
	f.submit = func(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
		return submit(w, given(r), posted)
	}
	f.proven = true
	s.accountForm(mux, path, f)
}

// askForProof returns the path of the page that asks for a proof, and leads back; empty while there is one.
func (s *site) askForProof(r *http.Request) string {
	if s.proofOf(r) != "" {
		return ""
	}
	return provePath + "?" + url.Values{"next": {r.URL.RequestURI()}}.Encode()
}

// refusedProof returns the page on which to show an error of a request with a proof. If the proof
// does not count any more, the page asks for the password itself, and keeps what was typed.
func (s *site) refusedProof(w http.ResponseWriter, r *http.Request, f form, page formPage, err error) (*http.Request, formPage) {
	var refused *personal.Error
	if !f.proven || s.proofOf(r) == "" || !errors.As(err, &refused) || refused.FieldErrors["proof"] == "" {
		return r, page
	}
	personalweb.ForgetProof(s.API, w, r)
	r = withoutProof(r)
	if own, err := s.built(r, f); err == nil {
		page = own
	}
	if profileOf(r).NoPassword {
		page.Asides = append(page.Asides, s.aside(r, "prove_question", "prove_link", s.askForProof(r)))
	}
	return r, page
}
