package personalpages_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
)

// offered are the features of a site with everything on.
func offered() *personal.Features {
	return &personal.Features{
		PasswordMinLength: 12, PasswordMaxBytes: 1024, LoginMinLength: 5, LoginMaxLength: 20, LoginWithEmail: true,
		EmailVerification: personal.VerificationOptional, TwoFactor: true, DeletionGrace: 10 * 24 * time.Hour,
	}
}

func TestFeatures_AreInTheForms(t *testing.T) {
	m := newModule()
	m.features = offered()
	m.RegisterFunc = func(context.Context, personal.RegisterRequest) (personal.SignedIn, error) {
		return personal.SignedIn{}, personal.FieldErrors{"password": personal.FieldErrorTooShort}.Err()
	}
	b := newBrowser(t, m)
	b.get("/account/register").shows(t, 200, "5 to 20 characters, without spaces", "At least 12 characters.")
	b.get("/account/recover").shows(t, 200, "At least 12 characters.")
	b.post("/account/register", "password", "short").shows(t, 422, "Enter a longer password: at least 12 characters.")
	b.get("/account/sign-in").shows(t, 200, "Login or e-mail")
	b.get("/account/email").lacks(t, `name="login"`) // no account waits for its confirmation
	b.hold(first, 0)
	date := time.Now().Add(10 * 24 * time.Hour).UTC().Format("2 Jan 2006 (UTC)")
	b.get("/account").shows(t, 200, "erased on "+date, `href="/account/delete"`)
	b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
	b.get("/account/delete").shows(t, 200, "erased on "+date)

	m.features = offered()
	m.features.LoginWithEmail, m.features.EmailVerification = false, personal.VerificationRequired
	b = newBrowser(t, m)
	b.get("/account/sign-in").lacks(t, "or e-mail")
	b.get("/account/email").shows(t, 200, `name="login"`)
}

func TestFeatures_AreAskedForOnceAMoment(t *testing.T) {
	m := newModule()
	asked := 0
	m.FeaturesFunc = func(context.Context) (personal.Features, error) {
		asked++
		return *offered(), nil
	}
	b := newBrowser(t, m)
	for range 3 {
		b.get("/account/register").shows(t, 200, "At least 12 characters.")
	}
	if asked != 1 {
		t.Errorf("got %d requests, want 1", asked)
	}
}

func TestTwoFactor_OfferedOnlyWhereItCanBeSwitchedOn(t *testing.T) {
	const setUp, tab = `href="/account/two-factor/set-up"`, `<a href="/account/two-factor"`
	for name, tt := range map[string]struct {
		features *personal.Features
		profile  personal.Profile
		tab      bool
		want     string // on the overview
		setUp    bool   // can be opened
	}{
		"offered":             {offered(), personal.Profile{Email: "a@example.com", EmailVerified: true}, true, setUp, true},
		"unknown":             {nil, personal.Profile{Email: "a@example.com"}, true, setUp, true},
		"not offered":         {&personal.Features{}, personal.Profile{Email: "a@example.com", EmailVerified: true}, false, "does not offer two-factor", false},
		"on, not offered":     {&personal.Features{}, personal.Profile{TwoFactor: true}, true, "does not offer two-factor", false},
		"e-mail unconfirmed":  {offered(), personal.Profile{Email: "a@example.com"}, true, `action="/account/verify"`, false},
		"no e-mail":           {offered(), personal.Profile{}, true, `href="/account/new-email">Change the address`, false},
		"e-mails not checked": {&personal.Features{TwoFactor: true, EmailVerification: personal.VerificationOff}, personal.Profile{Email: "a@example.com"}, true, setUp, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModule()
			m.features, m.profile = tt.features, tt.profile
			b := newBrowser(t, m)
			b.hold(first, 0)
			if page := b.get("/account"); strings.Contains(page.body, tab) != tt.tab {
				t.Errorf("got the tab: %t, want %t:\n%s", !tt.tab, tt.tab, page.body)
			}
			page := b.get("/account/two-factor")
			page.shows(t, 200, tt.want)
			if tt.setUp {
				b.jar["proof"] = &http.Cookie{Name: "proof", Value: rightProof}
				b.get("/account/two-factor/set-up").shows(t, 200, `action="/account/two-factor/set-up"`)
				return
			}
			page.lacks(t, setUp)
			b.get("/account/two-factor/set-up").leads(t, "/account/two-factor")
		})
	}
}

func TestTwoFactor_SaysHowManyRecoveryCodesAreLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		explanation personal.Explanation
		err         error
		want, not   string
	}{
		"many":      {personal.Explanation{User: &personal.User{ID: 42}, Verdicts: []personal.Verdict{{Reason: personal.ReasonTwoFactor, Count: 9}}}, nil, "Recovery codes left: 9.", "before you run out"},
		"few":       {personal.Explanation{User: &personal.User{ID: 42}, Verdicts: []personal.Verdict{{}, {Reason: personal.ReasonTwoFactor, Count: 3}}}, nil, "Recovery codes left: 3. Make new ones before you run out.", "left: 9"},
		"of others": {personal.Explanation{User: &personal.User{ID: 7}, Verdicts: []personal.Verdict{{Reason: personal.ReasonTwoFactor, Count: 9}}}, nil, ">On<", "codes left"},
		"unknown":   {personal.Explanation{}, personal.NewError(personal.CodeUnavailable, nil), ">On<", "codes left"},
	} {
		t.Run(name, func(t *testing.T) {
			m := withTwoFactor(newModule())
			m.profile.TwoFactor = true
			b := newBrowser(t, m)
			b.audit.ExplainFunc = func(_ context.Context, r personal.ExplainRequest) (personal.Explanation, error) {
				if r.Login != "anna" {
					t.Errorf("got a request for %q", r.Login)
				}
				return tt.explanation, tt.err
			}
			b.hold(first, 0)
			page := b.get("/account/two-factor")
			page.shows(t, 200, tt.want)
			page.lacks(t, tt.not)
		})
	}
}
