package personalpages

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// linkedPages are the pages that list, link and unlink the visitor's sign-ins at providers, and by which
// they prove there who they are.
type linkedPages struct{ *site }

func (p linkedPages) route(mux *http.ServeMux) {
	mux.Handle("GET "+linkedPath, p.requireUser(p.list))
	mux.Handle("POST "+addLinkPath, p.requireUser(p.add))
	mux.Handle("POST "+dontLinkPath, p.public(p.dontLink))
	p.provenForm(mux, linkPath, form{build: p.linkForm, submit: p.link, instead: p.nothingToLink})
	p.provenForm(mux, unlinkPath, form{build: p.unlinkForm, submit: p.unlink})
	mux.Handle("POST "+proveAtPath, p.requireUser(p.proveAt))
	p.accountForm(mux, proveUserPath, form{build: p.codeForm, submit: p.proveWithCode, instead: p.nobodyProves})
}

// The notices of what was done, and the keys of their texts.
const (
	linkedNotice   = "provider_linked"
	unlinkedNotice = "provider_unlinked"
)

// linkedList is what the template of the list gets.
type linkedList struct {
	Identities []linkedIdentity
	Confirm    *section // how to confirm the e-mail, which is needed first; else nil
	Add        []providerButton
	Remove     string // path
}

type linkedIdentity struct {
	personal.LinkedIdentity
	ID    string // names it in addresses
	Label string // of the provider
	Icon  template.HTML
}

// identityID names an identity in addresses and forms.
func identityID(i personal.Identity) string {
	sum := sha256.Sum256([]byte(i.Issuer + "\x00" + i.Subject))
	return hex.EncodeToString(sum[:8])
}

// listed returns the identities of the visitor as the pages show them.
func (p linkedPages) listed(r *http.Request) ([]linkedIdentity, error) {
	identities, err := p.identities(r)
	if err != nil {
		return nil, err
	}
	list := make([]linkedIdentity, len(identities))
	for i, one := range identities {
		list[i] = linkedIdentity{LinkedIdentity: one, ID: identityID(one.Identity), Label: one.Provider()}
		if at := slices.IndexFunc(p.providers, func(p Provider) bool { return p.Issues(one.Issuer) }); at >= 0 {
			list[i].Label, list[i].Icon = p.providers[at].Label, p.providers[at].Icon
		}
	}
	return list, nil
}

func (p linkedPages) list(w http.ResponseWriter, r *http.Request) {
	list, err := p.listed(r)
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	body := linkedList{Identities: list, Remove: unlinkPath}
	if user := profileOf(r); p.unconfirmed(r, user) {
		body.Confirm = p.confirmFirst(r, user)
	} else {
		for _, one := range p.providers {
			body.Add = append(body.Add, p.postTo(r, one, "provider_link", one.at(addLinkPath)))
		}
	}
	page := p.page(w, r)
	page.SubNav, page.Body = p.accountNav(r), body
	p.send(w, r, http.StatusOK, "linked", page)
}

// add leads to a provider, to link who signs in there.
func (p linkedPages) add(w http.ResponseWriter, r *http.Request) {
	p.leadTo(w, r, attempt{Purpose: attemptLink, Next: linkedPath})
}

// leadTo leads a signed-in user to the provider that the path names.
func (p linkedPages) leadTo(w http.ResponseWriter, r *http.Request, a attempt) {
	if _, ok := p.readPosted(w, r); !ok {
		return
	}
	provider, ok := p.chosen(w, r)
	if !ok {
		return
	}
	a.Session = p.credentials(r).UserID
	to, err := p.begin(w, r, provider, a)
	if err != nil {
		p.providerProblem(w, r, provider, err, ui.Link{Text: p.text(r, "account"), Path: a.Next})
		return
	}
	p.leadOn(w, r, p.text(r, "provider_going_to", provider.Label), ui.Link{Text: p.text(r, "complete_go_on"), Path: to})
}

// linking returns who waits to be linked with the account of this session.
func (p linkedPages) linking(r *http.Request) (attempt, Provider, []attempt, bool) {
	a, provider, others, ok := p.waiting(r)
	if a.Session != 0 && a.Session != p.credentials(r).UserID { // someone else has started it in this browser
		ok = false
	}
	return a, provider, others, ok
}

func (p linkedPages) nothingToLink(r *http.Request) string {
	if _, _, _, ok := p.linking(r); !ok {
		return linkedPath
	}
	return ""
}

