package personalpages_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

const rightProof = "aB3_-aB3_-aB3_-aB3_-aB3_-aB3_-aB3_-aB3_-xyP"

// withProofs adds proofs to a module with a second factor. Its operations judge a proof alone.
func withProofs(m *module) *module {
	m.ProveFunc = func(_ context.Context, r personal.ProveRequest) (personal.Proof, error) {
		var fields personal.FieldErrors
		switch {
		case r.Password == "":
			fields.Add("password", personal.FieldErrorRequired)
		case r.Password != "correct horse":
			fields.Add("password", personal.FieldErrorMismatch)
		case m.profile.TwoFactor && r.Code != rightCode:
			fields.Add("code", personal.FieldErrorMismatch)
		}
		return personal.Proof{Proof: rightProof, Until: time.Now().Add(5 * time.Minute)}, fields.Err()
	}
	m.ChangePasswordFunc = proven(m, m.ChangePasswordFunc, func(r *personal.ChangePasswordRequest) (string, *string, *string) {
		return r.Proof, &r.OldPassword, &r.Code
	})
	m.ExportFunc = proven(m, m.ExportFunc, func(r *personal.ExportRequest) (string, *string, *string) { return r.Proof, &r.Password, &r.Code })
	m.DeleteFunc = proven(m, m.DeleteFunc, func(r *personal.DeleteRequest) (string, *string, *string) { return r.Proof, &r.Password, &r.Code })
	m.BeginTwoFactorFunc = proven(m, m.BeginTwoFactorFunc, func(r *personal.BeginTwoFactorRequest) (string, *string, *string) {
		return r.Proof, &r.Password, new(string)
	})
	m.RenewRecoveryCodesFunc = proven(m, m.RenewRecoveryCodesFunc, func(r *personal.RenewRecoveryCodesRequest) (string, *string, *string) {
		return r.Proof, &r.Password, &r.Code
	})
	m.RemoveOwnTwoFactorFunc = proven(m, m.RemoveOwnTwoFactorFunc, func(r *personal.RemoveOwnTwoFactorRequest) (string, *string, *string) {
		return r.Proof, &r.Password, &r.Code
	})
	change := m.ChangeEmailFunc
	judged := proven(m, func(ctx context.Context, r personal.ChangeEmailRequest) (string, error) {
		if r.Password != "correct horse" {
			return "", personal.FieldErrors{"password": personal.FieldErrorRequired}.Err()
		}
		return "", change(ctx, r)
	}, func(r *personal.ChangeEmailRequest) (string, *string, *string) { return r.Proof, &r.Password, &r.Code })
	m.ChangeEmailFunc = func(ctx context.Context, r personal.ChangeEmailRequest) error {
		_, err := judged(ctx, r)
		return err
	}
	return m
}

// proven judges the proof of a request, if there is one, in place of password and code.
func proven[In, Out any](m *module, call func(context.Context, In) (Out, error),
	parts func(*In) (proof string, password, code *string)) func(context.Context, In) (Out, error) {
	return func(ctx context.Context, r In) (Out, error) {
		switch proof, password, code := parts(&r); {
		case proof != "" && (proof != rightProof || *password != "" || *code != ""):
			var none Out
			return none, personal.FieldErrors{"proof": personal.FieldErrorMismatch}.Err()
		case proof != "":
			*password, *code = "correct horse", rightCode
		}
		return call(ctx, r)
	}
}

// provenPages are the pages that need a proof, with what is posted besides it, and whether the user
// has a second factor there.
var provenPages = map[string]struct {
	typed     []string
	twoFactor bool
	voids     bool // the proof
}{
	"/account/password":              {[]string{"password", "a new password", "confirm_password", "a new password"}, true, true},
	"/account/new-email":             {[]string{"email", "new@example.com"}, true, false},
	"/account/data":                  {nil, true, false},
	"/account/delete":                {nil, true, true},
	"/account/two-factor/set-up":     {nil, false, false},
	"/account/two-factor/codes":      {nil, true, false},
	"/account/two-factor/switch-off": {nil, true, true},
}

