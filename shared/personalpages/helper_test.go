package personalpages_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalpages"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// hash returns a well-formed session hash with the given last character.
func hash(end string) string { return strings.Repeat("aB3_-", 8) + "xy" + end }

var first, second = hash("1"), hash("2")

// module is a service with one account. It records its requests.
type module struct {
	personaltest.Service

	mu      sync.Mutex
	down    bool
	valid   map[string]bool // hashes
	used    []string        // hashes of requests for the profile
	refresh int
	fields  []personal.Field
	profile personal.Profile
	updates []map[string]personal.Input

	features *personal.Features // nil: those of a default site

	calls []any // other requests
}

// renewed returns a pair in place of the caller's, which is void from then on.
func (m *module) renewed(c personal.Credentials, err error) personal.Credentials {
	if err != nil {
		return personal.Credentials{}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	fresh := first
	if c.UserHash == first {
		fresh = second
	}
	m.valid = map[string]bool{fresh: true}
	return personal.Credentials{UserID: 42, UserHash: fresh}
}

func newModule() *module {
	m := &module{
		valid:   map[string]bool{first: true, second: true},
		profile: personal.Profile{Login: "anna", Email: "anna@example.com", EmailVerified: true},
	}
	m.AuthorizeFunc = func(_ context.Context, r personal.AuthorizeRequest) (personal.SignedIn, error) {
		if r.Password != "correct horse" {
			return personal.SignedIn{}, personal.NewError(personal.CodeInvalidCredentials, nil)
		}
		return personal.SignedIn{Credentials: personal.Credentials{UserID: 42, UserHash: first}, Profile: m.profile}, m.record(r)
	}
	m.RegisterFunc = func(_ context.Context, r personal.RegisterRequest) (personal.SignedIn, error) {
		if r.Login == "taken" {
			return personal.SignedIn{}, &personal.Error{Code: personal.CodeAlreadyExists,
				FieldErrors: personal.FieldErrors{"login": personal.FieldErrorTaken}}
		}
		return personal.SignedIn{Credentials: personal.Credentials{UserID: 42, UserHash: first}}, m.record(r)
	}
	m.ProfileFunc = func(_ context.Context, c personal.Credentials) (personal.Profile, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.used = append(m.used, c.UserHash)
		return m.profile, m.check(c)
	}
	m.RefreshFunc = func(_ context.Context, c personal.Credentials) (personal.Credentials, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.refresh++
		return personal.Credentials{UserID: 42, UserHash: second}, m.check(c)
	}
	m.FieldsFunc = func(context.Context) ([]personal.Field, error) {
		return m.fields, m.check(personal.Credentials{UserID: 42, UserHash: first})
	}
	m.UpdateProfileFunc = func(_ context.Context, r personal.UpdateProfileRequest) (personal.Profile, error) {
		m.updates = append(m.updates, r.Fields)
		return m.profile, nil
	}
	m.SessionsFunc = func(context.Context, personal.Credentials) ([]personal.Session, error) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		return []personal.Session{
			{ID: "1", Created: at, LastSeen: at, Current: true, Agent: "Mozilla/5.0 (X11; Linux x86_64) Chrome/140 Safari/537"},
			{ID: "2", Created: at, LastSeen: at, Agent: "<script>alert(1)</script>", Address: "192.0.2.1"},
		}, nil
	}
	m.ChangePasswordFunc = func(_ context.Context, r personal.ChangePasswordRequest) (personal.Credentials, error) {
		if r.OldPassword != "correct horse" {
			return personal.Credentials{}, personal.FieldErrors{"old_password": personal.FieldErrorMismatch}.Err()
		}
		return personal.Credentials{UserID: 42, UserHash: second}, m.record(r)
	}
	m.RecoverFunc = func(_ context.Context, r personal.RecoverRequest) error { return m.record(r) }
	m.RecoverConfirmFunc = func(_ context.Context, r personal.RecoverConfirmRequest) (personal.Recovered, error) {
		switch {
		case r.Token == "bare" && r.Preview:
			return personal.Recovered{UserID: 42}, nil
		case r.Token != "good":
			return personal.Recovered{}, personal.NewError(personal.CodeInvalidToken, nil)
		case r.Preview:
			return personal.Recovered{UserID: 42, Passkeys: 2, Providers: []string{"accounts.google.com"}}, nil
		}
		return personal.Recovered{UserID: 42}, m.record(r)
	}
	m.ChangeEmailFunc = func(_ context.Context, r personal.ChangeEmailRequest) error { return m.record(r) }
	m.ConfirmEmailFunc = func(_ context.Context, r personal.ConfirmEmailRequest) (int64, error) { return 42, m.record(r) }
	m.LogoutFunc = func(_ context.Context, r personal.LogoutRequest) error {
		if err := m.check(r.Credentials); err != nil {
			return err
		}
		return m.record(r)
	}
	m.RevokeSessionFunc = func(_ context.Context, r personal.RevokeSessionRequest) error { return m.record(r) }
	m.ResendVerificationFunc = func(_ context.Context, r personal.ResendVerificationRequest) error { return m.record(r) }
	rightPassword := func(password string) error {
		if password != "correct horse" {
			return personal.FieldErrors{"password": personal.FieldErrorMismatch}.Err()
		}
		return nil
	}
	m.FeaturesFunc = func(context.Context) (personal.Features, error) {
		if m.features == nil {
			return personal.Features{}, personal.NewError(personal.CodeNotFound, nil)
		}
		return *m.features, nil
	}
	m.ExportFunc = func(_ context.Context, r personal.ExportRequest) (personal.Export, error) {
		return personal.Export{UserID: 42, Profile: m.profile}, rightPassword(r.Password)
	}
	m.DeleteFunc = func(_ context.Context, r personal.DeleteRequest) (time.Time, error) {
		return time.Date(2026, 1, 9, 3, 4, 5, 0, time.UTC), rightPassword(r.Password)
	}
	m.UndoDeleteFunc = func(_ context.Context, r personal.UndoDeleteRequest) (int64, error) {
		if r.Token != "good" {
			return 0, personal.NewError(personal.CodeInvalidToken, nil)
		}
		return 42, m.record(r)
	}
	return m
}

