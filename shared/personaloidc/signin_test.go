package personaloidc_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalpages"
)

func TestSignIn_NewUserRegistersOnce(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.provider.is(login, login+"@provider.example")
	b := w.browser()
	b.get("/account/sign-in?next=/account/sessions")
	b.want(200, "/account/sign-in", `href="`+startPath+`?next=%2Faccount%2Fsessions">Continue with Example ID</a>`)
	b.get(startPath + "?next=/account/sessions")
	b.want(200, choosePath, `value="`+login+`@provider.example"`, login+" ("+login+"@provider.example)")
	b.wantSignedIn("")
	b.get(choosePath)
	b.post(choosePath, url.Values{"login": {login}, "email": {login + "@example.com"}})
	b.want(200, "/account/sessions", "Example ID")
	b.wantSignedIn(login)
	id, err := w.module.Administration().FindIdentity(t.Context(), personal.Identity{Issuer: w.provider.url, Subject: login})
	if err != nil {
		t.Fatal(err)
	}
	user, err := w.module.Administration().User(t.Context(), id)
	if err != nil || user.Login != login || user.EmailVerified {
		t.Errorf("got %+v, error %v; want %s with an e-mail that is not verified", user.User, err, login)
	}
	w.token(login+"@example.com", "Confirm that")
	b.get(choosePath)
	b.want(200, "/account/sign-in", "Please sign in again") // the attempt is over

	b = w.browser()
	b.get(startPath + "?next=/account/sessions")
	b.want(200, "/account/sessions")
	sessions, err := w.module.Administration().UserSessions(t.Context(), id)
	if err != nil || len(sessions) != 2 || sessions[0].Method != "example" {
		t.Errorf("got the sessions %+v, error %v; want two by the provider", sessions, err)
	}
	b.get(startPath + "?next=https://evil.example/")
	b.want(200, "/account")
}

func TestSignIn_LinksWithTheAccountOfASession(t *testing.T) {
	w := newWorld(t)
	login, subject := name("ada"), name("subject")
	id := w.register(login, login+"@example.com", true).UserID
	w.provider.is(subject, "else@provider.example")
	b := w.browser()
	b.get(startPath + "?next=/account/sessions")
	b.want(200, choosePath, "/account/sign-in?next=%2Faccount%2Flinked%2Fconfirm")
	b.get(linkPath)
	b.want(200, "/account/sign-in")
	b.signIn(login, linkPath)
	b.want(200, linkPath, subject, login, "Don’t link") // a proof alone is no consent
	w.wantIdentity(subject, 0)
	b.forget("proof")
	b.get(linkPath)
	b.want(200, "/account/confirm")
	b.post("/account/confirm?next="+linkPath, url.Values{"password": {"wrong horse battery"}})
	b.want(422, "/account/confirm")
	b.post("/account/confirm?next="+linkPath, url.Values{"password": {password}})
	b.want(200, linkPath)
	b.post(linkPath, nil)
	b.want(200, "/account/sessions", "Your account is now linked.")
	w.wantIdentity(subject, id)
	other := w.browser()
	other.get(startPath)
	other.wantSignedIn(login)
}