// linkForm asks for the user's consent, and names both accounts: whoever signs in there will sign in here.
func (p linkedPages) linkForm(r *http.Request) (formPage, error) {
	a, provider, _, ok := p.linking(r)
	if !ok {
		return formPage{Title: p.text(r, "linked"), Lead: p.text(r, "provider_again")}, nil
	}
	return formPage{
		Title: p.text(r, "provider_link", provider.Label),
		Lead:  p.text(r, "provider_link_lead", a.User.who(), provider.Label, profileOf(r).Login),
		Taken: p.text(r, "provider_taken", a.User.who(), provider.Label),
		Form: ui.Form{
			Action: linkPath, Submit: p.text(r, "provider_link_button"), User: profileOf(r).Login,
			Controls: p.withCode(r, p.currentPassword(r, "password")...), Hidden: []ui.Hidden{a.marked(p.credentials(r).UserID)},
		},
		Below: &section{
			Title: p.text(r, "provider_dont_link"), Text: p.text(r, "provider_dont_link_lead", provider.Label),
			Form: ui.Form{Action: dontLinkPath, Submit: p.text(r, "provider_dont_link_button"), Quiet: true},
		},
	}, nil
}

// withProof calls do with the proof of a posted form: the browser's, or one of what was typed, which the browser keeps. It
// leads users who have typed nothing, because they have no password, to the page that asks for one.
func (s *site) withProof(w http.ResponseWriter, r *http.Request, posted ui.Posted, next string, do func(proof string) error) (done, error) {
	proof := s.proofOf(r)
	if proof == "" && profileOf(r).NoPassword {
		return done{next: s.askForProof(r)}, nil
	}
	if proof == "" {
		var err error
		proof, err = s.proveAndKeep(w, r, personal.ProveRequest{Password: posted.Get("password"), Code: posted.Get("code")})
		if err != nil {
			return done{}, err
		}
	}
	return done{next: next}, do(proof)
}

func (p linkedPages) link(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	a, _, others, ok := p.linking(r)
	switch {
	case !ok:
		return done{next: linkedPath}, nil
	case !a.isFor(posted, p.credentials(r).UserID):
		return done{next: linkPath}, nil
	}
	next := linkedPath
	if a.Purpose == attemptSignIn { // who wanted to sign in
		next = personalweb.LocalPath(a.Next, Path)
	}
	return p.withProof(w, r, posted, next, func(proof string) error {
		err := p.admin.LinkIdentity(r.Context(), personal.LinkIdentityRequest{
			Identity: a.User.Identity, Credentials: p.credentials(r), Proof: proof,
		})
		if err == nil {
			p.keepAttempts(w, r, slices.DeleteFunc(others, attempt.waits))
			p.pages.LeaveNotice(w, r, linkedNotice)
		}
		return err
	})
}

// dontLink forgets who waits, and leads to where they wanted to go.
func (p linkedPages) dontLink(w http.ResponseWriter, r *http.Request) {
	if _, ok := p.readPosted(w, r); !ok {
		return
	}
	a, _, _, _ := p.waiting(r)
	p.forgetWaiting(w, r)
	if _, signedIn := p.viewer(r); !signedIn && p.warnOfProviderSession(w, r, p.text(r, "provider_not_me")) {
		return
	}
	ui.Redirect(w, r, personalweb.LocalPath(a.Next, Path))
}

// named returns the identity that the query of a page names.
func (p linkedPages) named(r *http.Request) (linkedIdentity, error) {
	list, err := p.listed(r)
	if err != nil {
		return linkedIdentity{}, err
	}
	i := slices.IndexFunc(list, func(i linkedIdentity) bool { return i.ID == r.URL.Query().Get("id") })
	if i < 0 {
		return linkedIdentity{}, personal.NewError(personal.CodeNotFound, nil)
	}
	return list[i], nil
}

func (p linkedPages) unlinkForm(r *http.Request) (formPage, error) {
	identity, err := p.named(r)
	if err != nil {
		return formPage{}, err
	}
	return formPage{
		Title: p.text(r, "provider_unlink"), Lead: p.text(r, "provider_unlink_lead", identity.Label),
		Form: ui.Form{
			Action: unlinkPath + "?" + url.Values{"id": {identity.ID}}.Encode(), Submit: p.text(r, "provider_unlink_button"), Danger: true,
			User: profileOf(r).Login, Controls: p.withCode(r, p.currentPassword(r, "password")...),
		},
		Asides: []aside{p.aside(r, "passkeys_back_question", "linked_back_link", linkedPath)},
	}, nil
}

