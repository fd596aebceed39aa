package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalhttp/personalhttptest"
)

// module is that of all tests, with a plugin built from this source.
var module *personalhost.Module

var mails = &personaltest.Host{}

// refuses says that the site's admission refuses everyone.
var refuses atomic.Bool

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		plugin := filepath.Join(dir, "personal")
		if out, err := exec.Command("go", "build", "-C", "../../..", "-o", plugin, "./plugin").CombinedOutput(); err != nil {
			panic(string(out))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		module, err = personalhost.Open(ctx, personalhost.Config{
			Data: filepath.Join(dir, "data"), Plugin: plugin, Host: mails, Log: slog.New(slog.DiscardHandler),
			Admission: &personal.Admission{Judge: func(context.Context, personal.AdmissionRequest) error {
				if refuses.Load() {
					return personal.Refuse(personal.LocalText{"en": "Not you."})
				}
				return nil
			}},
			Settings: func() ([]byte, error) { return []byte("[two_factor]\nenabled = true\n"), nil },
		})
		if err != nil {
			panic(err)
		}
		defer module.Close()
		return m.Run()
	}())
}

func TestMount(t *testing.T) {
	personalhttptest.Run(t, func(service personal.Service) http.Handler {
		api, err := personalhttp.New(service, personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return site(api, http.NotFoundHandler(), http.NotFoundHandler())
	}, personalhttptest.WithGuardedPage("/app/hello"))
}

// world is a site and a provider.
type world struct {
	t        *testing.T
	provider *fakeProvider
	url      string // of the site
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, provider: newFakeProvider(t)}
	w.serve(provider{name: "Example ID", issuer: w.provider.url, client: clientID})
	return w
}

// serve serves the site that is registered at a provider.
func (w *world) serve(p provider) {
	w.t.Helper()
	server := httptest.NewUnstartedServer(nil)
	w.url = "http://" + server.Listener.Addr().String()
	p.callback = w.url + callbackPath
	handler, err := newSite(module, p)
	if err != nil {
		w.t.Fatal(err)
	}
	server.Config.Handler = handler
	server.Start()
	w.t.Cleanup(server.Close)
}

// browser is a visitor's.
type browser struct {
	*world
	client http.Client
	at     string // the path of the last page
	page   string
	status int
}

func (w *world) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return &browser{world: w, client: http.Client{Jar: jar, Timeout: 30 * time.Second}}
}

// get follows redirects, also to the provider and back.
func (b *browser) get(path string) {
	b.t.Helper()
	b.read(b.client.Get(b.absolute(path)))
}

func (b *browser) post(path string, form url.Values) {
	b.t.Helper()
	b.read(b.client.PostForm(b.absolute(path), form))
}

func (b *browser) absolute(path string) string {
	if strings.HasPrefix(path, "http") {
		return path
	}
	return b.url + path
}

func (b *browser) read(response *http.Response, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	b.at, b.page, b.status = response.Request.URL.Path, string(page), response.StatusCode
}

// want checks which page the browser shows.
func (b *browser) want(status int, path string) {
	b.t.Helper()
	if b.status != status || b.at != path {
		b.t.Fatalf("got %d at %s, want %d at %s:\n%s", b.status, b.at, status, path, b.page)
	}
}

// response goes to the provider, and returns the URL to which that leads back.
func (b *browser) response() string {
	b.t.Helper()
	b.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == callbackPath {
			return http.ErrUseLastResponse
		}
		return nil
	}
	defer func() { b.client.CheckRedirect = nil }()
	response, err := b.client.Get(b.url + startPath)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.Header.Get("Location")
}

// wantSignedIn checks whether the browser has a session.
func (b *browser) wantSignedIn(login string) {
	b.t.Helper()
	b.get("/account")
	if login == "" {
		b.want(200, "/account/sign-in")
		return
	}
	b.want(200, "/account")
	if !strings.Contains(b.page, login) {
		b.t.Fatalf("the account page does not show %s:\n%s", login, b.page)
	}
}

var users atomic.Int64

// name returns a login that no account has.
func name(prefix string) string { return fmt.Sprintf("%s%d", prefix, users.Add(1)) }

