package personalpages_test

import (
	"context"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
)

// everyForm are the operations whose forms have inputs.
var everyForm = []personal.OperationName{
	personal.OpRegister, personal.OpAuthorize, personal.OpRecover, personal.OpResendVerification, personal.OpChangeEmail,
	personal.OpBeginMailedCode, personal.OpAuthorizeMailedCode,
}

var (
	inviteInput = personalpages.Input{
		Name: "invite", Label: personal.LocalText{"en": "Invite <code>", "ru": "Приглашение"},
		Hint: personal.LocalText{"en": "From your mail."}, Required: true,
	}
	termsInput = personalpages.Input{
		Name: "terms", Kind: personalpages.InputCheckbox, Label: personal.LocalText{"en": "I accept the terms."},
		Link: "/terms", LinkText: personal.LocalText{"en": "Read the terms"},
	}
	widgetInput = personalpages.Input{
		Name: "captcha", Kind: personalpages.InputWidget, Label: personal.LocalText{"en": "Are you human?"}, Operations: everyForm,
		HTML: `<div class="widget" data-sitekey="k"></div>`, Script: "https://widget.example/api.js", SentAs: "widget-response",
		Sources: map[string][]string{"script-src": {"https://widget.example"}, "frame-src": {"https://widget.example", "https://*.widget.example"}},
	}
)

// withInputs returns a browser on pages with inputs, behind a Judge.
func withInputs(t *testing.T, m personal.Service, judge func(sent map[string]string, r personal.AdmissionRequest) error, c personalpages.Config) *browser {
	t.Helper()
	admission := &personal.Admission{Judge: func(ctx context.Context, r personal.AdmissionRequest) error {
		return judge(personal.TransientFrom(ctx), r)
	}}
	return mountedBehind(t, personalhttp.Options{Transient: []string{"invite", "terms", "captcha"}}, admission.Wrap(m), c)
}

func TestInputs_AreDrawnLikeFields(t *testing.T) {
	b := withInputs(t, newModule(), nil, personalpages.Config{Inputs: []personalpages.Input{inviteInput, termsInput, widgetInput}})
	b.get("/account/register").shows(t, 200,
		`<label for="field-invite">Invite &lt;code&gt; <span class="required" aria-hidden="true">*</span></label><p class="hint" id="field-invite-hint">From your mail.</p>`,
		`<input id="field-invite" name="invite" type="text" value="" aria-required="true" aria-describedby="field-invite-hint">`,
		`<input id="field-terms" name="terms" type="checkbox" value="true">`,
		`<a href="/terms" target="_blank" rel="noopener">Read the terms</a>`,
		`id="field-captcha" tabindex="-1" role="group" aria-labelledby="field-captcha-label">`,
		`<div class="widget" data-sitekey="k"></div>`, `<script src="https://widget.example/api.js" async defer></script>`)
	b.get("/account/register", "Accept-Language", "ru").shows(t, 200, `<label for="field-invite">Приглашение`)
}

