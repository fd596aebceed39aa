package personalpages_test

import (
	"context"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/personalweb"
)

// mounted returns a browser on the pages alone, as a CMS mounts them.
func mounted(t *testing.T, s personal.Service, c personalpages.Config) *browser {
	t.Helper()
	return mountedBehind(t, personalhttp.Options{}, s, c)
}

// mountedBehind is mounted with options of the API.
func mountedBehind(t *testing.T, o personalhttp.Options, s personal.Service, c personalpages.Config) *browser {
	t.Helper()
	b := &browser{t: t, jar: map[string]*http.Cookie{}, log: &strings.Builder{}}
	c.Log = slog.New(slog.DiscardHandler)
	o.Log = c.Log
	api, err := personalhttp.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := personalpages.New(connected{api, s, &personaltest.Administration{}}, c)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(personalpages.Path, pages)
	mux.Handle(personalpages.Path+"/", pages)
	mux.Handle("/orders", pages.RequireUser(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _ := personalhttp.UserFrom(r.Context())
		fmt.Fprintln(w, "orders of", user.Profile.Login)
	})))
	mux.Handle("/{$}", pages.OptionalUser(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, signedIn := pages.Viewer(r)
		fmt.Fprintln(w, "signed in:", signedIn)
	})))
	b.handler, b.api = api.Front(mux), api
	b.anyPolicy = true
	return b
}

// A site may give requests their call before the pages get them. However they are mounted, all
// cookies are for HTTPS if the visitor uses it, and others are not read.
func TestMount_CookiesAreForHTTPS(t *testing.T) {
	for name, tt := range map[string]struct {
		options personalhttp.Options
		scheme  string // that the proxy sends
	}{
		"a trusted proxy sends https": {personalhttp.Options{TrustedProxies: proxy}, "https"},
		"https URL, no proxy named":   {personalhttp.Options{URL: "https://site.example/account"}, "https"},
		"https URL, a silent proxy":   {personalhttp.Options{URL: "https://site.example/account", TrustedProxies: proxy}, ""},
	} {
		for mount, withCall := range map[string]bool{"in front": false, "behind WithCall": true} {
			t.Run(name+", "+mount, func(t *testing.T) {
				m := newModule()
				m.ProveFunc = func(context.Context, personal.ProveRequest) (personal.Proof, error) {
					return personal.Proof{Proof: rightProof, Until: time.Now().Add(time.Minute)}, nil
				}
				m.RegisterFunc = func(context.Context, personal.RegisterRequest) (personal.SignedIn, error) {
					return personal.SignedIn{}, nil
				}
				b := mountedBehind(t, tt.options, m, personalpages.Config{})
				if withCall {
					b.handler = b.api.WithCall(b.handler)
				}
				b.headers = []string{"X-Forwarded-Proto", tt.scheme, "X-Forwarded-For", "203.0.113.7"}

				b.hold(first, 0)
				planted := []string{"account", "sign_in", "sign_in_attempts", "sign_in_provider", "registered", "proof", "notice", "language", "https"}
				for _, name := range planted { // another host of the domain can set these
					b.jar[name] = &http.Cookie{Name: name, Value: b.jar["account"].Value}
				}
				b.get("/account").leads(t, "/account/sign-in?next=%2Faccount")
				for _, name := range planted {
					if b.jar[name] != nil {
						t.Errorf("the cookie %s without the prefix is not deleted", name)
					}
				}
				b.post("/account/register", "login", "bert", "password", "correct horse", "confirm_password", "correct horse", "email", "b@example.com")
				m.AuthorizeFunc = func(_ context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
					if r.Code == "" {
						return personal.SignedIn{}, personal.NewError(personal.CodeCodeRequired, nil)
					}
					return personal.SignedIn{Credentials: personal.Credentials{UserID: 42, UserHash: first}, Profile: m.profile}, nil
				}
				b.post("/account/sign-in", "login", "anna", "password", "correct horse").leads(t, "/account/sign-in/code")
				b.wantSecure(t, "registered", "sign_in")
				b.post("/account/sign-in/code", "code", "123456").leads(t, "/account")
				b.post("/account/confirm", "password", "correct horse").leads(t, "/account")
				b.post("/account/language", "language", "ru", "next", "/account").leads(t, "/account")
				b.wantSecure(t, "account", "notice", "proof", "language")
				b.get("/account").shows(t, 200, "anna")
			})
		}
	}
}

// wantSecure expects cookies of these names, and all that there are, to be for HTTPS.
func (b *browser) wantSecure(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if b.jar["__Host-"+name] == nil {
			t.Errorf("got no cookie __Host-%s", name)
		}
	}
	for name, c := range b.jar {
		if !strings.HasPrefix(name, "__Host-") || !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" {
			t.Errorf("got %v, want a cookie for HTTPS and this host alone", c)
		}
	}
}

