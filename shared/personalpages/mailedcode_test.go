package personalpages_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

// The one code of the account, and its attempts.
const (
	rightMailedCode = "7K3M-Q9XA"
	signInAttempt   = "attempt-to-sign-in"
	proveAttempt    = "attempt-to-prove"
)

// withMailedCodes adds mailed codes to a module with proofs and a second factor.
func withMailedCodes(m *module) *module {
	m = withProofs(withTwoFactor(m))
	m.features = offered()
	m.features.MailedCode = true
	right := func(entered string) bool {
		return regexp.MustCompile(`(?i)\A[\s-]*7K3M[\s-]*Q9XA[\s-]*\z`).MatchString(entered)
	}
	m.BeginMailedCodeFunc = func(_ context.Context, r personal.BeginMailedCodeRequest) (personal.MailedCodeAttempt, error) {
		switch {
		case r.Purpose == personal.MailedCodeProve:
			return personal.MailedCodeAttempt{Attempt: proveAttempt}, m.record(r)
		case !m.features.MailedCode:
			return personal.MailedCodeAttempt{}, personal.NewError(personal.CodeNotFound, nil)
		case r.Login == "" && r.Email == "":
			return personal.MailedCodeAttempt{}, personal.FieldErrors{"email": personal.FieldErrorRequired}.Err()
		}
		return personal.MailedCodeAttempt{Attempt: signInAttempt}, m.record(r)
	}
	m.AuthorizeMailedCodeFunc = func(_ context.Context, r personal.AuthorizeMailedCodeRequest) (personal.SignedIn, error) {
		_ = m.record(r)
		switch {
		case r.MailedCode == "":
			return personal.SignedIn{}, personal.FieldErrors{"mailed_code": personal.FieldErrorRequired}.Err()
		case r.Attempt != signInAttempt || !right(r.MailedCode):
			return personal.SignedIn{}, personal.NewError(personal.CodeInvalidCode, nil)
		case m.profile.TwoFactor && r.Code == "":
			return personal.SignedIn{}, personal.NewError(personal.CodeCodeRequired, nil)
		case m.profile.TwoFactor && r.Code != rightCode:
			return personal.SignedIn{}, personal.NewError(personal.CodeInvalidCode, nil)
		}
		return personal.SignedIn{
			Credentials: personal.Credentials{UserID: 42, UserHash: first}, Profile: m.profile,
			Proof: personal.Proof{Proof: rightProof, Until: time.Now().Add(5 * time.Minute)},
		}, nil
	}
	prove := m.ProveFunc
	m.ProveFunc = func(ctx context.Context, r personal.ProveRequest) (personal.Proof, error) {
		switch {
		case r.Attempt == "":
			return prove(ctx, r)
		case r.MailedCode == "": // taken for a passkey
			return personal.Proof{}, personal.FieldErrors{"credential": personal.FieldErrorRequired}.Err()
		case r.Attempt != proveAttempt || !right(r.MailedCode) || r.Password != "":
			return personal.Proof{}, personal.FieldErrors{"mailed_code": personal.FieldErrorMismatch}.Err()
		}
		r.Password, r.Attempt, r.MailedCode = "correct horse", "", ""
		return prove(ctx, r)
	}
	return m
}

const wrongMailedCode = `id="field-mailed_code-error">This code is wrong or has expired. Check it, or have another e-mail sent. If you have asked more than once, use the newest e-mail.`