const password = "wave goodbye twice"

// register registers an account with a password, and returns its session. The e-mail is confirmed
// if verify is set.
func (w *world) register(login, email string, verify bool) personal.Credentials {
	w.t.Helper()
	in, err := module.Service().Register(w.t.Context(), personal.RegisterRequest{Login: login, Password: password, ConfirmPassword: password,
		Email: email})
	if err != nil {
		w.t.Fatal(err)
	}
	if verify {
		if _, err := module.Service().ConfirmEmail(w.t.Context(), personal.ConfirmEmailRequest{Token: w.token(email,
			"Confirm that")}); err != nil {
			w.t.Fatal(err)
		}
	}
	return in.Credentials
}

var tokenLine = regexp.MustCompile(`(?m)^([A-Za-z0-9_-]{43})\r?$`)

// token returns that of the mail to an address whose subject begins with a text.
func (w *world) token(email, subject string) string {
	w.t.Helper()
	if found := tokenLine.FindStringSubmatch(w.mail(email, subject)); found != nil {
		return found[1]
	}
	w.t.Fatalf("the mail to %s has no token", email)
	return ""
}

// mail returns the text of the mail to an address whose subject begins with a text.
func (w *world) mail(email, subject string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	for n := 1; ; n++ {
		all, err := mails.AwaitMails(ctx, n)
		if err != nil {
			w.t.Fatalf("no mail to %s: %v", email, err)
		}
		n = len(all)
		for _, m := range all {
			if m.To == email && strings.HasPrefix(m.Subject, subject) {
				return m.Text
			}
		}
	}
}

// wantIdentity checks whose identity a subject of the provider is; 0 for none.
func (w *world) wantIdentity(subject string, want int64) {
	w.t.Helper()
	id, err := module.Administration().FindIdentity(w.t.Context(), personal.Identity{Issuer: w.provider.url, Subject: subject})
	if want == 0 && personal.CodeOf(err) == personal.CodeNotFound {
		return
	}
	if err != nil || id != want {
		w.t.Fatalf("got user %d, error %v; want user %d", id, err, want)
	}
}

func TestSignOn_NewUserRegistersOnce(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.provider.is(login, login+"@provider.example")
	b := w.browser()
	b.get(startPath)
	b.want(200, choosePath)
	if !strings.Contains(b.page, `value="`+login+`@provider.example"`) {
		t.Errorf("the form is not filled in:\n%s", b.page)
	}
	b.wantSignedIn("")
	b.post(registerPath, url.Values{"login": {login}, "email": {login + "@example.com"}})
	b.want(200, "/account")
	b.wantSignedIn(login)
	id, err := module.Administration().FindIdentity(t.Context(), personal.Identity{Issuer: w.provider.url, Subject: login})
	if err != nil {
		t.Fatal(err)
	}
	user, err := module.Administration().User(t.Context(), id)
	if err != nil || user.Login != login || user.EmailVerified {
		t.Errorf("got %+v, error %v; want %s with an e-mail that is not verified", user.User, err, login)
	}
	w.token(login+"@example.com", "Confirm that")
	b.get(choosePath)
	b.want(400, choosePath) // the attempt is over

	b = w.browser()
	b.get(startPath + "?next=/account/sessions")
	b.want(200, "/account/sessions")
	sessions, err := module.Administration().UserSessions(t.Context(), id)
	if err != nil || len(sessions) != 2 || sessions[0].Method != method {
		t.Errorf("got the sessions %+v, error %v; want two by %s", sessions, err, method)
	}
	b.get(startPath + "?next=https://evil.example/")
	b.want(200, "/account")
}

func TestSignOn_AdmissionDecidesWhoRegisters(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.provider.is(login, "")
	b := w.browser()
	b.get(startPath)
	refuses.Store(true)
	defer refuses.Store(false)
	b.post(registerPath, url.Values{"login": {login}, "email": {login + "@example.com"}})
	b.want(403, registerPath)
	if !strings.Contains(b.page, "Not you.") {
		t.Errorf("the page does not say why:\n%s", b.page)
	}
	w.wantIdentity(login, 0)
}