// Every page, also one of the site's own behind the guards.
func TestMount_PlainHTTPLeadsToTheURL(t *testing.T) {
	b := mountedBehind(t, personalhttp.Options{
		URL: "https://site.example/account", TrustedProxies: proxy,
	}, newModule(), personalpages.Config{})
	b.headers = []string{"X-Forwarded-Proto", "http"}
	for _, path := range []string{"/account/sign-in?next=%2Forders", "/account/nowhere", "/orders", "/"} {
		b.get(path).leads(t, "https://site.example"+path)
		clear(b.jar) // browsers do not send it over plain HTTP
	}
	b.post("/account/sign-in", "login", "anna", "password", "correct horse").shows(t, 403, "Please open https://site.example/account/sign-in")
	if len(b.jar) > 0 {
		t.Errorf("got cookies %v, want none", b.jar)
	}
	if status := b.get("/api/v1/personal/fields/").StatusCode; status != 200 {
		t.Errorf("the API: got %d, want 200", status)
	}
}

func TestConfig_LayoutOfTheSite(t *testing.T) {
	layout := template.Must(template.New("").Parse(
		`<title>{{block "title" .}}{{end}}</title>{{block "head" .}}{{end}}<nav>{{with .User}}{{.Profile.Login}}{{else}}nobody{{end}}</nav>{{block "body" .}}{{end}}`))
	b := mounted(t, newModule(), personalpages.Config{Layout: layout, Style: "/site.css"})
	b.get("/account/sign-in").shows(t, 200, "<title>Sign in</title>", "<nav>nobody</nav>", `href="/site.css"`, `action="/account/sign-in"`)
	b.hold(first, 0)
	own := b.get("/account")
	own.shows(t, 200, "<nav>anna</nav>", `id="field-login"`, `<div class="personal" lang="en">`)
	if policies := own.Header.Values("Content-Security-Policy"); len(policies) != 2 || policies[1] != "frame-ancestors 'none'" {
		t.Errorf("got the policies %q, want two beside the site's own", policies)
	}
	for _, not := range []string{" style=", "onclick=", "<style", "<script>"} {
		if strings.Contains(own.body, not) {
			t.Errorf("got %q, which a strict policy of the site refuses:\n%s", not, own.body)
		}
	}
	b.get("/account/nowhere").shows(t, 404, "<nav>", "There is no such page")
}

func TestConfig_OwnPagesAndHome(t *testing.T) {
	b := mounted(t, newModule(), personalpages.Config{Home: "/welcome"})
	b.get("/orders").leads(t, "/account/sign-in?next=%2Forders")
	if poll := b.get("/orders", "Personal-Poll", "true"); poll.StatusCode != 401 || poll.Header.Get("HX-Refresh") != "true" {
		t.Errorf("a poll without a session: got status %d and headers %v, want 401 and that the open page reloads", poll.StatusCode, poll.Header)
	}
	if page := b.get("/"); page.body != "signed in: false\n" {
		t.Errorf("got %q", page.body)
	}
	b.post("/account/sign-in?next=%2Forders", "login", "anna", "password", "correct horse").leads(t, "/orders")
	if page := b.get("/orders"); page.body != "orders of anna\n" {
		t.Errorf("got %q", page.body)
	}
	if page := b.get("/"); page.body != "signed in: true\n" {
		t.Errorf("got %q", page.body)
	}
	b.post("/account/sign-out").leads(t, "/welcome")
	b.get("/account/sign-in?next=%2Forders").shows(t, 200, `href="/account/register?next=%2Forders"`)
	b.get("/account/register?next=%2Forders").shows(t, 200, `action="/account/register?next=%2Forders"`,
		`href="/account/sign-in?next=%2Forders"`)
	b.post("/account/register?next=%2Forders", "login", "anna").leads(t, "/orders")
	b.post("/account/register?next=%2F%2Fevil.example", "login", "anna").leads(t, "/account")
}

func TestConfig_OwnPagesRefuseForgedPosts(t *testing.T) {
	b := mounted(t, newModule(), personalpages.Config{})
	b.hold(first, 0)
	for path, want := range map[string]string{"/orders": "orders of anna\n", "/": "signed in: true\n"} {
		if page := b.post(path, "item", "1"); page.body != want {
			t.Errorf("%s: got %d %q, want %q", path, page.StatusCode, page.body, want)
		}
		for _, origin := range []string{"https://evil.example", "https://cms.example"} {
			b.send("POST", path, url.Values{"item": {"1"}}, "Origin", origin).shows(t, 403, "another site")
		}
	}
}

