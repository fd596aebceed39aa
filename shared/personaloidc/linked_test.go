package personaloidc_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalpages"
)

// byProvider registers a user without a password, and returns their browser.
func (w *world) byProvider(login string) (*browser, int64) {
	w.t.Helper()
	w.provider.is(login, "")
	b := w.browser()
	b.get(startPath)
	b.post(choosePath, url.Values{"login": {login}, "email": {login + "@example.com"}})
	b.want(200, "/account")
	id, err := w.module.Administration().FindIdentity(w.t.Context(), personal.Identity{Issuer: w.provider.url, Subject: login})
	if err != nil {
		w.t.Fatal(err)
	}
	return b, id
}

// confirm confirms the e-mail of a registration.
func (w *world) confirm(login, email string) {
	w.t.Helper()
	if _, err := w.module.Service().ConfirmEmail(w.t.Context(), personal.ConfirmEmailRequest{Token: w.token(email, "Confirm that"), Login: login}); err != nil {
		w.t.Fatal(err)
	}
}

func TestLinked_ListsLinksAndUnlinks(t *testing.T) {
	w := newWorld(t)
	login, subject := name("ada"), name("subject")
	id := w.register(login, login+"@example.com", true).UserID
	w.provider.is(subject, "ada@provider.example")
	b := w.browser()
	b.signIn(login, linkedPath)
	b.want(200, linkedPath, "No sign-in is linked yet.", "Link Example ID")
	b.post(addPath, nil)
	b.want(200, linkPath, "anyone who signs in as "+subject+" (ada@provider.example) at Example ID can sign in here as "+login)
	w.wantIdentity(subject, 0)
	b.post(linkPath, nil)
	b.want(200, linkedPath, "Your account is now linked.", "Example ID")
	w.wantIdentity(subject, id)

	_, remove, _ := strings.Cut(b.page, linkedPath+"/remove?id=")
	remove, _, _ = strings.Cut(remove, `"`)
	remove = linkedPath + "/remove?id=" + remove
	b.forget("proof")
	b.get(remove)
	b.want(200, "/account/confirm")
	b.post("/account/confirm?next="+url.QueryEscape(remove), url.Values{"password": {password}})
	b.want(200, linkedPath+"/remove")
	b.post(remove, nil)
	b.want(200, linkedPath, "The link is removed.", "No sign-in is linked yet.")
	w.wantIdentity(subject, 0)
	b.get(remove)
	b.want(404, linkedPath+"/remove")
}

// What must not link anything, although the visitor has a proof and posts the form.
func TestLink_NeedsTheConsentOfWhoBeganIt(t *testing.T) {
	for condition, do := range map[string]func(w *world, b *browser, login string){
		"the visitor does not want it": func(_ *world, b *browser, login string) {
			b.get(startPath)
			b.signIn(login, linkPath)
			b.post("/account/linked/cancel", nil)
		},
		"the visitor signs in on another page": func(_ *world, b *browser, login string) {
			b.get(startPath)
			b.signIn(login, "/account")
		},
		"a visitor registers on another page": func(_ *world, b *browser, login string) {
			b.get(startPath)
			other := name("other")
			b.post("/account/register", url.Values{"login": {other}, "email": {other + "@example.com"}, "password": {password}, "confirm_password": {password}})
			b.want(200, "/account")
			b.signIn(login, linkPath)
		},
		"the visitor signs out": func(_ *world, b *browser, login string) {
			b.get(startPath)
			b.signIn(login, linkPath)
			b.post("/account/sign-out", nil)
			b.signIn(login, linkPath)
		},
		"another user has started it in this browser": func(w *world, b *browser, login string) {
			other := name("other")
			w.register(other, other+"@example.com", true)
			b.signIn(other, linkedPath)
			response := b.responseTo(func() (*http.Response, error) {
				return b.client.PostForm(b.absolute(addPath), nil)
			})
			b.signIn(login, linkedPath)
			b.get(response)
		},
		"someone else waits in another browser": func(w *world, b *browser, login string) {
			w.browser().get(startPath)
			b.signIn(login, linkPath)
		},
	} {
		t.Run(condition, func(t *testing.T) {
			w := newWorld(t)
			login, subject := name("ada"), name("subject")
			w.register(login, login+"@example.com", true)
			w.provider.is(subject, "")
			b := w.browser()
			do(w, b, login)
			b.post(linkPath, nil)
			b.want(200, linkedPath)
			w.wantIdentity(subject, 0)
		})
	}
}

