package personaloidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personaloidc"
	"github.com/cms-personal/personal/shared/personalpages"
)

// two returns a world with a second provider, "other".
func two(t *testing.T) (*world, *fakeProvider) {
	w := newWorld(t)
	other := newFakeProvider(t)
	w.mount(personalpages.Config{}, w.registered(), personaloidc.Provider{Name: "other", Issuer: other.url, ClientID: clientID})
	return w, other
}

func TestProviders_SubjectOfAnotherIssuerIsSomeoneElse(t *testing.T) {
	w, other := two(t)
	subject := name("subject")
	w.linked(name("ada"), subject)
	other.is(subject, "")
	b := w.browser()
	b.get("/account/providers/other")
	b.want(200, choosePath)
	b.wantSignedIn("")
}

// The response of one provider is of no use at the other's callback (RFC 9700, section 4.4).
func TestProviders_MixedUp(t *testing.T) {
	w, other := two(t)
	login := name("ada")
	w.linked(login, login)
	other.is(login, "")
	b := w.browser()
	response := b.response()
	b.get(strings.Replace(response, "/example/callback", "/other/callback", 1))
	b.want(400, "/account/providers/other/callback")
	if other.asked["/token"] != 0 {
		t.Error("the other provider got the code")
	}
	b.get(response + "&iss=" + url.QueryEscape(other.url))
	b.want(400, callbackPath)
	b.wantSignedIn("")
}

// A provider that responds with another issuer than the one that the site has registered.
func TestProvider_ThatChangesItsIssuer(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.linked(login, login)
	w.provider.metadata["issuer"] = "https://victim.example"
	w.mount(personalpages.Config{}, w.registered())
	b := w.browser()
	b.get(startPath)
	b.want(503, startPath, "Example ID is not responding")
}

// The site serves while the provider is down, says so, and signs in when it is back.
func TestProvider_ThatIsDown(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.linked(login, login)
	var down bool
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if down {
			http.Error(rw, "no", http.StatusBadGateway)
			return
		}
		w.provider.ServeHTTP(rw, r)
	}))
	defer server.Close()
	w.provider.url = server.URL
	w.provider.SetIssuer(server.URL)
	w.mount(personalpages.Config{}, w.registered())
	b := w.browser()
	response := b.response()
	down = true
	b.get(response)
	b.want(503, callbackPath, "Example ID is not responding", "/account/sign-in")
	w.mount(personalpages.Config{}, w.registered())
	b.get(startPath)
	b.want(503, startPath, "Example ID is not responding")
	b.get("/account/sign-in")
	b.want(200, "/account/sign-in", "Continue with Example ID")
	b.signIn(login, "/account")
	b.want(200, "/account")
}

func TestProvider_WhereTheUserDoesNotSignIn(t *testing.T) {
	w := newWorld(t)
	w.provider.refuses = true
	b := w.browser()
	b.get(startPath + "?next=/account/sessions")
	b.want(400, callbackPath, "You did not complete the sign-in at Example ID.", "/account/sign-in?next=%2Faccount%2Fsessions")
}

// Clocks differ by some seconds; keys are replaced.
func TestProvider_ClocksAndKeys(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.linked(login, login)
	w.provider.alter = func(claims map[string]any) { claims["exp"] = time.Now().Add(-30 * time.Second).Unix() }
	b := w.browser()
	b.get(startPath)
	b.want(200, "/account")

	w.provider.alter = nil
	w.mount(personalpages.Config{}, w.registered()) // a minute later, for the site
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w.provider.key = key
	w.provider.PublicKeys = []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: keyID, Algorithm: oidc.ES256}}
	b.get(startPath)
	b.want(200, "/account")
}

// A provider that has said that it names itself in each response is held to it (RFC 9207).
func TestProvider_ThatNamesItself(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.linked(login, login)
	w.provider.metadata["authorization_response_iss_parameter_supported"] = true
	w.mount(personalpages.Config{}, w.registered())
	b := w.browser()
	b.get(startPath)
	b.want(400, callbackPath)
	w.provider.adds = url.Values{"iss": {w.provider.url}}
	b.get(startPath)
	b.want(200, "/account")
}

// User info fills in the form, if it is about the same user.
func TestProvider_UserInfo(t *testing.T) {
	w := newWorld(t)
	w.provider.metadata["userinfo_endpoint"] = w.provider.url + "/info"
	w.mount(personalpages.Config{}, w.registered())
	subject := name("ada")
	w.provider.is(subject, "")
	for condition, test := range map[string]struct {
		sub, shown string
	}{"the same user": {subject, "info@example.com"}, "another user": {"else", `name="email" type="email" value=""`}} {
		w.provider.info = map[string]any{"sub": test.sub, "email": "info@example.com", "email_verified": true, "name": "Ada"}
		b := w.browser()
		b.get(startPath)
		b.want(200, choosePath)
		if !strings.Contains(b.page, test.shown) {
			t.Errorf("%s: the page does not have %q:\n%s", condition, test.shown, b.page)
		}
	}
}