func TestProof_IsAskedForOnceAndReplacesPasswordAndCode(t *testing.T) {
	for path, page := range provenPages {
		t.Run(path, func(t *testing.T) {
			m := withProofs(withTwoFactor(newModule()))
			m.profile.TwoFactor = page.twoFactor
			b := newBrowser(t, m)
			b.hold(first, 0)
			ask := "/account/confirm?next=" + strings.ReplaceAll(path, "/", "%2F")
			b.get(path).leads(t, ask)
			asked := b.get(ask)
			asked.shows(t, 200, "Confirm that it is you", `name="password"`, `value="anna"`)
			if got := strings.Contains(asked.body, `name="code"`); got != page.twoFactor {
				t.Errorf("the page asks for a code: %t, want %t", got, page.twoFactor)
			}
			b.post(ask, "password", "wrong", "code", rightCode).shows(t, 422, `id="field-password-error">`, "Confirm that it is you")
			answer := b.post(ask, "password", "correct horse", "code", rightCode)
			answer.leads(t, path)
			if cookie := b.jar["proof"]; cookie == nil || cookie.Value != rightProof || !cookie.HttpOnly ||
				cookie.SameSite != http.SameSiteStrictMode ||
				cookie.Path != "/" || cookie.MaxAge < 290 || cookie.MaxAge > 300 {
				t.Fatalf("got the cookie %+v, want the proof for 5 minutes, HttpOnly and Strict", cookie)
			}
			own := b.get(path)
			own.shows(t, 200, "<button")
			own.lacks(t, `name="old_password"`, `name="code"`, `autocomplete="current-password"`)
			if got := b.post(path, page.typed...); got.StatusCode >= 400 {
				t.Errorf("posted with the proof: got %d:\n%s", got.StatusCode, got.body)
			}
			if kept := b.jar["proof"] != nil; kept == page.voids {
				t.Errorf("afterwards: got the proof kept %t, want %t", kept, !page.voids)
			}
		})
	}
}

// A proof that has become void: the page asks itself, and nothing that was typed is lost.
func TestProof_VoidOneMakesThePageAskItself(t *testing.T) {
	for path, page := range provenPages {
		t.Run(path, func(t *testing.T) {
			m := withProofs(withTwoFactor(newModule()))
			m.profile.TwoFactor = page.twoFactor
			b := newBrowser(t, m)
			b.hold(first, 0)
			b.jar["proof"] = &http.Cookie{Name: "proof", Value: "void"}
			again := b.post(path, page.typed...)
			again.shows(t, 422, `autocomplete="current-password"`, "Please confirm again that it is you.")
			if got := strings.Contains(again.body, `name="code"`); got != page.twoFactor {
				t.Errorf("the page asks for a code: %t, want %t", got, page.twoFactor)
			}
			if path == "/account/new-email" {
				again.shows(t, 422, `value="new@example.com"`)
			}
			if b.jar["proof"] != nil {
				t.Error("the void proof is still in the browser")
			}
		})
	}
}

func TestProof_ErrorsOfThePageKeepIt(t *testing.T) {
	m := withProofs(newModule())
	m.ChangeEmailFunc = func(context.Context, personal.ChangeEmailRequest) error {
		return personal.FieldErrors{"email": personal.FieldErrorInvalidFormat}.Err()
	}
	b := newBrowser(t, m)
	b.hold(first, 0)
	b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
	again := b.post("/account/new-email", "email", "nowhere")
	again.shows(t, 422, `value="nowhere"`, "Enter an address like anna@example.com.")
	again.lacks(t, `type="password"`)
	if b.jar["proof"] == nil {
		t.Error("the proof is gone")
	}
}

// The page leads to pages of this site only.
func TestTabs_StayOnPagesInBetween(t *testing.T) {
	m := withProofs(newModule())
	b := newBrowser(t, m)
	const password, profile = `"/account/password" aria-current="true"`, `"/account" aria-current="true"`
	b.get("/account/mailbox?sent=email").lacks(t, "aria-current") // the visitor is not signed in
	b.hold(first, 0)
	b.get("/account/confirm?next=/account/password").shows(t, 200, password)
	b.post("/account/confirm?next=/account/password", "password", "wrong").shows(t, 422, password)
	b.get("/account/mailbox?sent=email").shows(t, 200, profile)
	b.get("/account/email").shows(t, 200, profile)
}

func TestProof_LeadsBackToThisSiteOnly(t *testing.T) {
	for next, want := range map[string]string{
		"": "/account", "//evil.example": "/account", "https://evil.example/account": "/account", `/\evil.example`: "/account",
		"/account/data?x=1": "/account/data?x=1",
	} {
		b := newBrowser(t, withProofs(newModule()))
		b.hold(first, 0)
		b.send("POST", "/account/confirm?next="+strings.ReplaceAll(next, "?", "%3F"), map[string][]string{"password": {"correct horse"}},
			"Sec-Fetch-Site", "same-origin").leads(t, want)
	}
}

