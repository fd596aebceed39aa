package personalpages

import (
	"errors"
	"fmt"
	"html/template"
	"image/color"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/boombuler/barcode/qr"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// twoFactorPages are the pages to switch the second factor on and off, and to make new
// recovery codes. The page that asks for a code at sign-in is one of [codePages].
type twoFactorPages struct{ *site }

func (p twoFactorPages) route(mux *http.ServeMux) {
	begin := form{build: p.beginForm, submit: p.begin, instead: p.notYet}
	p.provenForm(mux, beginPath, begin)
	confirm := form{build: p.confirmForm, submit: p.confirm, account: true, once: true}
	mux.Handle("POST "+confirmFactorPath, p.onces.handle(p.requireUser(p.submit(confirm), personalhttp.WithErrorHandler(p.showTypedAgain(confirm)))))
	p.provenAnew(mux, codesPath, form{build: p.codesForm, submit: p.renewCodes})
	p.provenAnew(mux, endPath, form{build: p.endForm, submit: p.end})
	mux.Handle("GET "+twoFactorPath, p.requireUser(p.overview))
	// After a reload, or a change of the language, of a page that a post has shown.
	mux.Handle("GET "+confirmFactorPath, p.requireUser(func(w http.ResponseWriter, r *http.Request) { ui.Redirect(w, r, twoFactorPath) }))
}

// twoFactorState is what the template of the overview gets.
type twoFactorState struct {
	On, Offered       bool
	Left              string   // how many recovery codes are left; empty if unknown
	Few               bool     // of them
	Confirm           *section // how to confirm the e-mail, which is needed first; else nil
	Begin, Codes, End string   // paths
}

// fewCodes is the number of recovery codes at which the user should make new ones.
const fewCodes = 3

func (p twoFactorPages) overview(w http.ResponseWriter, r *http.Request) {
	user, _ := personalhttp.UserFrom(r.Context())
	state := twoFactorState{On: user.Profile.TwoFactor, Offered: p.features(r).TwoFactor, Begin: beginPath, Codes: codesPath, End: endPath}
	if state.On {
		if left, ok := p.codesLeft(r, user); ok {
			state.Left, state.Few = p.text(r, "recovery_codes_left", left), left <= fewCodes
		}
	}
	if state.Few {
		state.Left += " " + p.text(r, "recovery_codes_few")
	}
	if !state.On && state.Offered && p.unconfirmed(r, user.Profile) {
		state.Confirm = p.confirmFirst(r, user.Profile)
	}
	page := p.page(w, r)
	page.SubNav, page.Body = p.accountNav(r), state
	p.send(w, r, http.StatusOK, "two-factor", page)
}

// notYet returns the overview if the user cannot switch a second factor on now: it says why,
// before a password is asked.
func (p twoFactorPages) notYet(r *http.Request) string {
	user := profileOf(r)
	if user.TwoFactor || !p.features(r).TwoFactor || p.unconfirmed(r, user) {
		return twoFactorPath
	}
	return ""
}

// codesLeft returns how many recovery codes a user has, false if that is unknown.
func (p twoFactorPages) codesLeft(r *http.Request, user personalhttp.User) (int, bool) {
	x, err := p.admin.Explain(r.Context(), personal.ExplainRequest{Login: user.Profile.Login})
	if err != nil || x.User == nil || x.User.ID != user.ID {
		return 0, false
	}
	i := slices.IndexFunc(x.Verdicts, func(v personal.Verdict) bool { return v.Reason == personal.ReasonTwoFactor })
	if i < 0 {
		return 0, false
	}
	return x.Verdicts[i].Count, true
}

func (p twoFactorPages) beginForm(r *http.Request) (formPage, error) {
	lead := "two_factor_begin_lead"
	if p.proofOf(r) != "" {
		lead = "two_factor_off_lead"
	}
	return formPage{
		Title: p.text(r, "two_factor_begin"), NotOffered: p.text(r, "two_factor_not_offered"),
		Lead: p.text(r, lead),
		Form: ui.Form{
			Action: beginPath, Submit: p.text(r, "two_factor_begin_button"), User: profileOf(r).Login,
			Controls: p.currentPassword(r, "password"),
		},
	}, nil
}

// begin sends the page of the new secret. It does not redirect: only this response has
// the secret.
func (p twoFactorPages) begin(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	secret, err := p.Service.BeginTwoFactor(r.Context(), personal.BeginTwoFactorRequest{
		Credentials: p.credentials(r), Password: posted.Get("password"), Proof: p.proofOf(r),
	})
	if personal.CodeOf(err) == personal.CodeTwoFactorOn { // in another tab
		return done{next: twoFactorPath}, nil
	}
	if err != nil {
		return done{}, err
	}
	page, err := p.confirmPage(r, secret.URI)
	if err != nil {
		return done{}, err
	}
	p.render(w, r, http.StatusOK, form{account: true, once: true}, page)
	return done{}, nil
}

// confirmForm is the page of the new secret again, after a code that was refused.
//
// The URI with the secret comes back in a hidden field of the form, so that the app
// need not be set up again. That shows it to no one else: the response is for the user
// who got it a moment ago, browsers do not store it (no-store), and posts from pages of
// other sites are refused. No cookie or server has to keep it. A user who replaces it
// sees their own secret that no code of theirs confirms.
func (p twoFactorPages) confirmForm(r *http.Request) (formPage, error) {
	page, err := p.confirmPage(r, r.PostForm.Get("uri"))
	if err != nil {
		return formPage{}, personal.NewError(personal.CodeMalformedRequest, err)
	}
	return page, nil
}

func (p twoFactorPages) confirmPage(r *http.Request, uri string) (formPage, error) {
	enrolment, err := newEnrolment(uri)
	if err != nil {
		return formPage{}, err
	}
	code := p.codeControl(r, "app_code")
	code.Hint, code.InputMode = "", "numeric" // no recovery code
	return formPage{
		Title: p.text(r, "two_factor_confirm"), NotOffered: p.text(r, "two_factor_not_offered"), Enrolment: enrolment,
		Form: ui.Form{
			Action: confirmFactorPath, Submit: p.text(r, "two_factor_confirm_button"),
			Hidden: []ui.Hidden{{Name: "uri", Value: uri}}, Controls: []ui.Control{code},
		},
		Asides: []aside{p.aside(r, "two_factor_again_question", "two_factor_again_link", beginPath)},
	}, nil
}

// confirm sends the recovery codes. It does not redirect: only this response has them.
func (p twoFactorPages) confirm(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	confirmed, err := p.Service.ConfirmTwoFactor(r.Context(), personal.ConfirmTwoFactorRequest{Credentials: p.credentials(r), Code: posted.Get("code")})
	switch personal.CodeOf(err) {
	case "":
		p.session.Set(w, r, confirmed.Credentials)
		personalweb.ForgetProof(p.API, w, r)
		p.showCodes(w, r, "two_factor_confirm", confirmed.RecoveryCodes)
		return done{}, nil
	case personal.CodeTwoFactorOn, personal.CodeTwoFactorOff: // a reload after success, or a secret that has expired
		return done{operation: noPendingFactor, next: twoFactorPath}, nil
	}
	return done{}, err
}

// noPendingFactor is the notice, and the key of its text, that there is nothing to
// confirm any more.
const noPendingFactor = "two_factor_gone"

func (p twoFactorPages) codesForm(r *http.Request) (formPage, error) {
	return p.passwordAndCode(r, "recovery_codes_new", codesPath), nil
}

func (p twoFactorPages) renewCodes(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	codes, err := p.Service.RenewRecoveryCodes(r.Context(), personal.RenewRecoveryCodesRequest{
		Credentials: p.credentials(r), Password: posted.Get("password"), Code: posted.Get("code"), Proof: p.proofOf(r),
	})
	if err != nil {
		return done{}, err
	}
	p.showCodes(w, r, "two_factor_codes", codes)
	return done{}, nil
}

func (p twoFactorPages) endForm(r *http.Request) (formPage, error) {
	page := p.passwordAndCode(r, "two_factor_end", endPath)
	page.Form.Danger = true
	return page, nil
}

func (p twoFactorPages) end(w http.ResponseWriter, r *http.Request, posted ui.Posted) (done, error) {
	c, err := p.Service.RemoveOwnTwoFactor(r.Context(), personal.RemoveOwnTwoFactorRequest{
		Credentials: p.credentials(r), Password: posted.Get("password"), Code: posted.Get("code"), Proof: p.proofOf(r),
	})
	if err != nil {
		return done{}, err
	}
	p.session.Set(w, r, c)
	personalweb.ForgetProof(p.API, w, r)
	return done{operation: "two_factor_remove", next: twoFactorPath}, nil
}

// passwordAndCode is a page that asks for the password and a code, unless there is a proof.
func (p twoFactorPages) passwordAndCode(r *http.Request, key, path string) formPage {
	controls := p.currentPassword(r, "password")
	if len(controls) > 0 {
		controls = append(controls, p.codeControl(r, "code_any"))
	}
	return formPage{
		Title: p.text(r, key), NotOffered: p.text(r, "two_factor_not_offered"),
		Lead: p.text(r, key+"_lead"),
		Form: ui.Form{
			Action: path, Submit: p.text(r, key+"_button"), User: profileOf(r).Login,
			Controls: controls,
		},
	}
}

// recoveryCodes is what the template of new recovery codes gets.
type recoveryCodes struct {
	Codes []string
	File  template.URL // the codes as a file
	Done  string       // the path to go on with
}

// showCodes sends the page of new recovery codes with the confirmation of the
// operation. A reload of the page posts the form again, which makes no other codes.
func (p twoFactorPages) showCodes(w http.ResponseWriter, r *http.Request, operation string, codes []string) {
	page := p.page(w, r)
	page.Notice = p.API.SuccessMessage(r, operation)
	text := p.text(r, "recovery_codes") + p.text(r, "colon") + " " + profileOf(r).Login + "\n\n" + strings.Join(codes, "\n") + "\n"
	file := template.URL("data:text/plain;charset=utf-8," + url.PathEscape(text)) // which escapes all but letters and a few signs
	page.SubNav, page.Body = p.accountNav(r), recoveryCodes{codes, file, twoFactorPath}
	p.send(w, r, http.StatusOK, "recovery-codes", page)
}

// codeControl takes a code of the second factor. Phones offer letters for it, because
// recovery codes have some.
func (s *site) codeControl(r *http.Request, key string) ui.Control {
	return ui.Control{
		Name: "code", Label: s.text(r, key), Hint: s.text(r, "hint_code_any"), Required: true, Autocomplete: ui.OneTimeCode,
	}
}

// withCode adds the control of the code to those of a form if the signed-in user has a
// second factor, unless there is a proof.
func (s *site) withCode(r *http.Request, controls ...ui.Control) []ui.Control {
	if profileOf(r).TwoFactor && s.proofOf(r) == "" {
		controls = append(controls, s.codeControl(r, "code_any"))
	}
	return controls
}

// enrolment is a new secret as an authenticator app takes it.
type enrolment struct {
	Link   template.URL // the otpauth URI
	Secret string       // in groups of four characters
	drawn  string       // what the QR code says; empty for none
}

// maxSecret bounds the secret of an app, in characters; those of the module have 32.
const maxSecret = 128

// maxDrawn bounds the text of a QR code, in bytes: drawing takes long, and the text comes back in a
// form. Only the longest logins and names of sites need more, and have no QR code.
const maxDrawn = 512

// QR draws the QR code for the template, nil if there is none.
func (e *enrolment) QR() (*qrCode, error) {
	if e.drawn == "" || len(e.drawn) > maxDrawn {
		return nil, nil
	}
	return newQRCode(e.drawn)
}

// newEnrolment returns the enrolment of an otpauth URI. The URI may come from a form, so
// it may have no other scheme: the page links to it.
func newEnrolment(uri string) (*enrolment, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "otpauth" || u.Host != "totp" || u.Query().Get("secret") == "" || len(u.Query().Get("secret")) > maxSecret {
		return nil, errors.New("not an otpauth URI of a time-based code") // url.Parse would quote the secret
	}
	var groups []string
	for group := range slices.Chunk([]byte(u.Query().Get("secret")), 4) {
		groups = append(groups, string(group))
	}
	return &enrolment{Link: template.URL(uri), Secret: strings.Join(groups, " "), drawn: uri}, nil
}

// qrCode is a QR code (ISO/IEC 18004) as the path of an SVG picture, one unit for each
// module.
type qrCode struct {
	Size int // of a side, with the quiet zone
	Path string
}

// quietZone is the width of the light border that scanners need, in modules.
const quietZone = 4

// newQRCode returns the QR code of a text.
func newQRCode(text string) (*qrCode, error) {
	code, err := qr.Encode(text, qr.M, qr.Auto)
	if err != nil {
		return nil, fmt.Errorf("drawing a QR code: %w", err) // the library's errors do not quote the text
	}
	dark := func(x, y int) bool { return code.At(x, y) == color.Black }
	var path strings.Builder
	size := code.Bounds().Dx()
	for y := range size {
		for x := 0; x < size; x++ {
			start := x
			for x < size && dark(x, y) {
				x++
			}
			if x > start {
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", start+quietZone, y+quietZone, x-start, x-start)
			}
		}
	}
	return &qrCode{Size: size + 2*quietZone, Path: path.String()}, nil
}