// The browser sends no cookies that are Strict when it comes from the provider, so those of the user before are
// deleted without having been sent.
func TestCallback_DeletesWhatItIsNotSent(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.linked(login, login)
	w.provider.alter = func(claims map[string]any) { delete(claims, "auth_time") }
	b := w.browser()
	response, err := url.Parse(b.response())
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", response.RequestURI(), nil)
	for _, c := range b.client.Jar.Cookies(response) {
		if c.Name == "sign_in_attempts" {
			r.AddCookie(c)
		}
	}
	rw := httptest.NewRecorder()
	(*w.pages.Load()).ServeHTTP(rw, r)
	last := map[string]*http.Cookie{}
	for _, c := range rw.Result().Cookies() {
		last[c.Name] = c
	}
	for _, name := range []string{"proof", "sign_in"} {
		if last[name] == nil || last[name].MaxAge >= 0 {
			t.Errorf("the cookie %s is not deleted: %v", name, last[name])
		}
	}
	if last["account"] == nil || last["account"].Value == "" {
		t.Error("there is no session")
	}
}

// Another node, or the same after a restart, goes on with what a browser has started.
func TestSignIn_GoesOnOnAnotherNode(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.provider.is(login, "")
	b := w.browser()
	response := b.response()
	w.mount(personalpages.Config{}, w.registered())
	b.get(response)
	b.want(200, choosePath)
	w.mount(personalpages.Config{}, w.registered())
	b.post(choosePath, url.Values{"login": {login}, "email": {login + "@example.com"}})
	b.want(200, "/account", login)
}

// Visitors take no room at the site, and cost the provider nothing, until they come back.
func TestStart_AHundredTimes(t *testing.T) {
	w := newWorld(t)
	handler := *w.pages.Load()
	for range 100 {
		r := httptest.NewRequest("GET", startPath, nil)
		r.Host = strings.TrimPrefix(w.server.URL, "http://")
		rw := httptest.NewRecorder()
		handler.ServeHTTP(rw, r)
		if rw.Code != http.StatusSeeOther || !strings.HasPrefix(rw.Header().Get("Location"), w.provider.url) {
			t.Fatalf("got %d to %s: %s", rw.Code, rw.Header().Get("Location"), rw.Body)
		}
	}
	if got := w.provider.asked; len(got) != 1 || got["/.well-known/openid-configuration"] != 1 {
		t.Errorf("the provider was asked %v, want once for its metadata", got)
	}
	login := name("ada")
	w.provider.is(login, "")
	b := w.browser()
	b.get(startPath)
	b.want(200, choosePath)
}

