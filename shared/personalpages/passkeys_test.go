package personalpages_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalpages"
)

// The account has one passkey, which answers to one attempt.
const (
	rightAttempt    = "attempt-1"
	rightCredential = `{"id":"AQ"}`
	passkeyOptions  = `{"challenge":"AQ"}`
)

// withPasskeys adds passkeys to a module. That of the account needs a code if the account has a
// second factor.
func withPasskeys(m *module) *module {
	m = withProofs(m)
	m.features = offered()
	m.features.Passkeys = true
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	passkeys := []personal.Passkey{{ID: "p2", Name: "<Stick>", Created: at},
		{ID: "p1", Name: "Laptop", Created: at, LastUsed: at, BackedUp: true}}
	right := func(attempt, credential string) bool { return attempt == rightAttempt && credential == rightCredential }
	m.BeginPasskeyFunc = func(_ context.Context, r personal.BeginPasskeyRequest) (personal.PasskeyCeremony, error) {
		if r.Purpose == personal.PasskeyProve && m.check(r.Credentials) != nil {
			return personal.PasskeyCeremony{}, m.check(r.Credentials)
		}
		return personal.PasskeyCeremony{Attempt: rightAttempt, Options: passkeyOptions}, m.record(r.Purpose)
	}
	m.AuthorizePasskeyFunc = func(_ context.Context, r personal.AuthorizePasskeyRequest) (personal.SignedIn, error) {
		switch {
		case !right(r.Attempt, r.Credential):
			return personal.SignedIn{}, personal.NewError(personal.CodeInvalidCredentials, nil)
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
	m.AddPasskeyFunc = proven(m, func(_ context.Context, r personal.AddPasskeyRequest) (personal.PasskeyCeremony, error) {
		if r.Password == "" {
			return personal.PasskeyCeremony{}, personal.FieldErrors{"password": personal.FieldErrorRequired}.Err()
		}
		return personal.PasskeyCeremony{Attempt: rightAttempt, Options: passkeyOptions}, m.check(r.Credentials)
	}, func(r *personal.AddPasskeyRequest) (string, *string, *string) { return r.Proof, &r.Password, &r.Code })
	m.ConfirmPasskeyFunc = func(_ context.Context, r personal.ConfirmPasskeyRequest) (personal.Passkey, error) {
		var fields personal.FieldErrors
		if r.Name == "" {
			fields.Add("name", personal.FieldErrorRequired)
		}
		if len(r.Name) > personal.MaxPasskeyName {
			fields.Add("name", personal.FieldErrorTooLong)
		}
		if !right(r.Attempt, r.Credential) {
			fields.Add("credential", personal.FieldErrorMismatch)
		}
		return passkeys[0], fields.Err()
	}
	m.PasskeysFunc = func(_ context.Context, c personal.Credentials) ([]personal.Passkey, error) {
		return passkeys, m.check(c)
	}
	m.RenamePasskeyFunc = func(_ context.Context, r personal.RenamePasskeyRequest) error { return m.record(r) }
	remove := proven(m, func(_ context.Context, r personal.RemovePasskeyRequest) (string, error) { return "", m.record(r.ID) },
		func(r *personal.RemovePasskeyRequest) (string, *string, *string) {
			return r.Proof, &r.Password, &r.Code
		})
	m.RemovePasskeyFunc = func(ctx context.Context, r personal.RemovePasskeyRequest) error {
		_, err := remove(ctx, r)
		return err
	}
	prove := m.ProveFunc
	m.ProveFunc = func(ctx context.Context, r personal.ProveRequest) (personal.Proof, error) {
		switch {
		case r.Credential == "":
			return prove(ctx, r)
		case !right(r.Attempt, r.Credential) || r.Password != "":
			return personal.Proof{}, personal.FieldErrors{"credential": personal.FieldErrorMismatch}.Err()
		case m.profile.TwoFactor && r.Code == "":
			return personal.Proof{}, personal.FieldErrors{"code": personal.FieldErrorRequired}.Err()
		}
		r.Password, r.Attempt, r.Credential = "correct horse", "", ""
		return prove(ctx, r)
	}
	return m
}

func TestPasskeys_OfferedOnlyWhereTheSiteHasThem(t *testing.T) {
	for _, has := range []bool{true, false} {
		m := withPasskeys(withTwoFactor(newModule()))
		m.features.Passkeys = has
		b := newBrowser(t, m)
		pages := map[string]reply{"/account/sign-in": b.get("/account/sign-in")}
		b.hold(first, 0)
		for _, path := range []string{"/account", "/account/confirm"} {
			pages[path] = b.get(path)
		}
		b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
		pages["/account/password"] = b.get("/account/password")
		for path, mark := range map[string]string{
			"/account/sign-in": `autocomplete="username webauthn"`, "/account": `href="/account/passkeys"`,
			"/account/confirm": `data-passkey="prove"`,
		} {
			pages[path].shows(t, 200)
			if got := strings.Contains(pages[path].body, mark); got != has {
				t.Errorf("%s, passkeys %t: got %q in the page %t", path, has, mark, got)
			}
			if !has {
				pages[path].lacks(t, "asskey")
			}
		}
	}
}

// A page without its script shows no button that does nothing, and says what to use.
func TestPasskeys_WithoutScriptsThePageSaysWhatToUse(t *testing.T) {
	b := newBrowser(t, withPasskeys(newModule()))
	b.get("/account/sign-in").shows(t, 200, `data-script="passkey" hidden>`, "<noscript>", "Use your password instead.", "/assets/passkeys.")
	b.hold(first, 0)
	b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
	b.get("/account/passkeys/add").shows(t, 200, `data-script="passkey" hidden>`, "<noscript>", "You can go on signing in with your password.")
}

func TestPasskeys_ScriptBeginsCeremonies(t *testing.T) {
	for condition, tt := range map[string]struct {
		purpose  string
		hold     bool
		proof    string
		refusal  error // of AddPasskey; may be nil
		status   int
		want     map[string]any // keys without a value to compare have nil
		proofEnd bool
	}{
		"a sign-in":                  {purpose: "sign_in", status: 200, want: map[string]any{"attempt": rightAttempt, "options": map[string]any{"challenge": "AQ"}}},
		"a proof":                    {purpose: "prove", hold: true, status: 200, want: map[string]any{"attempt": rightAttempt, "options": map[string]any{"challenge": "AQ"}}},
		"a proof without a session":  {purpose: "prove", status: 401, want: map[string]any{"message": nil, "reload": true}},
		"a new one":                  {purpose: "add", hold: true, proof: rightProof, status: 200, want: map[string]any{"attempt": rightAttempt, "options": map[string]any{"challenge": "AQ"}}},
		"a new one without a proof":  {purpose: "add", hold: true, status: 422, want: map[string]any{"message": nil, "reload": true}},
		"a new one with a void one":  {purpose: "add", hold: true, proof: "void", status: 422, want: map[string]any{"message": nil, "reload": true}, proofEnd: true},
		"a new one, but no room":     {purpose: "add", hold: true, proof: rightProof, refusal: personal.NewError(personal.CodeTooManyPasskeys, nil), status: 409, want: map[string]any{"message": "You have as many passkeys as possible. Remove one first."}},
		"a new one, but unconfirmed": {purpose: "add", hold: true, proof: rightProof, refusal: personal.NewError(personal.CodeEmailUnverified, nil), status: 403, want: map[string]any{"message": nil}},
		"an outage":                  {purpose: "add", hold: true, proof: rightProof, refusal: &personal.Error{Code: personal.CodeUnavailable, RetryAfter: 3 * time.Second}, status: 503, want: map[string]any{"message": nil}},
	} {
		t.Run(condition, func(t *testing.T) {
			m := withPasskeys(newModule())
			if tt.refusal != nil {
				m.AddPasskeyFunc = func(context.Context, personal.AddPasskeyRequest) (personal.PasskeyCeremony, error) {
					return personal.PasskeyCeremony{}, tt.refusal
				}
			}
			b := newBrowser(t, m)
			if tt.hold {
				b.hold(first, 0)
			}
			if tt.proof != "" {
				b.jar["proof"] = &http.Cookie{Name: "proof", Value: tt.proof}
			}
			answer := b.post("/account/passkeys/begin", "purpose", tt.purpose)
			answer.shows(t, tt.status)
			var got map[string]any
			if err := json.Unmarshal([]byte(answer.body), &got); err != nil || answer.Header.Get("Content-Type") != "application/json" {
				t.Fatalf("got no JSON: %v: %s", err, answer.body)
			}
			for key, want := range tt.want {
				if value, ok := got[key]; ok && want == nil && value != "" {
					tt.want[key] = value
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if gone := tt.proof != "" && b.jar["proof"] == nil; gone != tt.proofEnd {
				t.Errorf("got the proof dropped %t, want %t", gone, tt.proofEnd)
			}
		})
	}
	b := newBrowser(t, withPasskeys(newModule()))
	b.send("POST", "/account/passkeys/begin", url.Values{"purpose": {"sign_in"}}, "Sec-Fetch-Site", "cross-site").shows(t, 403)
}

func TestPasskeys_SignIn(t *testing.T) {
	for next, want := range map[string]string{"": "/account", "?next=%2Fdemo": "/demo", "?next=%2F%2Fevil.example": "/account"} {
		b := newBrowser(t, withPasskeys(newModule()))
		b.post("/account/sign-in"+next, "attempt", rightAttempt, "credential", rightCredential).leads(t, want)
		if b.jar["account"] == nil || b.jar["proof"] == nil || b.jar["proof"].Value != "sign_in."+rightProof ||
			b.jar["proof"].SameSite != http.SameSiteStrictMode {
			t.Errorf("got the cookies %v, want a session and its proof", b.jar)
		}
		b.get("/account").shows(t, 200, "You are signed in.")
	}
}

func TestPasskeys_RefusedSignInSaysWhatToDo(t *testing.T) {
	m := withPasskeys(newModule())
	b := newBrowser(t, m)
	b.post("/account/sign-in?next=%2Fdemo", "attempt", rightAttempt, "credential", "{}").
		shows(t, 401, "it may have been removed", "use your password", `action="/account/sign-in?next=%2Fdemo"`)
	m.AuthorizePasskeyFunc = func(context.Context, personal.AuthorizePasskeyRequest) (personal.SignedIn, error) {
		return personal.SignedIn{}, personal.NewError(personal.CodeEmailUnverified, nil)
	}
	unconfirmed := b.post("/account/sign-in", "attempt", rightAttempt, "credential", rightCredential)
	unconfirmed.shows(t, 403, "Please confirm your e-mail address first.", `href="/account/verify"`)
	unconfirmed.lacks(t, `name="login" value=""`)
	if b.jar["account"] != nil || b.jar["proof"] != nil {
		t.Errorf("got the cookies %v, want none", b.jar)
	}
}

func TestPasskeys_SignInWithCode(t *testing.T) {
	m := withPasskeys(withTwoFactor(newModule()))
	m.profile.TwoFactor = true
	b := newBrowser(t, m)
	b.post("/account/sign-in?next=%2Fdemo", "attempt", rightAttempt, "credential", rightCredential).leads(t,
		"/account/sign-in/code?next=%2Fdemo")
	if sealed := b.jar["sign_in"]; sealed == nil || strings.Contains(sealed.Value, rightAttempt) {
		t.Fatalf("got the cookie %v, want a sealed one", sealed)
	}
	b.get("/account/sign-in/code?next=%2Fdemo").shows(t, 200, `name="code"`)
	b.post("/account/sign-in/code?next=%2Fdemo", "code", "000000").shows(t, 401, "This code is wrong or has been used.")
	b.post("/account/sign-in/code?next=%2Fdemo", "code", rightCode).leads(t, "/demo")
	if b.jar["account"] == nil || b.jar["proof"] == nil || b.jar["sign_in"] != nil {
		t.Errorf("got the cookies %v, want a session and its proof alone", b.jar)
	}
}

// A passkey that needs a code is not asked again for it.
func TestPasskeys_Prove(t *testing.T) {
	const ask = "/account/confirm?next=%2Faccount%2Fdata"
	for _, twoFactor := range []bool{false, true} {
		m := withPasskeys(withTwoFactor(newModule()))
		m.profile.TwoFactor = twoFactor
		b := newBrowser(t, m)
		b.hold(first, 0)
		b.post(ask, "attempt", rightAttempt, "credential", "{}").
			shows(t, 422, "This passkey cannot be used here, or it took too long.", `name="password"`, `data-passkey="prove"`)
		answer := b.post(ask, "attempt", rightAttempt, "credential", rightCredential)
		if twoFactor {
			answer.shows(t, 422, `name="code"`)
			answer.lacks(t, `name="password"`, "data-passkey")
			if want := []string{"attempt", rightAttempt, "credential", rightCredential}; !slices.Equal(answer.hidden()[:4], want) {
				t.Errorf("got the hidden values %q, want %q", answer.hidden(), want)
			}
			answer = b.post(ask, "attempt", rightAttempt, "credential", rightCredential, "code", rightCode)
		}
		answer.leads(t, "/account/data")
		if b.jar["proof"] == nil {
			t.Errorf("two factors %t: got no proof", twoFactor)
		}
	}
}

// The button of the passkey is on the page, whatever else is: the user may have no password, and no confirmed e-mail.
func TestPasskeys_ProveWithoutPassword(t *testing.T) {
	const ask = "/account/confirm?next=%2Faccount%2Fdata"
	for _, verified := range []bool{true, false} {
		m := withPasskeys(withTwoFactor(newModule()))
		m.profile.TwoFactor, m.profile.NoPassword, m.profile.EmailVerified = true, true, verified
		b := newBrowser(t, m)
		b.hold(first, 0)
		page := b.get(ask)
		page.shows(t, 200, `data-passkey="prove"`, `action="/account/confirm?next=%2Faccount%2Fdata"`)
		if got := strings.Contains(page.body, "/account/confirm/mail?"); got != verified {
			t.Errorf("the page leads to that of mailed codes: %t, want %t", got, verified)
		}
		b.post(ask, "attempt", rightAttempt, "credential", "{}").
			shows(t, 422, "This passkey cannot be used here, or it took too long.", `data-passkey="prove"`)
		code := b.post(ask, "attempt", rightAttempt, "credential", rightCredential)
		code.shows(t, 422, `name="code"`, `action="/account/confirm?next=%2Faccount%2Fdata"`)
		code.lacks(t, "data-passkey")
		b.post(ask, "attempt", rightAttempt, "credential", rightCredential, "code", rightCode).leads(t, "/account/data")
	}
}

func TestPasskeys_List(t *testing.T) {
	m := withPasskeys(newModule())
	b := newBrowser(t, m)
	b.get("/account/passkeys").leads(t, "/account/sign-in?next=%2Faccount%2Fpasskeys")
	b.hold(first, 0)
	list := b.get("/account/passkeys")
	list.shows(t, 200, "&lt;Stick&gt;", "Not used yet", "Laptop", "synchronised", `<time data-ago datetime="2026-01-02T03:04:05Z">`,
		`href="/account/passkeys/rename?id=p1"`, `href="/account/passkeys/remove?id=p2"`, `href="/account/passkeys/add"`)
	list.lacks(t, "/assets/passkeys.")
	b.get("/account/passkeys?removed=true").shows(t, 200, "/assets/passkeys.", `data-passkey="removed"`)

	all := make([]personal.Passkey, personal.MaxPasskeys)
	m.PasskeysFunc = func(context.Context, personal.Credentials) ([]personal.Passkey, error) { return all, nil }
	full := b.get("/account/passkeys")
	full.shows(t, 200, "Remove one first.")
	full.lacks(t, `href="/account/passkeys/add"`)

	all = nil
	b.get("/account/passkeys").shows(t, 200, "You have no passkeys yet.")
	m.profile.EmailVerified = false
	b.get("/account/passkeys").shows(t, 200, "A passkey needs a confirmed e-mail address", `action="/account/verify"`)
	b.get("/account/passkeys/add").leads(t, "/account/passkeys") // before it asks who they are
}

func TestPasskeys_Add(t *testing.T) {
	b := newBrowser(t, withPasskeys(newModule()))
	b.hold(first, 0)
	b.get("/account/passkeys/add").leads(t, "/account/confirm?next=%2Faccount%2Fpasskeys%2Fadd")
	b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
	b.get("/account/passkeys/add", "User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Chrome/140 Safari/537").
		shows(t, 200, `value="Chrome · Linux"`, `data-passkey="add"`, `data-longest="64"`, `name="attempt" value=""`)
	b.get("/account/passkeys/add", "User-Agent", strings.Repeat("x", 65)).shows(t, 200, `name="name" type="text" value=""`)
	add := func(name, credential string) reply {
		return b.post("/account/passkeys/add", "attempt", rightAttempt, "credential", credential, "name", name)
	}
	add("", "").shows(t, 422, "Please check what you have entered.", `id="field-name-error">`)
	add(strings.Repeat("n", 65), rightCredential).shows(t, 422, "Enter a shorter name: at most 64 characters.")
	add("Phone", "{}").shows(t, 422, "This passkey cannot be used here", `value="Phone"`)
	if b.jar["proof"] == nil {
		t.Error("errors of the page have dropped the proof")
	}
	add("Phone", rightCredential).leads(t, "/account/passkeys")
	b.get("/account/passkeys").shows(t, 200, "The passkey has been added.")
}

func TestPasskeys_RenameAndRemove(t *testing.T) {
	m := withPasskeys(newModule())
	b := newBrowser(t, m)
	b.hold(first, 0)
	b.get("/account/passkeys/rename?id=p1").shows(t, 200, `value="Laptop"`)
	b.get("/account/passkeys/rename?id=p9").shows(t, 404)
	b.post("/account/passkeys/rename?id=p1", "name", "Old").leads(t, "/account/passkeys")
	b.get("/account/passkeys/remove?id=p1").leads(t, "/account/confirm?next=%2Faccount%2Fpasskeys%2Fremove%3Fid%3Dp1")
	b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
	b.get("/account/passkeys/remove?id=p1").shows(t, 200, "“Laptop” signs you in no more")
	b.post("/account/passkeys/remove?id=p1").leads(t, "/account/passkeys?removed=true")
	want := []any{personal.RenamePasskeyRequest{Credentials: personal.Credentials{UserID: 42, UserHash: first}, ID: "p1", Name: "Old"}, "p1"}
	if diff := cmp.Diff(want, m.calls); diff != "" {
		t.Error(diff)
	}
	m.RemovePasskeyFunc = func(context.Context, personal.RemovePasskeyRequest) error {
		return personal.NewError(personal.CodeLastWayIn, nil)
	}
	b.post("/account/passkeys/remove?id=p1").shows(t, 409, "Confirm an e-mail address, or add a password or another way to sign in first.")
}

func TestPassword_RemovesOtherWaysInOnRequest(t *testing.T) {
	for posted, want := range map[string]bool{"true": true, "": false} {
		m := withPasskeys(newModule())
		b := newBrowser(t, m)
		b.hold(first, 0)
		b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
		b.get("/account/password").shows(t, 200, `name="remove_other_ways_in"`)
		b.post("/account/password", "password", "a new password", "confirm_password", "a new password", "remove_other_ways_in", posted).leads(t,
			"/account/password")
		got, ok := m.calls[0].(personal.ChangePasswordRequest)
		if !ok || got.RemoveOtherWaysIn != want {
			t.Errorf("posted %q: got %+v, want RemoveOtherWaysIn %t", posted, m.calls, want)
		}
	}
}

func TestSessions_SayHowTheyBegan(t *testing.T) {
	m := newModule()
	m.SessionsFunc = func(context.Context, personal.Credentials) ([]personal.Session, error) {
		return []personal.Session{{ID: "1", Method: personal.MethodPasskey}, {ID: "2", Method: "oidc"}, {ID: "3"}}, nil
	}
	b := newBrowser(t, m)
	b.hold(first, 0)
	b.get("/account/sessions").shows(t, 200, " · <bdi>with a passkey</bdi>", " · <bdi>oidc</bdi>")
}

func TestChangePassword_LeadsToThePage(t *testing.T) {
	w := httptest.NewRecorder()
	personalpages.ChangePassword(w, httptest.NewRequest("GET", personalpages.ChangePasswordPath, nil))
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/account/password" {
		t.Errorf("got %d to %q, want 303 to the page", w.Code, w.Header().Get("Location"))
	}
	b := newBrowser(t, newModule())
	b.anyPolicy = true // which the sample sets for other paths than pages
	b.get("/.well-known/change-password").leads(t, "/account/password")
}
