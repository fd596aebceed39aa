package personalpages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// passkeyPages are the pages that list, add, rename and remove the visitor's passkeys, and the
// route at which the script of passkeys begins every ceremony. The forms that take a passkey are
// those of the sign-in, of the proof and of a new passkey: the script fills in attempt and
// credential, and sends them as a page does.
type passkeyPages struct{ *site }

func (p passkeyPages) route(mux *http.ServeMux) {
	mux.HandleFunc("POST "+beginPasskeyPath, p.begin)
	mux.Handle("GET "+passkeysPath, p.requireUser(p.list))
	p.provenForm(mux, addPasskeyPath, form{build: p.addForm, submit: p.add, instead: p.notYet})
	p.accountForm(mux, renamePasskeyPath, form{build: p.renameForm, submit: p.rename})
	p.provenForm(mux, removePasskeyPath, form{build: p.removeForm, submit: p.remove})
}

// The purposes of the script, which are those of [personal.Service.BeginPasskey], and others.
const (
	passkeySignIn = string(personal.PasskeySignIn)
	passkeyProve  = string(personal.PasskeyProve)
	passkeyAdd    = "add"
)

// passkeyScript is the Script of a form that takes a passkey.
const passkeyScript = "passkey"

// passkeyPart is what the template of the script gets.
type passkeyPart struct {
	Purpose string
	Begin   string  // the path at which the ceremony begins
	Form    ui.Form // without a Submit it is the page's own form that takes the passkey
	Without string  // said where scripts are off
	Failed  string  // said if the browser returned no passkey
	Known   string  // said if the device has a passkey of the account already
	Longest int     // characters that the name of a new one may have
}

// takePasskey prepares a form for the script.
func (s *site) takePasskey(r *http.Request, purpose string, f *ui.Form) *passkeyPart {
	f.Script = passkeyScript
	f.Hidden = append(f.Hidden, ui.Hidden{Name: "attempt"}, ui.Hidden{Name: "credential"})
	return &passkeyPart{
		Purpose: purpose, Begin: beginPasskeyPath,
		Without: s.text(r, "passkey_"+purpose+"_without"), Failed: s.text(r, "passkey_"+purpose+"_failed"),
	}
}

// passkeyButton is its own form beside another one: a button alone.
func (s *site) passkeyButton(r *http.Request, purpose, action string) *passkeyPart {
	f := ui.Form{Action: action, Submit: s.text(r, "passkey_"+purpose), Quiet: true}
	part := s.takePasskey(r, purpose, &f)
	part.Form = f
	return part
}

// passkeyResponse is what the script gets, as JSON.
type passkeyResponse struct {
	Attempt string          `json:"attempt,omitempty"`
	Options json.RawMessage `json:"options,omitempty"`
	Message string          `json:"message,omitempty"` // of an error
	Reload  bool            `json:"reload,omitempty"`  // the page asks for what is missing: a session, a proof
}

// begin begins a ceremony for the script. Like every post it is refused from other sites.
func (p passkeyPages) begin(w http.ResponseWriter, r *http.Request) {
	posted, ok := p.readPosted(w, r)
	if !ok {
		return
	}
	c := p.credentials(r)
	var attempt personal.PasskeyCeremony
	var err error
	if purpose := posted.Get("purpose"); purpose == passkeyAdd {
		attempt, err = p.Service.AddPasskey(r.Context(), personal.AddPasskeyRequest{Credentials: c, Proof: p.proofOf(r)})
	} else {
		attempt, err = p.Service.BeginPasskey(r.Context(), personal.BeginPasskeyRequest{Credentials: c,
			Purpose: personal.PasskeyPurpose(purpose)})
	}
	status, response := http.StatusOK, passkeyResponse{Attempt: attempt.Attempt, Options: json.RawMessage(attempt.Options)}
	if err != nil {
		x := p.API.ErrorResponse(r, err)
		setRetryAfter(w, x)
		status, response = x.Status, passkeyResponse{Message: p.withWait(r, x)}
		_, unproven := x.FieldErrors["password"] // without a proof
		if _, void := x.FieldErrors["proof"]; void || unproven {
			personalweb.ForgetProof(p.API, w, r)
			response.Reload = true
		}
		response.Reload = response.Reload || x.Code == personal.CodeUnauthenticated
	}
	p.respond(w, r, status, response)
}