func (m *module) check(c personal.Credentials) error {
	switch {
	case m.down:
		return &personal.Error{Code: personal.CodeUnavailable, RetryAfter: 3 * time.Second}
	case !m.valid[c.UserHash] || c.UserID != 42:
		return personal.NewError(personal.CodeUnauthenticated, nil)
	}
	return nil
}

func (m *module) record(request any) error {
	m.calls = append(m.calls, request)
	if m.down {
		return personal.NewError(personal.CodeUnavailable, nil)
	}
	return nil
}

// connected is a [personalpages.Module].
type connected struct {
	api            *personalhttp.Handler
	service        personal.Service
	administration personal.Administration
}

func (c connected) API() *personalhttp.Handler              { return c.api }
func (c connected) Service() personal.Service               { return c.service }
func (c connected) Administration() personal.Administration { return c.administration }

// browser keeps cookies and does not follow redirects.
type browser struct {
	t       *testing.T
	handler http.Handler
	api     *personalhttp.Handler // of some sites
	jar     map[string]*http.Cookie
	headers []string // sent with every request: pairs of name and value
	log     *strings.Builder
	audit   personaltest.Administration

	anyPolicy bool // responses may lack a Content-Security-Policy
}

// proxy is trusted, and sends what browsers of tests send.
var proxy = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}

func newBrowser(t *testing.T, s personal.Service) *browser {
	t.Helper()
	return newBrowserIn(t, s, nil, nil)
}

