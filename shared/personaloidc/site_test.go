package personaloidc_test

import (
	"context"
	"fmt"
	"html"
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
	"github.com/cms-personal/personal/shared/personaloidc"
	"github.com/cms-personal/personal/shared/personalpages"
)

// The pages of the provider "example".
const (
	startPath    = "/account/providers/example"
	callbackPath = startPath + "/callback"
	signOutPath  = startPath + "/sign-out"
	choosePath   = "/account/sign-in/choose"
	linkPath     = "/account/linked/confirm"
	codePath     = "/account/sign-in/code"
	linkedPath   = "/account/linked"
	addPath      = linkedPath + "/add/example"
)

// plugin is built from this source.
var plugin string

// common is the site of most tests. Its pages are those of the latest world.
var common *site

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		plugin = filepath.Join(dir, "personal")
		if out, err := exec.Command("go", "build", "-C", "../..", "-o", plugin, "./plugin").CombinedOutput(); err != nil {
			panic(string(out))
		}
		for _, name := range []string{"google.secret", "github.secret", "staff.secret"} { // of the example
			if err := os.WriteFile(filepath.Join(dir, name), []byte("secret\n"), 0o600); err != nil {
				panic(err)
			}
		}
		if err := os.Chdir(dir); err != nil {
			panic(err)
		}
		common, err = openSite(dir, personalhost.Config{Settings: settings(cheap + "[two_factor]\nenabled = true\n")})
		if err != nil {
			panic(err)
		}
		defer common.close()
		return m.Run()
	}())
}

// cheap settings hash a password in about a millisecond.
const cheap = "[password]\nmemory_kib = 1024\ntime = 1\n"

func settings(toml string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(toml), nil }
}

// site is a CMS with a plugin, whose pages can be replaced.
type site struct {
	module *personalhost.Module
	mails  *personaltest.Host
	pages  atomic.Pointer[http.Handler]
	server *httptest.Server
}

func openSite(dir string, c personalhost.Config) (*site, error) {
	s := &site{mails: &personaltest.Host{}}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.pages.Load()).ServeHTTP(w, r) }))
	c.Data, c.Plugin, c.Log = filepath.Join(dir, "data"), plugin, slog.New(slog.DiscardHandler)
	c.URL = s.server.URL + "/account"
	if c.Host == nil {
		c.Host = s.mails
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	s.module, err = personalhost.Open(ctx, c)
	return s, err
}

func (s *site) close() {
	s.server.Close()
	_ = s.module.Close()
}

// world is a site and a provider.
type world struct {
	*site
	t        *testing.T
	provider *fakeProvider
}

func newWorld(t *testing.T) *world { return common.world(t, personalpages.Config{}) }

func (s *site) world(t *testing.T, c personalpages.Config) *world {
	t.Helper()
	w := &world{s, t, newFakeProvider(t)}
	w.mount(c, w.registered())
	return w
}

// registered is the registration of the site at the provider.
func (w *world) registered() personaloidc.Provider {
	return personaloidc.Provider{Name: "example", Label: "Example ID", Issuer: w.provider.url, ClientID: clientID}
}

// mount mounts the pages with providers.
func (w *world) mount(c personalpages.Config, providers ...personaloidc.Provider) {
	w.t.Helper()
	c.Log = slog.New(slog.DiscardHandler)
	account, err := personalpages.New(w.module, c)
	if err == nil {
		err = personaloidc.New(w.module, account, personaloidc.Config{Providers: providers})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/account", account)
	mux.Handle("/account/", account)
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "the front page") })
	handler := w.module.Front(mux)
	w.pages.Store(&handler)
}

// browser is a visitor's. It follows redirects, and pages that lead on at once.
type browser struct {
	*world
	client http.Client
	at     string // the path of the last page
	page   string
	status int
	header http.Header
}

func (w *world) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return &browser{world: w, client: http.Client{Jar: jar, Timeout: 30 * time.Second}}
}

func (b *browser) get(path string) {
	b.t.Helper()
	b.read(b.client.Get(b.absolute(path)))
}

// post also sends for whom the last page was shown, as its form does.
func (b *browser) post(path string, form url.Values) {
	b.t.Helper()
	if shown := forWhom.FindStringSubmatch(b.page); shown != nil {
		if form == nil {
			form = url.Values{}
		}
		if !form.Has("for") {
			form.Set("for", shown[1])
		}
	}
	b.read(b.client.PostForm(b.absolute(path), form))
}