func TestConfig_Hooks(t *testing.T) {
	var called []string
	hook := func(name, next string) func(http.ResponseWriter, *http.Request, personal.SignedIn) string {
		return func(w http.ResponseWriter, _ *http.Request, in personal.SignedIn) string {
			called = append(called, fmt.Sprint(name, " ", in.Credentials.UserID))
			http.SetCookie(w, &http.Cookie{Name: "cart", Value: name})
			return next
		}
	}
	b := mounted(t, newModule(), personalpages.Config{
		AfterRegister: hook("registered", "/tour"), AfterSignIn: hook("signed in", ""),
		Block: func(r *http.Request, page string) template.HTML {
			if page != "profile" {
				return ""
			}
			user, _ := personalhttp.UserFrom(r.Context())
			return template.HTML("<p>points of " + template.HTMLEscapeString(user.Profile.Login) + "</p>")
		},
	})
	b.post("/account/register", "login", "anna").leads(t, "/tour")
	b.post("/account/sign-in", "login", "anna", "password", "correct horse").leads(t, "/account")
	b.post("/account/sign-in", "login", "anna", "password", "wrong").shows(t, 401)
	if got := strings.Join(called, ", "); got != "registered 42, signed in 42" || b.jar["cart"].Value != "signed in" {
		t.Errorf("got the hooks %q and the cookie %v", got, b.jar["cart"])
	}
	b.get("/account").shows(t, 200, "<p>points of anna</p>")
	if page := b.get("/account/password"); strings.Contains(page.body, "points of") {
		t.Error("the block of the profile is on the page of the password")
	}
}

func TestConfig_TextsAndTemplatesOfTheSite(t *testing.T) {
	b := mounted(t, newModule(), personalpages.Config{
		Texts:     fstest.MapFS{"en.json": {Data: []byte(`{"register": "Become a member"}`)}},
		Templates: fstest.MapFS{"register.html": {Data: []byte(`{{define "title"}}{{.Title}}{{end}}{{define "main"}}<p>Our rules</p>{{template "form" .Form}}{{end}}`)}},
	})
	b.get("/account/register").shows(t, 200, "<title>Become a member", "<p>Our rules</p>", `action="/account/register"`)
	b.post("/account/register", "login", "taken").shows(t, 409, "<p>Our rules</p>", "taken")
	if page := b.get("/account/sign-in"); strings.Contains(page.body, "Our rules") {
		t.Error("the template of one page is used for another")
	}
}

func TestConfig_TextsOfTheAdmissionAreBesideTheControls(t *testing.T) {
	admission := &personal.Admission{Judge: func(context.Context, personal.AdmissionRequest) error {
		text := personal.LocalText{"en": "Only for <members>.", "ru": "Только для участников."}
		return &personal.AdmissionError{FieldErrors: map[string]personal.AdmissionFieldError{
			"login": {Code: personal.FieldErrorNotInList, Text: text}, "password": {Code: personal.FieldErrorTooShort, Text: text},
			"invite": {Code: personal.FieldErrorRequired, Text: text},
		}}
	}}
	b := mounted(t, admission.Wrap(newModule()), personalpages.Config{})
	b.post("/account/register", "login", "anna", "password", "correct horse").shows(t, 422,
		`<p class="fault" id="field-login-error">Only for &lt;members&gt;.</p>`, `<p class="fault" id="field-password-error">Only for &lt;members&gt;.</p>`,
		"<li>invite: Only for &lt;members&gt;.</li>")
	b.post("/account/language", "language", "ru")
	b.post("/account/sign-in", "login", "anna", "password", "correct horse").shows(t, 422, `id="field-login-error">Только для участников.`)
}

func TestConfig_ErrorsNameWhatIsWrong(t *testing.T) {
	for want, c := range map[string]personalpages.Config{
		`there is no text with the key "regster"`: {Texts: fstest.MapFS{"en.json": {Data: []byte(`{"regster": "x"}`)}}},
		"register.html":      {Templates: fstest.MapFS{"register.html": {Data: []byte(`{{define "main"}}{{end`)}}},
		`{{block "body" .}}`: {Layout: template.Must(template.New("").Parse("x"))},
	} {
		api, err := personalhttp.New(newModule(), personalhttp.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		c.Log = slog.New(slog.DiscardHandler)
		if _, err := personalpages.New(connected{api, newModule(), &personaltest.Administration{}}, c); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}

func TestPages_NoPostLeadsToAnotherOrigin(t *testing.T) {
	source, err := os.ReadFile("pages.go")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := func(http.ResponseWriter, *http.Request, personal.SignedIn) string { return "https://evil.example/" }
	redirects := 0
	for _, path := range regexp.MustCompile(`= Path \+ "(/[a-z/-]+)"`).FindAllStringSubmatch(string(source), -1) {
		for _, hooks := range []personalpages.Config{{}, {AfterRegister: elsewhere, AfterSignIn: elsewhere, Home: "//evil.example"}} {
			m := newModule()
			b := mounted(t, m, hooks)
			b.hold(first, 0)
			w := b.post("/account"+path[1]+"?next=//evil.example", "next", "//evil.example", "login", "anna", "email", "anna@example.com", "token", "good",
				"password", "correct horse", "old_password", "correct horse", "confirm_password", "correct horse", "language", "ru", "id", "2", "code", "123456")
			if to := w.Header.Get("Location"); to != personalweb.LocalPath(to, "") {
				t.Errorf("%s: got a redirect to %q", path[1], to)
			} else if to != "" {
				redirects++
			}
		}
	}
	if redirects < 20 {
		t.Errorf("got %d redirects, want those of most pages", redirects)
	}
}