func TestLink_InTwoTabs(t *testing.T) {
	w := newWorld(t)
	login, subject := name("ada"), name("subject")
	id := w.register(login, login+"@example.com", true).UserID
	w.provider.is(subject, "")
	b := w.browser()
	b.signIn(login, linkedPath)
	add := func() string {
		return b.responseTo(func() (*http.Response, error) {
			return b.client.PostForm(b.absolute(addPath), nil)
		})
	}
	first, second := add(), add()
	b.get(first)
	b.get(second)
	b.want(200, linkPath)
	b.post(linkPath, nil)
	b.want(200, linkedPath)
	w.wantIdentity(subject, id)
	b.post(linkPath, nil) // in the other tab
	b.want(200, linkedPath)
	b.get(second)
	b.want(400, callbackPath)

	// A form that was shown for one user of the provider does not link another one.
	third, fourth := name("subject"), name("subject")
	w.provider.is(third, "")
	b.get(add())
	b.want(200, linkPath, third)
	shown := url.Values{"for": {forWhom.FindStringSubmatch(b.page)[1]}}
	w.provider.is(fourth, "")
	b.get(add())
	b.post(linkPath, shown)
	b.want(200, linkPath, fourth)
	w.wantIdentity(third, 0)
	w.wantIdentity(fourth, 0)
}

// A form that was shown to one user of the site does not link another one's account.
func TestLink_FormOfAnotherUser(t *testing.T) {
	w := newWorld(t)
	one, two, subject := name("one"), name("two"), name("subject")
	w.register(one, one+"@example.com", true)
	w.register(two, two+"@example.com", true)
	w.provider.is(subject, "")
	b := w.browser()
	b.get(startPath)
	b.signIn(one, linkPath)
	b.want(200, linkPath, one)
	shown := url.Values{"for": {forWhom.FindStringSubmatch(b.page)[1]}}
	b.signIn(two, linkPath) // in another tab
	b.post(linkPath, shown)
	b.want(200, linkPath, two)
	w.wantIdentity(subject, 0)
}

// Nor does a form to register by one register another.
func TestRegister_InTwoTabs(t *testing.T) {
	w := newWorld(t)
	one, two := name("one"), name("two")
	w.provider.is(one, "")
	b := w.browser()
	b.get(startPath)
	b.want(200, choosePath, one)
	shown := url.Values{"for": {forWhom.FindStringSubmatch(b.page)[1]}, "login": {one}, "email": {one + "@example.com"}}
	w.provider.is(two, "")
	b.get(startPath)
	b.post(choosePath, shown)
	b.want(200, choosePath, two)
	w.wantIdentity(one, 0)
	w.wantIdentity(two, 0)
}

// The next visitor of a kiosk is not offered the account of the one before.
func TestChoose_ThisIsNotMe(t *testing.T) {
	w := newWorld(t)
	w.provider.is(name("ada"), "")
	b := w.browser()
	b.get(startPath)
	b.want(200, choosePath, "this is not me")
	b.post("/account/linked/cancel", nil)
	b.get(choosePath)
	b.want(200, "/account/sign-in")
}

// What another account has is not linked, and the page says what to do.
func TestLink_WhatAnotherAccountHas(t *testing.T) {
	w := newWorld(t)
	subject, login := name("subject"), name("ada")
	id := w.linked(name("grace"), subject)
	w.register(login, login+"@example.com", true)
	b := w.browser()
	b.signIn(login, linkedPath)
	b.post(addPath, nil)
	b.post(linkPath, nil)
	b.want(409, linkPath, "is already linked with another account here")
	w.wantIdentity(subject, id)
}

// A user without a password does what needs a proof, and it is the provider that asks them.
func TestProve_ByTheProvider(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	b, id := w.byProvider(login)
	b.forget("proof")
	b.get("/account/delete")
	b.want(200, "/account/confirm", "Confirm at Example ID")
	b.post("/account/confirm/at/example?next=/account/delete", nil)
	b.want(200, "/account/delete")
	request := w.provider.requests[len(w.provider.requests)-1]
	if request.Get("max_age") != "0" || request.Get("prompt") != "login" {
		t.Errorf("got the request %v, want max_age=0 and prompt=login", request)
	}
	b.post("/account/delete", nil)
	b.want(200, "/")
	user, err := w.module.Administration().User(t.Context(), id)
	if err != nil || user.EraseAt.IsZero() {
		t.Errorf("got %+v, %v; want an account that is to be erased", user.User, err)
	}
}