func TestProof_NeedsASession(t *testing.T) {
	b := newBrowser(t, withProofs(newModule()))
	b.get("/account/confirm").leads(t, "/account/sign-in?next=%2Faccount%2Fconfirm")
	b.post("/account/confirm", "password", "correct horse").leads(t, "/account/sign-in?next=%2Faccount")
	b.hold(first, 0)
	b.send("POST", "/account/confirm", map[string][]string{"password": {"correct horse"}}, "Sec-Fetch-Site", "cross-site").shows(t, 403)
	if b.jar["proof"] != nil {
		t.Error("a post of another site has left a proof")
	}
}

// A sign-in and a sign-out begin and end sessions: a proof is of one.
func TestProof_IsForgottenWithTheSession(t *testing.T) {
	for path, form := range map[string][]string{
		"/account/sign-in":  {"login", "anna", "password", "correct horse"},
		"/account/sign-out": nil,
		"/account/register": {"login", "bert", "password", "correct horse", "confirm_password", "correct horse", "email", "b@example.com"},
	} {
		b := newBrowser(t, withProofs(newModule()))
		b.hold(first, 0)
		b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
		if got := b.post(path, form...); got.StatusCode != http.StatusSeeOther || b.jar["proof"] != nil {
			t.Errorf("%s: got %d and the proof kept %t, want 303 and none", path, got.StatusCode, b.jar["proof"] != nil)
		}
	}
}

// An empty request for a proof would count as a write of the session.
func TestProof_PagesDoNotTryOneToFindOutWhetherThereAreAny(t *testing.T) {
	m := withProofs(newModule())
	m.features = offered()
	prove, asked := m.ProveFunc, 0
	m.ProveFunc = func(ctx context.Context, r personal.ProveRequest) (personal.Proof, error) {
		asked++
		return prove(ctx, r)
	}
	b := newBrowser(t, m)
	b.hold(first, 0)
	for _, path := range []string{"/account/password", "/account/data", "/account/delete"} {
		b.get(path).leads(t, "/account/confirm?next="+strings.ReplaceAll(path, "/", "%2F"))
	}
	if asked != 0 {
		t.Errorf("got %d requests for a proof, want none", asked)
	}
}

// The proof of a sign-in is enough, except to change the second factor, where the page asks again.
func TestProof_OfASignIn(t *testing.T) {
	for path, page := range provenPages {
		m := withProofs(withTwoFactor(newModule()))
		m.profile.TwoFactor = page.twoFactor
		b := newBrowser(t, m)
		b.hold(first, 0)
		b.jar["proof"] = &http.Cookie{Name: "proof", Value: "sign_in." + rightProof}
		if path == "/account/two-factor/codes" || path == "/account/two-factor/switch-off" {
			b.get(path).leads(t, "/account/confirm?next="+strings.ReplaceAll(path, "/", "%2F"))
			continue
		}
		shown := b.get(path)
		shown.shows(t, 200)
		if strings.Contains(shown.body, `name="old_password"`) || strings.Contains(shown.body, `name="code"`) {
			t.Errorf("%s asks again after a sign-in", path)
		}
	}
}

// A user without a password is never asked for one: the page says how else to confirm, and leads there again
// when the proof has ended.
func TestProof_UserWithoutPassword(t *testing.T) {
	for path, page := range provenPages {
		for _, verified := range []bool{true, false} {
			t.Run(fmt.Sprint(path, " verified ", verified), func(t *testing.T) {
				m := withProofs(withTwoFactor(newModule()))
				m.profile.TwoFactor, m.profile.NoPassword, m.profile.EmailVerified = page.twoFactor, true, verified
				b := newBrowser(t, m)
				b.hold(first, 0)
				ask := "/account/confirm?next=" + strings.ReplaceAll(path, "/", "%2F")
				b.get(path).leads(t, ask)
				const password = `href="/account/password">Set a password`
				mail := strings.Replace(ask, "confirm?", "confirm/mail?", 1)
				asked := b.get(ask)
				b.jar["proof"] = &http.Cookie{Name: "proof", Value: "sign_in." + rightProof}
				afterSignIn := b.get(ask)
				if verified {
					asked.leads(t, mail)
					afterSignIn.leads(t, mail)
				} else {
					asked.shows(t, 200, "no confirmed e-mail address", "sign in again")
					asked.lacks(t, mail)
					afterSignIn.shows(t, 200, "no confirmed e-mail address", "set a password first", password)
					afterSignIn.lacks(t, mail)
				}
				b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof[:42] + "A"}
				ended := b.post(path, page.typed...)
				ended.shows(t, 422, `href="`+ask+`"`)
				for _, body := range []string{asked.body, afterSignIn.body, ended.body} {
					if strings.Contains(body, `autocomplete="current-password"`) {
						t.Error("the page asks for a password that there is not")
					}
				}
			})
		}
	}
}