// respond sends a script what it asked for, as JSON.
func (s *site) respond(w http.ResponseWriter, r *http.Request, status int, response any) {
	body, err := json.Marshal(response)
	if err != nil { // the options of a passkey are not JSON
		s.Log.ErrorContext(r.Context(), "responding to a script", "error", err)
		status, body = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the visitor is gone
}

// passkeyList is what the template of the list gets.
type passkeyList struct {
	Passkeys            []personal.Passkey
	Confirm             *section // how to confirm the e-mail, which is needed first; else nil
	Full                string   // said if there is no room for another one; else empty
	Add, Rename, Remove string   // paths
	Removed             bool     // a passkey was: the script says so to the browser
	Begin               string
}

func (p passkeyPages) list(w http.ResponseWriter, r *http.Request) {
	passkeys, err := p.Service.Passkeys(r.Context(), p.credentials(r))
	if err != nil {
		p.refuse(w, r, err)
		return
	}
	user := profileOf(r)
	body := passkeyList{
		Passkeys: passkeys, Add: addPasskeyPath, Rename: renamePasskeyPath, Remove: removePasskeyPath,
		Removed: r.URL.Query().Has("removed"), Begin: beginPasskeyPath,
	}
	switch {
	case p.unconfirmed(r, user):
		body.Confirm = p.confirmFirst(r, user)
	case len(passkeys) >= personal.MaxPasskeys:
		body.Full = p.API.ErrorResponse(r, personal.NewError(personal.CodeTooManyPasskeys, nil)).Message
	}
	page := p.page(w, r)
	page.SubNav, page.Body = p.accountNav(r), body
	p.send(w, r, http.StatusOK, "passkeys", page)
}

// notYet returns the list if the user cannot add a passkey now: it says why, before they are
// asked who they are.
func (p passkeyPages) notYet(r *http.Request) string {
	if !p.features(r).Passkeys || p.unconfirmed(r, profileOf(r)) {
		return passkeysPath
	}
	return ""
}

func (p passkeyPages) addForm(r *http.Request) (formPage, error) {
	page := formPage{
		Title: p.text(r, "passkey_add"), Lead: p.text(r, "passkey_add_lead"),
		Form: ui.Form{
			Action: addPasskeyPath, Submit: p.text(r, "passkey_add_button"),
			Controls: []ui.Control{p.passkeyName(r, ui.Device(r.UserAgent()))},
		},
		Asides: []aside{p.aside(r, "passkeys_back_question", "passkeys_back_link", passkeysPath)},
	}
	page.Passkey = p.takePasskey(r, passkeyAdd, &page.Form)
	page.Passkey.Known, page.Passkey.Longest = p.text(r, "passkey_add_known"), personal.MaxPasskeyName
	return page, nil
}

// passkeyName takes the name of a passkey.
func (p passkeyPages) passkeyName(r *http.Request, name string) ui.Control {
	c := ui.Control{
		Name: "name", Label: p.text(r, "passkey_name"), Hint: p.text(r, "hint_passkey_name"), Required: true,
		Autocomplete: "off", MaxLength: 4 * personal.MaxPasskeyName, // to shorten it oneself
	}
	if len([]rune(name)) <= personal.MaxPasskeyName {
		c.Value = name
	}
	return c
}

func (p passkeyPages) add(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	_, err := p.Service.ConfirmPasskey(r.Context(), personal.ConfirmPasskeyRequest{
		Credentials: p.credentials(r), Attempt: posted.Get("attempt"), Credential: posted.Get("credential"), Name: posted.Get("name"),
	})
	return done{operation: "passkeys_add_confirm", next: passkeysPath}, err
}

// chosen returns the passkey that the query of a page names. A page of one that is gone does not
// exist.
func (p passkeyPages) chosen(r *http.Request) (personal.Passkey, error) {
	passkeys, err := p.Service.Passkeys(r.Context(), p.credentials(r))
	if err != nil {
		return personal.Passkey{}, err
	}
	id := r.URL.Query().Get("id")
	i := slices.IndexFunc(passkeys, func(k personal.Passkey) bool { return k.ID == id })
	if i < 0 {
		return personal.Passkey{}, personal.NewError(personal.CodeNotFound, nil)
	}
	return passkeys[i], nil
}

// passkeyURL returns the path of a page of one passkey.
func passkeyURL(path, id string) string { return path + "?" + url.Values{"id": {id}}.Encode() }

func (p passkeyPages) renameForm(r *http.Request) (formPage, error) {
	passkey, err := p.chosen(r)
	if err != nil {
		return formPage{}, err
	}
	return formPage{
		Title: p.text(r, "passkey_rename"),
		Form: ui.Form{
			Action: passkeyURL(renamePasskeyPath, passkey.ID), Submit: p.text(r, "save"),
			Controls: []ui.Control{p.passkeyName(r, passkey.Name)},
		},
		Asides: []aside{p.aside(r, "passkeys_back_question", "passkeys_back_link", passkeysPath)},
	}, nil
}

func (p passkeyPages) rename(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	err := p.Service.RenamePasskey(r.Context(), personal.RenamePasskeyRequest{
		Credentials: p.credentials(r), ID: r.URL.Query().Get("id"), Name: posted.Get("name"),
	})
	return done{operation: "passkeys_rename", next: passkeysPath}, err
}

func (p passkeyPages) removeForm(r *http.Request) (formPage, error) {
	passkey, err := p.chosen(r)
	if err != nil {
		return formPage{}, err
	}
	return formPage{
		Title: p.text(r, "passkey_remove"), Lead: p.text(r, "passkey_remove_lead", passkey.Name),
		Form: ui.Form{
			Action: passkeyURL(removePasskeyPath, passkey.ID), Submit: p.text(r, "passkey_remove_button"), Danger: true, User: profileOf(r).Login,
			Controls: p.withCode(r, p.currentPassword(r, "password")...),
		},
		Asides: []aside{p.aside(r, "passkeys_back_question", "passkeys_back_link", passkeysPath)},
	}, nil
}

// remove ends the session if the passkey began it: the list then leads to the sign-in.
func (p passkeyPages) remove(_ http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	err := p.Service.RemovePasskey(r.Context(), personal.RemovePasskeyRequest{
		Credentials: p.credentials(r), ID: r.URL.Query().Get("id"), Password: posted.Get("password"), Code: posted.Get("code"), Proof: p.proofOf(r),
	})
	return done{operation: "passkeys_remove", next: passkeysPath + "?removed=true"}, err
}

// hasPasskeys reports whether the visitor has passkeys, false if that is unknown.
func (s *site) hasPasskeys(r *http.Request) bool {
	if !s.features(r).Passkeys {
		return false
	}
	passkeys, err := s.Service.Passkeys(r.Context(), s.credentials(r))
	return err == nil && len(passkeys) > 0
}

// ChangePasswordPath is where password managers look for the page that changes a password (W3C,
// A Well-Known URL for Changing Passwords).
const ChangePasswordPath = "/.well-known/change-password"

// ChangePassword leads from [ChangePasswordPath], where a site mounts it, to the page that changes
// the password.
func ChangePassword(w http.ResponseWriter, r *http.Request) { ui.Redirect(w, r, passwordPath) }

// passkeyNameTooLong reports whether an error is about the name of a passkey, which has a limit
// of its own.
func passkeyNameTooLong(r *http.Request, name string, code personal.FieldErrorCode) bool {
	return name == "name" && code == personal.FieldErrorTooLong && strings.HasPrefix(r.URL.Path, passkeysPath)
}