// Pages of other sites, and their pictures, start nothing, and push out nothing.
func TestStart_FromAnotherSite(t *testing.T) {
	w := newWorld(t)
	w.provider.is(name("ada"), "")
	for condition, header := range map[string]map[string]string{
		"a link":        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
		"a picture":     {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
		"a script":      {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
		"a fetch ahead": {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Purpose": "prefetch;prerender"},
		"HEAD":          {},
	} {
		method := "GET"
		if condition == "HEAD" {
			method = "HEAD"
		}
		r := httptest.NewRequest(method, startPath+"?next=/account/data", nil)
		for name, value := range header {
			r.Header.Set(name, value)
		}
		rw := httptest.NewRecorder()
		(*w.pages.Load()).ServeHTTP(rw, r)
		if rw.Header().Get("Location") != "/account/sign-in?next=%2Faccount%2Fdata" || rw.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s: got %d to %s with the cookie %s, want the page to sign in, and none", condition, rw.Code, rw.Header().Get("Location"), rw.Header().Get("Set-Cookie"))
		}
	}
}

// All cookies together fit into a line of 8 KiB, which proxies accept (else the visitor gets 431).
func TestCookies_FitIntoARequest(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("ж", 120)
	login := name("ada")
	w.provider.is(login, "")
	w.provider.alter = func(claims map[string]any) {
		claims["name"], claims["email"], claims["picture"] = long, strings.Repeat("e", 200)+"@example.com", strings.Repeat("x", 1500)
		claims["sid"] = strings.Repeat("s", 256)
	}
	b := w.browser()
	next := "?next=" + url.QueryEscape("/account/data?"+strings.Repeat("<", 150))
	get := func(path string) string {
		return b.responseTo(func() (*http.Response, error) { return b.client.Get(b.absolute(path)) })
	}
	first := get(startPath + next)
	for range 3 {
		get(startPath + next)
	}
	b.get(first)
	b.want(200, choosePath)
	get(startPath + next)
	b.post(choosePath, url.Values{"login": {login}, "email": {login + "@example.com"}})
	b.want(200, "/account/data")
	for range 5 {
		get(startPath + next)
	}
	u, _ := url.Parse(b.server.URL)
	size := 0
	for _, c := range b.client.Jar.(*cookiejar.Jar).Cookies(u) {
		size += len(c.Name) + len(c.Value) + len("__Host-=; ")
		if len(c.Value) > 4000 {
			t.Errorf("the cookie %s has %d bytes", c.Name, len(c.Value))
		}
	}
	if size > 8<<10 {
		t.Errorf("got %d bytes of cookies, want 8 KiB at most", size)
	}
	b.get(get(startPath))
	b.want(200, "/account")
}

// loggedOut sends a logout token as the provider's server does.
func (w *world) loggedOut(token string) int {
	w.t.Helper()
	response, err := http.PostForm(w.server.URL+signOutPath, url.Values{"logout_token": {token}})
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	if response.Header.Get("Cache-Control") != "no-store" {
		w.t.Error("the response may be stored")
	}
	return response.StatusCode
}

func (w *world) logoutToken(subject string, change map[string]any) string {
	now := time.Now()
	claims := map[string]any{
		"iss": w.provider.url, "aud": clientID, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "jti": rand.Text(), "sub": subject,
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return w.provider.sign(claims)
}

func TestSignedOut_EndsTheSessionsOfTheIdentity(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	id := w.linked(login, login)
	withPassword := w.browser()
	withPassword.signIn(login, "/account")
	in := func(session string) *browser {
		w.provider.alter = func(claims map[string]any) { claims["sid"] = session }
		b := w.browser()
		b.get(startPath)
		b.want(200, "/account")
		return b
	}
	one, two := in("one"), in("two")
	token := w.logoutToken(login, map[string]any{"sid": "one"})
	if got := w.loggedOut(token); got != 200 {
		t.Fatalf("got %d, want 200", got)
	}
	one.wantSignedIn("")
	two.wantSignedIn(login)
	one = in("one")
	if got := w.loggedOut(token); got != 400 { // again
		t.Errorf("a token that was used: got %d, want 400", got)
	}
	one.wantSignedIn(login)
	for condition, change := range map[string]map[string]any{
		"another issuer": {"iss": "https://other.example"}, "another audience": {"aud": "other"},
		"issued an hour ago": {"iat": time.Now().Add(-time.Hour).Unix()}, "issued in an hour": {"iat": time.Now().Add(time.Hour).Unix()},
		"expired": {"exp": time.Now().Add(-time.Hour).Unix()}, "with a nonce": {"nonce": "x"}, "without events": {"events": nil},
		"without an id": {"jti": nil}, "without a user": {"sub": nil, "sid": "one"},
	} {
		if got := w.loggedOut(w.logoutToken(login, change)); got != 400 {
			t.Errorf("%s: got %d, want 400", condition, got)
		}
	}
	if got := w.loggedOut("no token"); got != 400 {
		t.Errorf("no token: got %d, want 400", got)
	}
	one.wantSignedIn(login)
	if got := w.loggedOut(w.logoutToken(login, nil)); got != 200 {
		t.Fatalf("all: got %d, want 200", got)
	}
	one.wantSignedIn("")
	two.wantSignedIn("")
	withPassword.wantSignedIn(login)
	if got := w.loggedOut(w.logoutToken(name("stranger"), nil)); got != 200 {
		t.Errorf("a user without an account: got %d, want 200", got)
	}
	w.wantIdentity(login, id)
}

// Anyone can send tokens with unknown keys: the provider is asked for its keys once a minute at most.
func TestSignedOut_FloodOfUnknownKeys(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.linked(login, login)
	before := w.provider.asked["/keys"]
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	known := w.provider.key
	w.provider.key = stranger
	for range 100 {
		if got := w.loggedOut(w.logoutToken(login, nil)); got != 400 {
			t.Fatalf("got %d, want 400", got)
		}
	}
	if got := w.provider.asked["/keys"] - before; got > 1 {
		t.Errorf("the provider was asked for its keys %d times, want once at most", got)
	}
	w.provider.key = known
	if got := w.loggedOut(w.logoutToken(login, map[string]any{"aud": "other"})); got != 400 {
		t.Errorf("a wrong token after the flood: got %d, want 400", got)
	}
	b := w.browser()
	b.get(startPath)
	b.want(200, "/account")
}

// After a sign-out the browser is still signed in at the provider, whose page ends that.
func TestSignOut_OffersThatOfTheProvider(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.linked(login, login)
	b := w.browser()
	b.get(startPath)
	b.post("/account/sign-out", nil)
	b.want(200, "/account/sign-out", "You are still signed in at Example ID", "Sign out at Example ID, too",
		w.provider.url+"/end?client_id=example&amp;id_token_hint=", "post_logout_redirect_uri="+url.QueryEscape(w.server.URL+"/"))
	w.provider.alter = func(claims map[string]any) { claims["picture"] = strings.Repeat("x", 5000) }
	long := w.browser()
	long.get(startPath)
	long.post("/account/sign-out", nil)
	if !strings.Contains(long.page, "/end?client_id=example&amp;post_logout") {
		t.Errorf("a token that is too long for a cookie: want the provider's page without a hint:\n%s", long.page)
	}
	w.provider.metadata["end_session_endpoint"], w.provider.alter = "", nil
	w.mount(personalpages.Config{}, w.registered())
	without, early := w.browser(), w.browser()
	without.get(startPath)
	early.get(startPath)
	without.post("/account/sign-out", nil)
	without.want(200, "/account/sign-out", "You are still signed in at Example ID")
	if strings.Contains(without.page, "Sign out at") {
		t.Error("a provider without such a page: it is offered")
	}
	without.wantSignedIn("")
	without.post("/account/sign-out", nil)
	without.want(200, "/") // it is said once

	// The next user's sign-out does not name the one before to the provider.
	w.provider.metadata["end_session_endpoint"] = w.provider.url + "/end"
	w.mount(personalpages.Config{}, w.registered())
	early.post("/account/sign-out", nil)
	if !strings.Contains(early.page, "/end?client_id=example&amp;post_logout") {
		t.Errorf("a token of a time without such a page: want it not kept:\n%s", early.page)
	}
	next := name("next")
	w.register(next, next+"@example.com", true)
	kiosk := w.browser()
	kiosk.get(startPath)
	kiosk.signIn(next, "/account")
	kiosk.post("/account/sign-out", nil)
	kiosk.want(200, "/account/sign-out", "Sign out at Example ID, too")
	if strings.Contains(kiosk.page, "id_token_hint") {
		t.Errorf("the page has the token of another user:\n%s", kiosk.page)
	}
}

// A provider that only posts its response.
func TestCallback_ThatIsPosted(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.linked(login, login)
	b := w.browser()
	response, err := url.Parse(b.response())
	if err != nil {
		t.Fatal(err)
	}
	form := response.Query()
	form.Set("user", `{"name":"Mallory"}`)
	r := httptest.NewRequest("POST", callbackPath, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	r.Header.Set("Origin", "https://provider.example")
	rw := httptest.NewRecorder()
	(*w.pages.Load()).ServeHTTP(rw, r)
	to := rw.Header().Get("Location")
	if rw.Code != 303 || !strings.HasPrefix(to, callbackPath+"?code=") || strings.Contains(to, "user") || rw.Header().Get("Set-Cookie") != "" {
		t.Fatalf("got %d to %s, cookie %q; want 303 to the same path with code and state alone", rw.Code, to, rw.Header().Get("Set-Cookie"))
	}
	b.get(to)
	b.want(200, "/account")
	for _, path := range []string{startPath, linkPath, "/account/providers"} {
		r := httptest.NewRequest("POST", path, nil)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		rw := httptest.NewRecorder()
		(*w.pages.Load()).ServeHTTP(rw, r)
		if rw.Code != 403 {
			t.Errorf("a post from another site to %s: got %d, want 403", path, rw.Code)
		}
	}
}

// A session that an administrator's reset has ended is not opened by the provider either.
func TestSignIn_SaysWhyTheAccountIsRefused(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	id := w.linked(login, login)
	if err := w.module.Administration().DisableUser(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b := w.browser()
	b.get(startPath)
	b.want(403, callbackPath, "disabled")
	b.wantSignedIn("")
	if err := w.module.Administration().EnableUser(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := w.module.Administration().UnlinkIdentity(t.Context(), personal.UnlinkIdentityRequest{
		Identity: personal.Identity{Issuer: w.provider.url, Subject: login}, UserID: id,
	}); err != nil {
		t.Fatal(err)
	}
	b.get(startPath)
	b.want(200, choosePath)
}