func TestMailedCode_SignsIn(t *testing.T) {
	m := withMailedCodes(newModule())
	b := newBrowser(t, m)
	b.get("/account/sign-in?next=%2Fdemo").shows(t, 200, `href="/account/sign-in/mail?next=%2Fdemo">Sign in with a code by e-mail</a>`)
	b.get("/account/sign-in/mail?next=%2Fdemo").shows(t, 200, "Login or e-mail", `action="/account/sign-in/mail?next=%2Fdemo"`)
	b.post("/account/sign-in/mail?next=%2Fdemo", "login", "").shows(t, 422, `id="field-login-error"`, `action="/account/sign-in/mail?next=%2Fdemo"`)
	sent := b.post("/account/sign-in/mail?next=%2Fdemo", "login", " anna@example.com ")
	sent.leads(t, "/account/sign-in/mailed-code?next=%2Fdemo")
	if c := b.jar["sign_in"]; c == nil || strings.Contains(c.Value, signInAttempt) || c.MaxAge != 600 || !c.HttpOnly ||
		c.SameSite != http.SameSiteStrictMode {
		t.Fatalf("got the cookie %+v, want the sealed attempt for ten minutes, HttpOnly and Strict", c)
	}

	const path = "/account/sign-in/mailed-code?next=%2Fdemo"
	page := b.get(path)
	page.shows(t, 200, "If this account can use a code, it is on its way", "valid for 10 minutes", `href="/account/sign-in/mail?next=%2Fdemo"`,
		`href="/account/sign-in?next=%2Fdemo"`, `name="mailed_code"`, `autocomplete="one-time-code"`, `inputmode="text"`,
		`autocapitalize="characters"`, `spellcheck="false"`)
	page.lacks(t, signInAttempt, "maxlength")
	b.post(path, "mailed_code", "").shows(t, 422, `id="field-mailed_code-error"`)
	wrong := b.post(path, "mailed_code", "0000-0000")
	wrong.shows(t, 422, wrongMailedCode, `action="/account/sign-in/mailed-code?next=%2Fdemo"`)
	wrong.lacks(t, "0000-0000", "your app", signInAttempt)
	b.post(path, "mailed_code", " 7k3m - q9xa ").leads(t, "/demo")
	if b.jar["account"] == nil || b.jar["proof"] == nil || b.jar["proof"].Value != "sign_in."+rightProof || b.jar["sign_in"] != nil {
		t.Errorf("got the cookies %v, want a session and its proof alone", b.jar)
	}
	b.get("/account").shows(t, 200, "You are signed in.")
	want := []any{
		personal.BeginMailedCodeRequest{Purpose: personal.MailedCodeSignIn, Email: "anna@example.com"},
		personal.AuthorizeMailedCodeRequest{Attempt: signInAttempt},
		personal.AuthorizeMailedCodeRequest{Attempt: signInAttempt, MailedCode: "0000-0000"},
		personal.AuthorizeMailedCodeRequest{Attempt: signInAttempt, MailedCode: " 7k3m - q9xa "},
	}
	if diff := cmp.Diff(want, m.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestMailedCode_SignInWithCode(t *testing.T) {
	m := withMailedCodes(newModule())
	m.profile.TwoFactor = true
	b := newBrowser(t, m)
	const codePath = "/account/sign-in/code?next=%2Fdemo"
	b.post("/account/sign-in/mail?next=%2Fdemo", "login", "anna")
	b.get(codePath).leads(t, "/account/sign-in?again=true&next=%2Fdemo") // no mailed code was entered yet
	b.post(codePath, "code", rightCode).leads(t, "/account/sign-in?again=true&next=%2Fdemo")
	b.post("/account/sign-in/mailed-code?next=%2Fdemo", "mailed_code", rightMailedCode).leads(t, codePath)
	if strings.Contains(b.jar["sign_in"].Value, rightMailedCode) {
		t.Error("the cookie shows the mailed code")
	}
	b.get(codePath).shows(t, 200, `name="code"`, `href="/account/sign-in/mail?next=%2Fdemo">Have another one sent`)
	wrong := b.post(codePath, "code", "000000")
	wrong.shows(t, 401, "This code is wrong or has been used. Please enter the next code that your app shows")
	wrong.lacks(t, "have another e-mail sent")
	b.post(codePath, "code", rightCode).leads(t, "/demo")
	if b.jar["account"] == nil || b.jar["proof"] == nil || b.jar["sign_in"] != nil {
		t.Errorf("got the cookies %v, want a session and its proof alone", b.jar)
	}
}

// An attempt works in the browser that has started it, and for its purpose.
func TestMailedCode_IsBoundToTheBrowserThatAsked(t *testing.T) {
	const signIn, prove = "/account/sign-in/mailed-code?next=%2Fdemo", "/account/confirm/mailed-code?next=%2Fdemo"
	const askAgain, proveAgain = "/account/sign-in/mail?again=true&next=%2Fdemo", "/account/confirm/mail?again=true&next=%2Fdemo"
	for name, tt := range map[string]struct {
		begin []string // a path, and what is posted to it
		as    string   // what happens to the cookie
	}{
		"no attempt":                  {},
		"an attempt of the other one": {begin: []string{"other"}},
		"a password":                  {begin: []string{"/account/sign-in", "login", "anna", "password", "correct horse"}},
		"a changed cookie":            {begin: []string{"own"}, as: "changed"},
		"a cookie of another process": {begin: []string{"own"}, as: "restarted"},
	} {
		t.Run(name, func(t *testing.T) {
			for path, again := range map[string]string{signIn: askAgain, prove: proveAgain} {
				m := withMailedCodes(newModule())
				m.profile.TwoFactor = true
				b := newBrowser(t, m)
				b.hold(first, 0)
				begin := tt.begin
				switch {
				case len(begin) == 1 && (begin[0] == "own") == (path == signIn):
					begin = []string{"/account/sign-in/mail", "login", "anna"}
				case len(begin) == 1:
					begin = []string{"/account/confirm/mail"}
				}
				if begin != nil {
					b.post(begin[0], begin[1:]...)
				}
				switch tt.as {
				case "changed":
					b.jar["sign_in"].Value = "A" + b.jar["sign_in"].Value
				case "restarted":
					other := newBrowser(t, m)
					other.jar = b.jar
					b = other
				}
				b.get(path).leads(t, again)
				m.calls = nil
				posted := []string{"mailed_code", rightMailedCode, "code", rightCode, "attempt", signInAttempt}
				if path == prove {
					posted[5] = proveAttempt
				}
				b.post(path, posted...).leads(t, again)
				if len(m.calls) != 0 || b.jar["proof"] != nil {
					t.Errorf("%s: got the requests %v and the cookies %v, want no request and no proof", path, m.calls, b.jar)
				}
				b.get(again).shows(t, 200, "Please have another code sent")
			}
		})
	}
}

func TestMailedCode_OfferedOnlyWhereTheSiteHasIt(t *testing.T) {
	m := withMailedCodes(newModule())
	m.features.MailedCode = false
	b := newBrowser(t, m)
	b.get("/account/sign-in").lacks(t, "/account/sign-in/mail")
	b.get("/account/sign-in/mail?next=%2Fdemo").leads(t, "/account/sign-in?next=%2Fdemo")
	b.post("/account/sign-in/mail", "login", "anna").shows(t, 404, "This site does not offer to sign in with a code by e-mail at the moment.")
	b.hold(first, 0)
	b.get("/account/confirm?next=%2Fdemo").lacks(t, "/account/confirm/mail")
	b.get("/account/confirm/mail?next=%2Fdemo").leads(t, "/account/confirm?next=%2Fdemo")
	b.post("/account/confirm/mail?next=%2Fdemo").leads(t, "/account/confirm?next=%2Fdemo")
	if len(m.calls) != 0 {
		t.Errorf("got the requests %v, want none", m.calls)
	}
}

func TestMailedCode_LabelSaysWhatSignsIn(t *testing.T) {
	m := withMailedCodes(newModule())
	m.features.LoginWithEmail = false
	b := newBrowser(t, m)
	b.get("/account/sign-in/mail").lacks(t, "Login or e-mail")
	b.post("/account/sign-in/mail", "login", "anna@example.com").leads(t, "/account/sign-in/mailed-code")
	want := []any{personal.BeginMailedCodeRequest{Purpose: personal.MailedCodeSignIn, Email: "anna@example.com"}}
	if diff := cmp.Diff(want, m.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A visitor without scripts who clicks twice gets one mail, and is signed in.
func TestMailedCode_ClickedTwice(t *testing.T) {
	m := withMailedCodes(newModule())
	b := newBrowser(t, m)
	mail := append(b.get("/account/sign-in/mail").hidden(), "login", "anna")
	for range 2 {
		b.post("/account/sign-in/mail", mail...).leads(t, "/account/sign-in/mailed-code")
	}
	code := append(b.get("/account/sign-in/mailed-code").hidden(), "mailed_code", rightMailedCode)
	held := b.jar["sign_in"]
	for range 2 {
		b.jar = map[string]*http.Cookie{"sign_in": held} // the first response does not arrive
		b.post("/account/sign-in/mailed-code", code...).leads(t, "/account")
	}
	if len(m.calls) != 2 {
		t.Errorf("got the requests %v, want one for each form", m.calls)
	}
}

func TestMailedCode_ProvesWhoAUserWithoutPasswordIs(t *testing.T) {
	for _, twoFactor := range []bool{false, true} {
		m := withMailedCodes(newModule())
		m.features.MailedCode = false // which such users need not
		m.profile.TwoFactor, m.profile.NoPassword = twoFactor, true
		b := newBrowser(t, m)
		b.hold(first, 0)
		b.get("/account/data").leads(t, "/account/confirm?next=%2Faccount%2Fdata")
		const mail, path = "/account/confirm/mail?next=%2Faccount%2Fdata", "/account/confirm/mailed-code?next=%2Faccount%2Fdata"
		b.get("/account/confirm?next=%2Faccount%2Fdata").leads(t, mail) // the one way
		page := b.get(mail)
		page.shows(t, 200, "anna@example.com", "Send me a code", `"/account/data" aria-current="true"`)
		page.lacks(t, "Confirm in another way")
		b.post(mail).leads(t, path)
		page = b.get(path)
		page.shows(t, 200, "A code is on its way to anna@example.com.", `name="mailed_code"`, `href="`+mail+`"`, `"/account/data" aria-current="true"`)
		if got := strings.Contains(page.body, `name="code"`); got != twoFactor {
			t.Errorf("the page asks for a code of the second factor: %t, want %t", got, twoFactor)
		}
		page.lacks(t, proveAttempt)
		b.post(path, "mailed_code", "", "code", rightCode).shows(t, 422, `id="field-mailed_code-error"`)
		b.post(path, "mailed_code", "0000-0000", "code", rightCode).shows(t, 422, wrongMailedCode)
		if twoFactor {
			b.post(path, "mailed_code", rightMailedCode, "code", "000000").shows(t, 422, `id="field-code-error"`)
		}
		b.post(path, "mailed_code", "7k3mq9xa", "code", rightCode).leads(t, "/account/data")
		if b.jar["proof"] == nil || b.jar["proof"].Value != rightProof || b.jar["sign_in"] != nil {
			t.Errorf("got the cookies %v, want the proof, and no attempt", b.jar)
		}
		b.get("/account/data").shows(t, 200, "Download the file")
		want := []any{personal.BeginMailedCodeRequest{Purpose: personal.MailedCodeProve, Credentials: personal.Credentials{UserID: 42, UserHash: first}}}
		if diff := cmp.Diff(want, m.calls); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
}

// The proof of a sign-in does not change the second factor; that of a mailed code with a code of it does.
func TestMailedCode_ProofChangesTheSecondFactor(t *testing.T) {
	m := withMailedCodes(newModule())
	m.profile.TwoFactor, m.profile.NoPassword = true, true
	b := newBrowser(t, m)
	b.hold(first, 0)
	b.jar["proof"] = &http.Cookie{Name: "proof", Value: "sign_in." + rightProof}
	const next = "?next=%2Faccount%2Ftwo-factor%2Fswitch-off"
	b.get("/account/two-factor/switch-off").leads(t, "/account/confirm"+next)
	b.post("/account/confirm/mail"+next).leads(t, "/account/confirm/mailed-code"+next)
	b.get("/account/confirm/mailed-code"+next).shows(t, 200, `name="code"`) // although there is a proof
	b.post("/account/confirm/mailed-code"+next, "mailed_code", rightMailedCode, "code", rightCode).leads(t, "/account/two-factor/switch-off")
	b.post("/account/two-factor/switch-off").leads(t, "/account/two-factor")
}

// Users with a password can choose, where the site has mailed codes.
func TestMailedCode_ProvesInPlaceOfAPassword(t *testing.T) {
	m := withMailedCodes(newModule())
	b := newBrowser(t, m)
	b.hold(first, 0)
	const link = `href="/account/confirm/mail?next=%2Faccount%2Fdata">Confirm with a code by e-mail</a>`
	b.get("/account/confirm?next=%2Faccount%2Fdata").shows(t, 200, `name="password"`, link)
	m.profile.EmailVerified = false
	b.get("/account/confirm?next=%2Faccount%2Fdata").lacks(t, link)
}