// unlink ends the session if a provider began it: the list then leads to the sign-in.
func (p linkedPages) unlink(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	identity, err := p.named(r)
	if err != nil {
		return done{}, err
	}
	return p.withProof(w, r, posted, linkedPath, func(proof string) error {
		err := p.admin.UnlinkIdentity(r.Context(), personal.UnlinkIdentityRequest{
			Identity: identity.Identity, Credentials: p.credentials(r), Proof: proof,
		})
		if err == nil {
			p.pages.LeaveNotice(w, r, unlinkedNotice)
		}
		return err
	})
}

// proveAt leads to a provider, which asks the user again who they are.
func (p linkedPages) proveAt(w http.ResponseWriter, r *http.Request) {
	p.leadTo(w, r, attempt{Purpose: attemptProve, Next: nextOf(r)})
}

// proveSkew is by how much the clocks of a provider and of this host may differ.
const proveSkew = time.Minute

// proveBy takes the word of a provider as proof, if it has asked the user since the attempt was started.
func (p linkedPages) proveBy(w http.ResponseWriter, r *http.Request, provider Provider, a attempt, others []attempt) {
	p.keepAttempts(w, r, others)
	help := ui.Link{Text: p.text(r, "prove"), Path: withNext(r, provePath)}
	at := a.User.AuthenticatedAt
	switch c := p.credentials(r); {
	case c.UserID != a.Session: // signed out, or another user
		p.startAgain(w, r)
		return
	case at.Before(a.started().Add(-proveSkew)) || at.After(time.Now().Add(proveSkew)):
		p.providerNotice(w, r, http.StatusBadRequest, p.text(r, "provider_not_asked", provider.Label), help)
		return
	}
	err := p.keepProofBy(w, r, *a.User, "")
	refused, _ := errors.AsType[*personal.Error](err)
	switch {
	case err == nil:
		p.goOn(w, r, nextOf(r))
	case refused != nil && refused.FieldErrors["identity"] != "":
		p.providerNotice(w, r, http.StatusBadRequest, p.text(r, "provider_other_user", a.User.who(), provider.Label), help)
	case refused != nil && refused.FieldErrors["code"] != "":
		p.wait(w, r, others, a, withNext(r, proveUserPath))
	default:
		p.refuseUser(w, r, err, help)
	}
}

func (p linkedPages) keepProofBy(w http.ResponseWriter, r *http.Request, user ProviderUser, code string) error {
	proof, err := p.admin.ProveIdentity(r.Context(), personal.ProveIdentityRequest{
		Credentials: p.credentials(r), Identity: user.Identity, AuthenticatedAt: user.AuthenticatedAt, Code: code,
	})
	if err == nil {
		personalweb.KeepGivenProof(p.API, w, r, proof)
	}
	return err
}

// proving returns who waits to prove who they are in this session, and lacks just the code.
func (p linkedPages) proving(r *http.Request) (attempt, []attempt, bool) {
	return p.take(r, func(a attempt) bool {
		return a.waits() && a.Purpose == attemptProve && a.Session == p.credentials(r).UserID
	})
}

func (p linkedPages) nobodyProves(r *http.Request) string {
	if _, _, ok := p.proving(r); !ok {
		return withNext(r, provePath)
	}
	return ""
}

func (p linkedPages) codeForm(r *http.Request) (formPage, error) {
	return formPage{
		Title: p.text(r, "prove"), Lead: p.text(r, "prove_lead"),
		Form: ui.Form{
			Action: withNext(r, proveUserPath), Submit: p.text(r, "prove_button"), User: profileOf(r).Login,
			Controls: []ui.Control{p.codeControl(r, "code_any")},
		},
	}, nil
}

func (p linkedPages) proveWithCode(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	a, others, ok := p.proving(r)
	if !ok {
		return done{next: withNext(r, provePath)}, nil
	}
	err := p.keepProofBy(w, r, *a.User, posted.Get("code"))
	refused, _ := errors.AsType[*personal.Error](err)
	switch {
	case err == nil:
		p.keepAttempts(w, r, others)
		return done{next: nextOf(r)}, nil
	case refused != nil && refused.FieldErrors["identity"]+refused.FieldErrors["authenticated_at"] != "": // unlinked, or too late
		return done{next: withNext(r, provePath)}, nil
	}
	return done{}, err
}