func (b *browser) absolute(path string) string {
	if strings.HasPrefix(path, "http") {
		return path
	}
	return b.server.URL + path
}

var refresh = regexp.MustCompile(`<meta http-equiv="refresh" content="0; url=([^"]*)">`)

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
	b.at, b.page, b.status, b.header = response.Request.URL.Path, unbroken.ReplaceAllString(string(page), "$1"), response.StatusCode, response.Header
	if to := refresh.FindStringSubmatch(b.page); to != nil && b.client.CheckRedirect == nil {
		b.get(html.UnescapeString(to[1]))
	}
}

var forWhom = regexp.MustCompile(`name="for" value="([^"]*)"`)

// unbroken is a word that does not break at its hyphen.
var unbroken = regexp.MustCompile(`<span class="unbroken">([^<]*)</span>`)

// want checks which page the browser shows, and texts of it.
func (b *browser) want(status int, path string, texts ...string) {
	b.t.Helper()
	if b.status != status || b.at != path {
		b.t.Fatalf("got %d at %s, want %d at %s:\n%s", b.status, b.at, status, path, b.page)
	}
	for _, text := range texts {
		if !strings.Contains(b.page, text) {
			b.t.Errorf("the page does not show %q:\n%s", text, b.page)
		}
	}
}

// response goes to the provider, and returns the URL to which that leads back.
func (b *browser) response() string {
	b.t.Helper()
	return b.responseTo(func() (*http.Response, error) { return b.client.Get(b.absolute(startPath)) })
}

func (b *browser) responseTo(start func() (*http.Response, error)) string {
	b.t.Helper()
	b.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == callbackPath {
			return http.ErrUseLastResponse
		}
		return nil
	}
	defer func() { b.client.CheckRedirect = nil }()
	response, err := start()
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	if to := response.Header.Get("Location"); to != "" {
		return to
	}
	page, _ := io.ReadAll(response.Body)
	to := refresh.FindStringSubmatch(string(page))
	if to == nil {
		b.t.Fatalf("the page leads nowhere:\n%s", page)
	}
	return b.responseTo(func() (*http.Response, error) { return b.client.Get(html.UnescapeString(to[1])) })
}

// signIn signs in with the password, and goes on to a page.
func (b *browser) signIn(login, next string) {
	b.t.Helper()
	b.post("/account/sign-in?"+url.Values{"next": {next}}.Encode(), url.Values{"login": {login}, "password": {password}})
}

// forget deletes a cookie.
func (b *browser) forget(name string) {
	u, _ := url.Parse(b.server.URL)
	b.client.Jar.SetCookies(u, []*http.Cookie{{Name: name, Path: "/", MaxAge: -1}})
}

// wantSignedIn checks whether the browser has a session.
func (b *browser) wantSignedIn(login string) {
	b.t.Helper()
	b.get("/account")
	if login == "" {
		b.want(200, "/account/sign-in")
		return
	}
	b.want(200, "/account", login)
}

var users atomic.Int64

// name returns a login that no account has.
func name(prefix string) string { return fmt.Sprintf("%s%d", prefix, users.Add(1)) }

const password = "wave goodbye twice"

// register registers an account with a password, and returns its session. The e-mail is confirmed
// if verify is set.
func (w *world) register(login, email string, verify bool) personal.Credentials {
	w.t.Helper()
	in, err := w.module.Service().Register(w.t.Context(), personal.RegisterRequest{Login: login, Password: password, ConfirmPassword: password,
		Email: email})
	if err != nil {
		w.t.Fatal(err)
	}
	if verify {
		w.confirm(login, email)
	}
	return in.Credentials
}

// linked registers an account that the identity of this subject signs in to, and which has a password.
func (w *world) linked(login, subject string) int64 {
	w.t.Helper()
	id := w.register(login, login+"@example.com", true).UserID
	b := w.browser()
	w.provider.is(subject, "")
	b.get(startPath)
	b.signIn(login, linkPath)
	b.post(linkPath, nil)
	w.wantIdentity(subject, id)
	return id
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
		all, err := w.mails.AwaitMails(ctx, n)
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
	id, err := w.module.Administration().FindIdentity(w.t.Context(), personal.Identity{Issuer: w.provider.url, Subject: subject})
	if want == 0 && personal.CodeOf(err) == personal.CodeNotFound {
		return
	}
	if err != nil || id != want {
		w.t.Fatalf("got user %d, error %v; want user %d", id, err, want)
	}
}