func TestSignOn_LinksWithTheAccountOfASession(t *testing.T) {
	w := newWorld(t)
	login, subject := name("ada"), name("subject")
	id := w.register(login, login+"@example.com", true).UserID
	w.provider.is(subject, "else@provider.example")
	b := w.browser()
	b.get(startPath)
	b.want(200, choosePath)
	b.get(linkPath)
	b.want(200, "/account/sign-in")
	b.post("/account/sign-in?next="+linkPath, url.Values{"login": {login}, "password": {password}})
	b.want(200, linkPath)
	b.post(linkPath, url.Values{"password": {"wrong horse battery"}})
	b.want(422, linkPath)
	w.wantIdentity(subject, 0)
	b.post(linkPath, url.Values{"password": {password}})
	b.want(200, "/account")
	w.wantIdentity(subject, id)
	other := w.browser()
	other.get(startPath)
	other.wantSignedIn(login)
}

func TestSignOn_AsksForTheCodeOfASecondFactor(t *testing.T) {
	w := newWorld(t)
	login, subject := name("ada"), name("subject")
	pair := w.register(login, login+"@example.com", true)
	secret, err := module.Service().BeginTwoFactor(t.Context(), personal.BeginTwoFactorRequest{Credentials: pair, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	confirmed, err := module.Service().ConfirmTwoFactor(t.Context(), personal.ConfirmTwoFactorRequest{
		Credentials: pair, Code: personaltest.Code(secret.Secret, time.Now()),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.provider.is(subject, "")
	b := w.browser()
	b.get(startPath)
	b.post("/account/sign-in?next="+linkPath, url.Values{"login": {login}, "password": {password}})
	b.post("/account/sign-in/code?next="+linkPath, url.Values{"code": {confirmed.RecoveryCodes[0]}})
	b.want(200, linkPath)
	b.post(linkPath, url.Values{"password": {password}})
	b.want(422, linkPath)
	b.post(linkPath, url.Values{"password": {password}, "code": {confirmed.RecoveryCodes[1]}})
	w.wantIdentity(subject, pair.UserID)

	b = w.browser()
	b.get(startPath)
	b.want(200, codePath)
	b.wantSignedIn("")
	b.post(codePath, url.Values{"code": {confirmed.RecoveryCodes[1]}})
	b.want(401, codePath)
	b.post(codePath, url.Values{"code": {confirmed.RecoveryCodes[2]}})
	b.want(200, "/account")
	b.wantSignedIn(login)
	b.post(codePath, url.Values{"code": {confirmed.RecoveryCodes[3]}})
	b.want(400, codePath) // the attempt is over
}

// What a browser can send, and what a provider can say, that must open no session.
func TestSignOn_RefusesOtherResponses(t *testing.T) {
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
			for range maxAttempts {
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
			w.provider.is(login, login+"@example.com")
			id, err := module.Administration().CreateUser(t.Context(), personal.CreateUserRequest{Login: login})
			if err != nil {
				t.Fatal(err)
			}
			identity := personal.Identity{Issuer: w.provider.url, Subject: login}
			if err := module.Administration().LinkIdentity(t.Context(), personal.LinkIdentityRequest{Identity: identity, UserID: id}); err != nil {
				t.Fatal(err)
			}
			b := w.browser()
			do(w, b)
			b.want(400, callbackPath)
			b.wantSignedIn("")
		})
	}
}

// A forged response must not end the sign-in of the browser in which it arrives.
func TestSignOn_ForgedResponseEndsNoAttempt(t *testing.T) {
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

func TestSignOn_AttemptsOfSeveralTabs(t *testing.T) {
	w := newWorld(t)
	login := name("ada")
	w.provider.is(login, "")
	b := w.browser()
	first := b.response()
	for range maxAttempts - 1 {
		b.response()
	}
	b.get(first)
	b.want(200, choosePath)
	b.get(first) // a second time
	b.want(400, callbackPath)
}

func TestSignOn_VisitorsDoNotKeepOthersFromStarting(t *testing.T) {
	w := newWorld(t)
	w.provider.is(name("ada"), "")
	for range 50 {
		w.browser().response()
	}
	b := w.browser()
	b.get(startPath)
	b.want(200, choosePath)
}

func TestAttempts_FitIntoACookie(t *testing.T) {
	api, err := personalhttp.New(&personaltest.Service{}, personalhttp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newAttempts(api)
	if err != nil {
		t.Fatal(err)
	}
	long := attempt{Expires: time.Now().Add(time.Minute), Next: "/" + strings.Repeat("<", maxNext-1), State: "s"}
	for _, all := range [][]attempt{{long, long, long, long, long, long, {Expires: long.Expires, State: "last"}}, {{Expires: long.Expires.Add(-time.Hour), State: "expired"}, long}} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
		s.put(w, r, all)
		c := w.Result().Cookies()[0]
		r.AddCookie(c)
		got := s.of(r)
		if len(c.Value) > maxCookie || len(got) == 0 || got[len(got)-1].State != all[len(all)-1].State || got[0].State == "expired" {
			t.Errorf("got %d bytes with %d attempts, want the newest ones", len(c.Value), len(got))
		}
	}
}

var values = regexp.MustCompile(`value="[^"]*"|Welcome, [^<]*`)

// A provider may say of any e-mail that it is verified.
func TestSignOn_LyingEmailLeadsToNoAccount(t *testing.T) {
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
	b.post(registerPath, url.Values{"login": {attacker}, "email": {victim + "@example.com"}})
	b.want(409, registerPath)
	w.wantIdentity(attacker, 0)
	sessions, err := module.Administration().UserSessions(t.Context(), id)
	if err != nil || len(sessions) != 1 {
		t.Errorf("got the sessions %+v, error %v; want the victim's", sessions, err)
	}
}

// Someone registers with the victim's address, does not confirm it, and waits for the victim to
// come from the provider.
func TestSignOn_WaitingAccountGetsNoIdentity(t *testing.T) {
	w := newWorld(t)
	victim, attacker := name("victim"), name("attacker")
	email := victim + "@example.com"
	waiting := w.register(attacker, email, false)

	mallory := w.browser() // the attacker's own identity does not get into the account, either
	w.provider.is(attacker, "attacker@provider.example")
	mallory.get(startPath)
	mallory.post("/account/sign-in?next="+linkPath, url.Values{"login": {attacker}, "password": {password}})
	mallory.want(200, linkPath)
	mallory.post(linkPath, url.Values{"password": {password}})
	mallory.want(403, linkPath)
	w.wantIdentity(attacker, 0)

	w.provider.is(victim, email)
	b := w.browser()
	b.get(startPath)
	b.want(200, choosePath)
	b.wantSignedIn("")
	b.post(registerPath, url.Values{"login": {victim}, "email": {email}})
	b.want(409, registerPath)
	w.wantIdentity(victim, 0)

	// The owner of the address takes the account, and the attacker is out.
	if err := module.Service().Recover(t.Context(), personal.RecoverRequest{Email: email}); err != nil {
		t.Fatal(err)
	}
	_, err := module.Service().RecoverConfirm(t.Context(), personal.RecoverConfirmRequest{
		Token: w.token(email, "Set a new password"), Password: password + "!", ConfirmPassword: password + "!",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := module.Service().Profile(t.Context(), waiting); personal.CodeOf(err) != personal.CodeUnauthenticated {
		t.Errorf("the attacker's session: got %v", err)
	}
	if _, err := module.Service().Authorize(t.Context(), personal.AuthorizeRequest{Login: attacker,
		Password: password}); personal.CodeOf(err) != personal.CodeInvalidCredentials {
		t.Errorf("the attacker's password: got %v", err)
	}
}

// The site serves while the provider is down.
func TestSignOn_ProviderThatIsDown(t *testing.T) {
	w := &world{t: t}
	w.serve(provider{name: "Example ID", issuer: "http://127.0.0.1:1", client: clientID})
	b := w.browser()
	b.get(startPath)
	b.want(503, startPath)
	b.get("/account/sign-in")
	b.want(200, "/account/sign-in")
}