// newBrowserIn opens a site with messages and texts of its own; nil for none.
func newBrowserIn(t *testing.T, s personal.Service, messages, texts fs.FS) *browser {
	t.Helper()
	b := &browser{t: t, jar: map[string]*http.Cookie{}, log: &strings.Builder{}}
	log := slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	api, err := personalhttp.New(s, personalhttp.Options{TrustedProxies: proxy, Messages: messages, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	account, err := personalpages.New(connected{api, s, &b.audit}, personalpages.Config{Texts: texts, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if strings.Contains(b.log.String(), "there is no text") {
			t.Errorf("a page uses a text that does not exist:\n%s", b.log)
		}
	})
	b.handler = account.WithCall(siteOf(t, account, api, log))
	return b
}

// siteOf returns a site with the account pages, a front page, and pages that only some visitors may see.
func siteOf(t *testing.T, account *personalpages.Pages, api *personalhttp.Handler, log *slog.Logger) http.Handler {
	t.Helper()
	own, err := ui.New(ui.Options{
		Templates: fstest.MapFS{"own.html": {Data: []byte(
			`{{define "title"}}{{t "own"}}{{end}}{{define "main"}}<h1>{{t "own"}}</h1>{{with .}}<a href="{{.}}"></a>{{end}}{{end}}`)}},
		Texts:     fstest.MapFS{"en.json": {Data: []byte(`{"own": "Our page"}`)}, "ru.json": {Data: []byte(`{"own": "Наша страница"}`)}},
		AssetPath: "/assets/", LanguagePath: personalpages.LanguagePath, API: api, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	// The page has a link to the page that asks for missing user fields.
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := account.Page(w, r)
		if viewer, _ := account.Viewer(r); len(viewer.Missing) > 0 {
			p.Body = personalpages.CompletionURL(r.URL.Path)
		}
		own.Render(w, r, http.StatusOK, "own", p)
	})
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", account.OptionalUser(page))
	mux.Handle("GET /demo", account.RequireUser(page))
	mux.Handle("GET /demo/verified", account.RequireUser(page, personalhttp.VerifiedEmail()))
	mux.Handle("GET /demo/complete", account.RequireUser(page, personalhttp.Complete()))
	all := http.NewServeMux()
	all.Handle(personalpages.Path, account)
	all.Handle(personalpages.Path+"/", account)
	all.HandleFunc("GET "+personalpages.ChangePasswordPath, personalpages.ChangePassword)
	all.Handle("/", own.Handler(mux))
	return all
}

// unbroken is a word that does not break at its hyphen.
var unbroken = regexp.MustCompile(`<span class="unbroken">([^<]*)</span>`)

// reply is a response and its body.
type reply struct {
	*http.Response
	body string
}

func (b *browser) send(method, path string, form url.Values, headers ...string) reply {
	b.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	headers = append(append([]string{}, b.headers...), headers...)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	for _, c := range b.jar {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	response := w.Result()
	for _, c := range response.Cookies() {
		b.jar[c.Name] = c
		if c.MaxAge < 0 {
			delete(b.jar, c.Name)
		}
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if !b.anyPolicy && response.Header.Get("Content-Security-Policy") == "" {
		b.t.Errorf("%s %s: got no Content-Security-Policy", method, path)
	}
	return reply{Response: response, body: unbroken.ReplaceAllString(string(body), "$1")}
}

func (b *browser) get(path string, headers ...string) reply {
	b.t.Helper()
	return b.send("GET", path, nil, headers...)
}

func (b *browser) post(path string, pairs ...string) reply {
	b.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return b.send("POST", path, form, "Sec-Fetch-Site", "same-origin")
}

// hold puts credentials of the given age into the browser.
func (b *browser) hold(hash string, age time.Duration) {
	value := fmt.Sprintf("42.%s.%d", hash, time.Now().Add(-age).Unix())
	b.jar["account"] = &http.Cookie{Name: "account", Value: value}
}

var hiddenInput = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// hidden returns the hidden values of the page's forms: name, value, name, value …
func (r reply) hidden() []string {
	var pairs []string
	for _, found := range hiddenInput.FindAllStringSubmatch(r.body, -1) {
		pairs = append(pairs, found[1], html.UnescapeString(found[2]))
	}
	return pairs
}

// leads expects a redirect to a path.
func (r reply) leads(t *testing.T, to string) {
	t.Helper()
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != to {
		t.Errorf("got %d to %q, want 303 to %q: %s", r.StatusCode, r.Header.Get("Location"), to, r.body)
	}
}

// lacks expects none of these texts in the page.
func (r reply) lacks(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(r.body, text) {
			t.Errorf("want no %q in the page:\n%s", text, r.body)
		}
	}
}

// shows expects a page with these texts.
func (r reply) shows(t *testing.T, status int, texts ...string) {
	t.Helper()
	if r.StatusCode != status || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %d, Cache-Control %q, want %d, no-store", r.StatusCode, r.Header.Get("Cache-Control"), status)
	}
	for _, text := range texts {
		if !strings.Contains(r.body, text) {
			t.Errorf("want %q in the page:\n%s", text, r.body)
		}
	}
}