// What is no proof, although the user comes back from the provider.
func TestProve_IsRefused(t *testing.T) {
	prove := func(b *browser) { b.post("/account/confirm/at/example?next=/account/delete", nil) }
	for condition, test := range map[string]struct {
		do   func(w *world, b *browser)
		says string
	}{
		"the provider has not asked": {do: func(w *world, b *browser) {
			w.provider.alter = func(claims map[string]any) { claims["auth_time"] = time.Now().Add(-5 * time.Minute).Unix() }
			prove(b)
		}, says: "did not ask you to sign in again"},
		"the provider does not say when": {do: func(w *world, b *browser) {
			w.provider.alter = func(claims map[string]any) { delete(claims, "auth_time") }
			prove(b)
		}, says: "did not ask you to sign in again"},
		"in the future": {do: func(w *world, b *browser) {
			w.provider.alter = func(claims map[string]any) { claims["auth_time"] = time.Now().Add(5 * time.Minute).Unix() }
			prove(b)
		}, says: "did not ask you to sign in again"},
		"another user of the provider": {do: func(w *world, b *browser) {
			w.provider.is(name("else"), "")
			prove(b)
		}, says: "that is not linked with your account here"},
		"another user of the site since": {do: func(w *world, b *browser) {
			response := b.responseTo(func() (*http.Response, error) {
				return b.client.PostForm(b.absolute("/account/confirm/at/example"), nil)
			})
			other := name("other")
			w.register(other, other+"@example.com", true)
			b.signIn(other, "/account")
			b.forget("proof")
			b.get(response)
		}, says: "Please start again"},
		"to sign in": {do: func(w *world, b *browser) { // with a session at the provider
			w.provider.alter = func(claims map[string]any) { claims["auth_time"] = time.Now().Add(-6 * time.Minute).Unix() }
			b.get(startPath)
		}, says: login},
	} {
		t.Run(condition, func(t *testing.T) {
			w := newWorld(t)
			b, _ := w.byProvider(name(login))
			b.forget("proof")
			test.do(w, b)
			if !strings.Contains(b.page, test.says) {
				t.Errorf("the page does not say %q:\n%s", test.says, b.page)
			}
			b.get("/account/delete")
			b.want(200, "/account/confirm")
		})
	}
}

const login = "prover"

// Where the provider does not say when it has asked, it is not offered as a proof.
func TestProve_IsOfferedWhereTheProviderSaysWhen(t *testing.T) {
	w := newWorld(t)
	w.provider.metadata["claims_supported"] = []string{"sub"}
	b, _ := w.byProvider(name("ada"))
	b.forget("proof")
	b.get("/account/confirm?next=/account/delete")
	if strings.Contains(b.page, "Confirm at") {
		t.Errorf("the page offers the provider:\n%s", b.page)
	}
	p := w.registered()
	p.AuthTime = true
	w.mount(personalpages.Config{}, p)
	b.get("/account/confirm?next=/account/delete")
	b.want(200, "/account/confirm", "Confirm at Example ID")

	w.register("unlinked", "unlinked@example.com", true)
	other := w.browser()
	other.signIn("unlinked", "/account/confirm")
	if strings.Contains(other.page, "Confirm at") {
		t.Error("the provider is offered to a user who has no identity there")
	}
}

// The last way in to an account is not removed.
func TestUnlink_LastWayIn(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	b, id := w.byProvider(login)
	b.get(linkedPath)
	_, remove, _ := strings.Cut(b.page, linkedPath+"/remove?id=")
	remove, _, _ = strings.Cut(remove, `"`)
	remove = linkedPath + "/remove?id=" + remove
	b.post(remove, nil)
	b.want(409, linkedPath+"/remove")
	w.wantIdentity(login, id)
	w.confirm(login, login+"@example.com")
	b.post(remove, nil)
	b.want(200, "/account/sign-in") // it began the session
	w.wantIdentity(login, 0)
}