func TestInputs_KeepWhatWasTypedAndShowTheJudgesTextBesideThem(t *testing.T) {
	m := newModule()
	judge := func(sent map[string]string, _ personal.AdmissionRequest) error {
		wrong := map[string]personal.AdmissionFieldError{}
		if sent["invite"] != "ABC" {
			wrong["invite"] = personal.AdmissionFieldError{Code: personal.FieldErrorMismatch, Text: personal.LocalText{"en": "Unknown <invite>."}}
		}
		if sent["terms"] != "true" {
			wrong["terms"] = personal.AdmissionFieldError{Code: personal.FieldErrorRequired, Text: personal.LocalText{"en": "Please accept them."}}
		}
		if sent["captcha"] != "human" {
			wrong["captcha"] = personal.AdmissionFieldError{Code: personal.FieldErrorRequired, Text: personal.LocalText{"en": "Do the check."}}
		}
		if len(wrong) == 0 {
			return nil
		}
		return &personal.AdmissionError{FieldErrors: wrong}
	}
	b := withInputs(t, m, judge, personalpages.Config{Inputs: []personalpages.Input{inviteInput, termsInput, widgetInput}})
	page := b.post("/account/register", "login", "anna", "invite", "X<Z", "terms", "true", "widget-response", "robot")
	page.shows(t, 422, `value="anna"`, `value="X&lt;Z" aria-required="true" aria-invalid="true" aria-describedby="field-invite-hint field-invite-error"`,
		`<p class="fault" id="field-invite-error">Unknown &lt;invite&gt;.</p>`, `<a href="#field-invite">Invite &lt;code&gt;</a>: Unknown`,
		`name="terms" type="checkbox" value="true" checked`, `role="group" aria-labelledby="field-captcha-label" aria-describedby="field-captcha-error">`,
		`<p class="fault" id="field-captcha-error">Do the check.</p>`, `<a href="#field-captcha">Are you human?</a>`)
	page.lacks(t, "robot", "field-terms-error")
	b.post("/account/register", "login", "anna", "invite", "ABC", "captcha", "human").shows(t, 422, `value="ABC"`, `id="field-terms-error">Please accept them.`)
	if len(m.calls) != 0 {
		t.Errorf("the module got %v, want nothing before the Judge agrees", m.calls)
	}
	b.post("/account/register", "login", "anna", "invite", " ABC ", "terms", "true", "widget-response", "human").leads(t, "/account")
	want := []any{personal.RegisterRequest{Login: "anna", Fields: map[string]personal.Input{}}}
	if diff := cmp.Diff(want, m.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestInputs_AreOnTheFormsOfTheirOperations(t *testing.T) {
	var judged []string
	m := withMailedCodes(newModule())
	b := withInputs(t, m, func(sent map[string]string, r personal.AdmissionRequest) error {
		judged = append(judged, fmt.Sprint(r.Operation, " ", sent["captcha"]))
		return nil
	}, personalpages.Config{Inputs: []personalpages.Input{inviteInput, widgetInput}})
	const widget, invite = `class="widget"`, `name="invite"`
	for path, operation := range map[string]personal.OperationName{
		"/account/register": personal.OpRegister, "/account/sign-in": personal.OpAuthorize, "/account/forgot": personal.OpRecover,
		"/account/verify": personal.OpResendVerification, "/account/new-email": personal.OpChangeEmail,
		"/account/sign-in/mail": personal.OpBeginMailedCode, "/account/sign-in/mailed-code": personal.OpAuthorizeMailedCode,
		"/account/confirm/mail": personal.OpBeginMailedCode,
		"/account/recover":      "", "/account/email": "", "/account/password": "", "/account": "", "/account/delete": "",
	} {
		b.hold(first, 0)
		b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
		b.post("/account/sign-in/mail", "login", "anna", "widget-response", "token") // whose code may be entered
		page := b.get(path)
		policy := page.Header.Get("Content-Security-Policy")
		if got, want := strings.Contains(page.body, widget), operation != ""; got != want || strings.Contains(page.body, "widget.example/api.js") != want ||
			strings.Contains(policy, "widget.example") != want {
			t.Errorf("%s: shows the widget: %t, want %t; policy %s", path, got, want, policy)
		}
		if got := strings.Contains(page.body, invite); got != (path == "/account/register") {
			t.Errorf("%s: shows the invite: %t", path, got)
		}
		if operation == "" {
			continue
		}
		judged = nil
		b.post(path, "login", "anna", "email", "b@example.com", "password", "p", "widget-response", "token")
		if want := []string{string(operation) + " token"}; !slices.Equal(judged, want) {
			t.Errorf("%s: judged %v, want %v", path, judged, want)
		}
	}
}

func TestInputs_AreOnThePageForTheCodeAsWell(t *testing.T) {
	m := newModule()
	var tokens []string
	m.AuthorizeFunc = func(_ context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
		if r.Code == "" {
			return personal.SignedIn{}, personal.NewError(personal.CodeCodeRequired, nil)
		}
		return personal.SignedIn{}, personal.NewError(personal.CodeInvalidCode, nil)
	}
	b := withInputs(t, m, func(sent map[string]string, _ personal.AdmissionRequest) error {
		tokens = append(tokens, sent["captcha"])
		return nil
	}, personalpages.Config{Inputs: []personalpages.Input{widgetInput}})
	b.post("/account/sign-in", "login", "anna", "password", "p", "widget-response", "one").leads(t, "/account/sign-in/code")
	b.get("/account/sign-in/code").shows(t, 200, `class="widget"`)
	b.post("/account/sign-in/code", "code", "123456", "widget-response", "two").shows(t, 401, `class="widget"`)
	if !slices.Equal(tokens, []string{"one", "two"}) {
		t.Errorf("got the tokens %v, want a new one for each request", tokens)
	}
}

func TestInputs_AreOnThePageForTheCodeAfterAMailedCode(t *testing.T) {
	m := withMailedCodes(newModule())
	m.profile.TwoFactor = true
	var judged []string
	widget := widgetInput
	widget.Operations = []personal.OperationName{personal.OpAuthorizeMailedCode}
	b := withInputs(t, m, func(sent map[string]string, r personal.AdmissionRequest) error {
		judged = append(judged, fmt.Sprint(r.Operation, " ", sent["captcha"]))
		return nil
	}, personalpages.Config{Inputs: []personalpages.Input{widget}})
	b.post("/account/sign-in/mail", "login", "anna").leads(t, "/account/sign-in/mailed-code")
	b.post("/account/sign-in/mailed-code", "mailed_code", rightMailedCode, "widget-response", "one").leads(t, "/account/sign-in/code")
	b.get("/account/sign-in/code").shows(t, 200, `class="widget"`)
	b.post("/account/sign-in/code", "code", "000000", "widget-response", "two").shows(t, 401, `class="widget"`)
	if want := []string{"BeginMailedCode ", "AuthorizeMailedCode one", "AuthorizeMailedCode two"}; !slices.Equal(judged, want) {
		t.Errorf("got %q judged, want %q", judged, want)
	}
}

// A section of another page posts the login alone.
func TestInputs_AskForWhatASectionOfAnotherPageCannotSend(t *testing.T) {
	b := withInputs(t, newModule(), func(sent map[string]string, _ personal.AdmissionRequest) error {
		if sent["captcha"] == "" {
			return personal.FieldErrors{"captcha": personal.FieldErrorRequired}.Err()
		}
		return nil
	}, personalpages.Config{Inputs: []personalpages.Input{widgetInput}})
	b.post("/account/verify", "login", "anna").shows(t, 422, `name="login" type="text" value="anna"`, `class="widget"`, `id="field-captcha-error"`)
	b.post("/account/verify", "login", "anna", "widget-response", "human").leads(t, "/account/mailbox?sent=email_resend")
}

func TestInputs_PolicyAllowsWhatTheWidgetLoads(t *testing.T) {
	second := widgetInput
	second.Name, second.Sources = "invite", map[string][]string{"script-src": {"https://second.example"}, "connect-src": {"https://second.example"}}
	second.Operations = everyForm
	inputs := []personalpages.Input{widgetInput, second}
	b := withInputs(t, newModule(), nil, personalpages.Config{Inputs: inputs})
	const want = "default-src 'none'; script-src 'self' https://widget.example https://second.example; style-src 'self'; img-src 'self'; " +
		"connect-src 'self' https://second.example; form-action 'self'; base-uri 'none'; frame-src https://widget.example https://*.widget.example"
	for range 2 { // it does not grow
		if got := b.get("/account/sign-in").Header.Get("Content-Security-Policy"); got != want {
			t.Errorf("got the policy %s, want %s", got, want)
		}
	}

	layout := template.Must(template.New("").Parse(`{{block "title" .}}{{end}}{{block "head" .}}{{end}}{{block "body" .}}{{end}}`))
	b = withInputs(t, newModule(), nil, personalpages.Config{Inputs: inputs, Layout: layout})
	page := b.get("/account/sign-in")
	page.shows(t, 200, `class="widget"`, `src="https://widget.example/api.js"`)
	if got := page.Header.Values("Content-Security-Policy"); strings.Contains(strings.Join(got, " "), "widget.example") {
		t.Errorf("in the site's layout: got the policies %q, want none about the widget", got)
	}
}

func TestInputs_ErrorsSayWhatToChange(t *testing.T) {
	for want, change := range map[string]func(*personalpages.Input){
		"add the name to the Transient":                        func(in *personalpages.Input) { in.Name = "other" },
		"it is named twice":                                    func(in *personalpages.Input) { in.Name = "invite" },
		"it has no Label":                                      func(in *personalpages.Input) { in.Label = nil },
		`no admission judges the operation "Profile"`:          func(in *personalpages.Input) { in.Operations = []personal.OperationName{personal.OpProfile} },
		`unknown kind "date": use text, checkbox or widget`:    func(in *personalpages.Input) { in.Kind = "date" },
		"a widget needs HTML":                                  func(in *personalpages.Input) { in.HTML = "" },
		"Link is neither a path on this site nor an https URL": func(in *personalpages.Input) { in.Link = "//evil.example" },
		"Link has no LinkText":                                 func(in *personalpages.Input) { in.Link = "https://example.com/terms" },
		"Script is not an https URL":                           func(in *personalpages.Input) { in.Script = "javascript:alert(1)" },
		`"default-src" is not a directive such as script-src`:  func(in *personalpages.Input) { in.Sources = map[string][]string{"default-src": {"*"}} },
		`"script-src" is not a directive`: func(in *personalpages.Input) {
			in.Sources = map[string][]string{"script-src": {"https://a; default-src *"}}
		},
		`"frame-src" is not a directive`: func(in *personalpages.Input) { in.Sources = map[string][]string{"frame-src": nil} },
	} {
		in := widgetInput
		in.Sources = maps.Clone(in.Sources)
		change(&in)
		api, err := personalhttp.New(newModule(), personalhttp.Options{Log: slog.New(slog.DiscardHandler), Transient: []string{"invite", "captcha"}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = personalpages.New(connected{api, newModule(), &personaltest.Administration{}}, personalpages.Config{
			Log: slog.New(slog.DiscardHandler), Inputs: []personalpages.Input{inviteInput, in},
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}