func TestSignIn_AsksForTheCodeOfASecondFactor(t *testing.T) {
	w := newWorld(t)
	login, subject := name("ada"), name("subject")
	pair := w.register(login, login+"@example.com", true)
	secret, err := w.module.Service().BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: pair, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	confirmed, err := w.module.Service().ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{
		Credentials: pair, Code: personaltest.Code(secret.Secret, time.Now()),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.provider.is(subject, "")
	b := w.browser()
	b.get(startPath)
	b.signIn(login, linkPath)
	b.post(codePath+"?next="+linkPath, url.Values{"code": {confirmed.RecoveryCodes[0]}})
	b.want(200, linkPath)
	b.post(linkPath, nil)
	w.wantIdentity(subject, pair.UserID)

	b = w.browser()
	b.get(startPath + "?next=/account/sessions")
	b.want(200, codePath)
	b.wantSignedIn("")
	b.post(codePath, url.Values{"code": {confirmed.RecoveryCodes[0]}})
	b.want(401, codePath)
	b.post(codePath+"?next=/account/sessions", url.Values{"code": {confirmed.RecoveryCodes[1]}})
	b.want(200, "/account/sessions")
	b.wantSignedIn(login)
	b.post(codePath, url.Values{"code": {confirmed.RecoveryCodes[2]}})
	b.want(200, "/account/sign-in") // the attempt is over

	// The provider's word is a proof, with a code.
	b.forget("proof")
	b.get("/account/confirm?next=/account/data")
	b.want(200, "/account/confirm", "Confirm at Example ID")
	b.post("/account/confirm/at/example?next=/account/data", nil)
	b.want(200, "/account/confirm/code")
	b.post("/account/confirm/code?next=/account/data", url.Values{"code": {"000000"}})
	b.want(422, "/account/confirm/code")
	b.post("/account/confirm/code?next=/account/data", url.Values{"code": {confirmed.RecoveryCodes[3]}})
	b.want(200, "/account/data")

	// So is that of a provider that has checked a factor itself.
	p := w.registered()
	p.SecondFactor = []string{"mfa"}
	w.mount(personalpages.Config{}, p)
	w.provider.alter = func(claims map[string]any) { claims["amr"] = []string{"pwd", "mfa"} }
	b = w.browser()
	b.get(startPath)
	b.want(200, "/account")
}

// What a browser can send, and what a provider can say, that must open no session.
func TestSignIn_RefusesOtherResponses(t *testing.T) {
	for condition, do := range map[string]func(w *world, b *browser){
		"a wrong nonce": func(w *world, b *browser) {
			w.provider.alter = func(claims map[string]any) { claims["nonce"] = "of another sign-in" }
			b.get(b.response())
		},
		"no nonce": func(w *world, b *browser) {
			w.provider.alter = func(claims map[string]any) { delete(claims, "nonce") }
			b.get(b.response())
		},
		"another audience": func(w *world, b *browser) {
			w.provider.alter = func(claims map[string]any) { claims["aud"] = "another site" }
			b.get(b.response())
		},
		"a token that was issued to another client": func(w *world, b *browser) {
			w.provider.alter = func(claims map[string]any) {
				claims["aud"], claims["azp"] = []string{clientID, "another site"}, "another site"
			}
			b.get(b.response())
		},
		"a token without a signature": func(w *world, b *browser) {
			w.provider.unsigned = true
			b.get(b.response())
		},
		"an expired token": func(w *world, b *browser) {
			w.provider.alter = func(claims map[string]any) { claims["exp"] = time.Now().Add(-time.Hour).Unix() }
			b.get(b.response())
		},
		"a token of another issuer": func(w *world, b *browser) {
			w.provider.alter = func(claims map[string]any) { claims["iss"] = "https://other.example" }
			b.get(b.response())
		},
		"a response of another provider": func(w *world, b *browser) {
			w.provider.adds = url.Values{"iss": {"https://other.example"}}
			b.get(b.response())
		},
		"the provider's error": func(w *world, b *browser) {
			w.provider.adds = url.Values{"error": {"access_denied"}}
			b.get(b.response())
		},
		"another state": func(w *world, b *browser) {
			b.get(strings.Replace(b.response(), "state=", "state=x", 1))
		},
		"no state": func(w *world, b *browser) {
			b.get(regexp.MustCompile(`state=[^&]*`).ReplaceAllString(b.response(), ""))
		},
		"a response to another browser": func(w *world, b *browser) {
			b.get(w.browser().response())
		},
		"a response to an attempt that others have pushed out": func(w *world, b *browser) {
			first := b.response()
			for range 5 {
				b.response()
			}
			b.get(first)
		},
		"a code of another attempt": func(w *world, b *browser) { // PKCE
			code := regexp.MustCompile(`code=[^&]*`)
			stolen := code.FindString(w.browser().response())
			b.get(code.ReplaceAllString(b.response(), stolen))
		},
		"a code that was used": func(w *world, b *browser) {
			w.provider.reuses = true // so that the site alone refuses it
			used := b.response()
			b.get(used)
			b.want(200, "/account")
			b.post("/account/sign-out", nil)
			b.get(used)
		},
		"a code that was used, in another browser": func(w *world, b *browser) {
			w.provider.reuses = true
			used := b.response()
			first := *b
			first.get(used)
			first.want(200, "/account")
			*b = *w.browser()
			b.get(used)
		},
	} {
		t.Run(condition, func(t *testing.T) {
			w := newWorld(t)
			login := name("ada")
			w.linked(login, login)
			b := w.browser()
			do(w, b)
			b.want(400, callbackPath)
			b.wantSignedIn("")
		})
	}
}

// A forged response must not end the sign-in of the browser in which it arrives.
func TestSignIn_ForgedResponseEndsNoAttempt(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.provider.is(login, "")
	b := w.browser()
	response := b.response()
	b.get(callbackPath + "?state=forged&code=forged")
	b.want(400, callbackPath)
	b.get(response)
	b.want(200, choosePath)
}

var values = regexp.MustCompile(`value="[^"]*"|You signed in at [^.]*`)

// A provider may say of any e-mail that it is verified.
func TestSignIn_LyingEmailLeadsToNoAccount(t *testing.T) {
	w := newWorld(t)
	victim := name("victim")
	id := w.register(victim, victim+"@example.com", true).UserID
	attacker, stranger := name("attacker"), name("stranger")
	var pages []string
	for subject, email := range map[string]string{attacker: victim + "@example.com", stranger: stranger + "@example.com"} {
		w.provider.is(subject, email)
		b := w.browser()
		b.get(startPath)
		b.want(200, choosePath)
		pages = append(pages, values.ReplaceAllString(b.page, ""))
		b.wantSignedIn("")
	}
	if pages[0] != pages[1] {
		t.Errorf("the page depends on whether an account has the e-mail:\n%s\n%s", pages[0], pages[1])
	}
	w.wantIdentity(attacker, 0)
	w.provider.is(attacker, victim+"@example.com")
	b := w.browser()
	b.get(startPath)
	b.post(choosePath, url.Values{"login": {attacker}, "email": {victim + "@example.com"}})
	b.want(409, choosePath)
	w.wantIdentity(attacker, 0)
	sessions, err := w.module.Administration().UserSessions(t.Context(), id)
	if err != nil || len(sessions) != 1 {
		t.Errorf("got the sessions %+v, error %v; want the victim's", sessions, err)
	}
}

// Someone registers with the victim's address, does not confirm it, and waits for the victim to
// come from the provider (GHSA-pq7p-mc74-g65w, GHSA-6g38-8j4p-j3pr).
func TestSignIn_WaitingAccountGetsNoIdentity(t *testing.T) {
	w := newWorld(t)
	victim, attacker := name("victim"), name("attacker")
	email := victim + "@example.com"
	waiting := w.register(attacker, email, false)

	mallory := w.browser() // the attacker's own identity does not get into the account, either
	w.provider.is(attacker, "attacker@provider.example")
	mallory.get(startPath)
	mallory.signIn(attacker, linkPath)
	mallory.want(200, linkPath)
	mallory.post(linkPath, nil)
	mallory.want(403, linkPath)
	w.wantIdentity(attacker, 0)

	w.provider.is(victim, email)
	b := w.browser()
	b.get(startPath)
	b.want(200, choosePath)
	b.wantSignedIn("")
	b.get(choosePath)
	b.post(choosePath, url.Values{"login": {victim}, "email": {email}})
	b.want(409, choosePath)
	w.wantIdentity(victim, 0)

	// The owner of the address takes the account, and the attacker is out.
	if err := w.module.Service().Recover(t.Context(), personal.RecoverRequest{Email: email}); err != nil {
		t.Fatal(err)
	}
	_, err := w.module.Service().RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
		Token: w.token(email, "Set a new password"), Password: password + "!", ConfirmPassword: password + "!",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.module.Service().Profile(t.Context(), waiting); personal.CodeOf(err) != personal.CodeUnauthenticated {
		t.Errorf("the attacker's session: got %v", err)
	}
	if _, err := w.module.Service().Authorize(t.Context(), personal.AuthorizeRequest{Login: attacker,
		Password: password}); personal.CodeOf(err) != personal.CodeInvalidCredentials {
		t.Errorf("the attacker's password: got %v", err)
	}
}
