package ui_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personaladmin/texts"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb/ui"
)

// set returns the options of a set with one page, which shows a form.
func set(t *testing.T) ui.Options {
	t.Helper()
	return ui.Options{
		Templates: fstest.MapFS{"page.html": {Data: []byte(
			`{{define "title"}}{{t "hello"}}{{end}}{{define "main"}}{{template "form" .}}{{end}}` +
				`{{define "part"}}<b>{{.}}</b>{{end}}`)}},
		Texts:     fstest.MapFS{"en.json": {Data: []byte(`{"hello":"Hello"}`)}, "ru.json": {Data: []byte(`{"hello":"Привет"}`)}},
		AssetPath: "/assets/",
		API:       newAPI(t),
		Log:       slog.New(slog.DiscardHandler),
	}
}

func newAPI(t *testing.T) *personalhttp.Handler {
	t.Helper()
	api, err := personalhttp.New(&personaltest.Service{}, personalhttp.Options{
		Origins: []string{"https://www.example.com"}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func newPages(t *testing.T) *ui.Pages {
	t.Helper()
	p, err := ui.New(set(t))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inLocale returns a request whose call has the given locale.
func inLocale(r *http.Request, locale string) *http.Request {
	return r.WithContext(personal.WithCall(r.Context(), personal.Call{RequestID: "r", Locale: locale}))
}

// serve handles a request with the pages of newPages; /page shows body.
func serve(t *testing.T, r *http.Request, body any) *httptest.ResponseRecorder {
	t.Helper()
	pages := newPages(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		pages.Render(w, r, http.StatusOK, "page", ui.Page{Body: body})
	})
	mux.HandleFunc("POST /language", pages.SwitchLanguage)
	w := httptest.NewRecorder()
	pages.Handler(mux).ServeHTTP(w, r)
	return w
}

func TestRender_LanguageOfTheCall(t *testing.T) {
	for locale, want := range map[string][2]string{"en": {`lang="en"`, "Hello"}, "ru": {`lang="ru"`, "Привет"}, "de": {`lang="en"`, "Hello"}} {
		w := serve(t, inLocale(httptest.NewRequest("GET", "/page", nil), locale), ui.Form{})
		if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, "<html "+want[0]) || !strings.Contains(body, "<title>"+want[1]) {
			t.Errorf("%s: got %d %s", locale, w.Code, body)
		}
	}
}

func TestRender_ConcurrentFirstRequests(t *testing.T) {
	pages := newPages(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			w := httptest.NewRecorder()
			r := inLocale(httptest.NewRequest("GET", "/page", nil), "ru")
			if i%2 == 0 {
				pages.Render(w, r, http.StatusOK, "page", ui.Page{Body: ui.Form{}})
			} else {
				pages.Problem(w, r, ui.Problem{Status: http.StatusNotFound})
			}
			if body := w.Body.String(); !strings.Contains(body, "<html lang=\"ru\"") {
				t.Errorf("got %d %s", w.Code, body)
			}
		})
	}
	group.Wait()
}

func TestPages_RefuseMissingParts(t *testing.T) {
	for name, change := range map[string]func(*ui.Options){
		"an empty text":     func(o *ui.Options) { o.Texts.(fstest.MapFS)["ru.json"].Data = []byte(`{"hello":""}`) },
		"a text in English": func(o *ui.Options) { o.Texts.(fstest.MapFS)["en.json"].Data = []byte(`{}`) },
		"a text of a template": func(o *ui.Options) {
			o.Templates.(fstest.MapFS)["b.html"] = &fstest.MapFile{Data: []byte(`{{t "nothing"}}`)}
		},
		"an end": func(o *ui.Options) {
			o.Templates.(fstest.MapFS)["b.html"] = &fstest.MapFile{Data: []byte(`{{if .}}`)}
		},
		"the kind of an asset": func(o *ui.Options) { o.Assets = fstest.MapFS{"a.exe": {}} },
	} {
		o := set(t)
		change(&o)
		p, err := ui.New(o)
		if err == nil {
			err = p.Check()
		}
		if err == nil {
			t.Errorf("without %s: got no error", name)
		}
	}
}

// The sets of this module, as they are embedded in its packages.
func TestPages_OwnSetsAreValid(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for _, name := range []string{"shared/personalpages", "host-sample/site", "shared/personaladmin", "host-sample/admin",
		"host-sample/reference"} {
		folder := func(part string) fs.FS {
			if name+"/"+part == "shared/personaladmin/texts" { // a package, too
				return texts.Files
			}
			return os.DirFS(filepath.Join(root, name, part))
		}
		p, err := ui.New(ui.Options{
			Templates: folder("templates"), Texts: folder("texts"), Assets: folder("assets"), AssetPath: "/", API: newAPI(t), Log: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			err = p.Check()
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHandler_SecurityHeaders(t *testing.T) {
	for method, path := range map[string]string{"GET": "/page", "PUT": "/language", "POST": "/nowhere"} {
		h := serve(t, httptest.NewRequest(method, path, nil), ui.Form{}).Header()
		policy := h.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s %s: got policy %q", method, path, policy)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store"} {
			if h.Get(name) != want {
				t.Errorf("%s %s: got %s %q, want %q", method, path, name, h.Get(name), want)
			}
		}
	}
}

func TestHandler_UnknownPathAndMethod(t *testing.T) {
	w := serve(t, httptest.NewRequest("GET", "/nowhere", nil), ui.Form{})
	if w.Code != 404 || !strings.Contains(w.Body.String(), "There is no such page") {
		t.Errorf("got %d %s, want 404", w.Code, w.Body)
	}
	for target, want := range map[string]string{"/page/?a=b": "/page?a=b", "/nowhere/": "", "/language/": "", "/": ""} {
		w := serve(t, httptest.NewRequest("GET", target, nil), ui.Form{})
		if got := w.Header().Get("Location"); got != want || want == "" && w.Code == 303 {
			t.Errorf("%s: got %d to %q, want %q", target, w.Code, got, want)
		}
	}
	if w := serve(t, httptest.NewRequest("POST", "/page/", nil), ui.Form{}); w.Code != 404 {
		t.Errorf("a post to /page/: got %d, want 404", w.Code)
	}
	w = serve(t, httptest.NewRequest("GET", "/language", nil), ui.Form{})
	if w.Code != 405 || w.Header().Get("Allow") != "POST" || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		t.Errorf("got %d %v, want 405 as a page", w.Code, w.Header())
	}
}

func TestRender_FailureSendsErrorPage(t *testing.T) {
	w := serve(t, httptest.NewRequest("GET", "/page", nil), "not a form")
	if body := w.Body.String(); w.Code != 500 || strings.Count(body, "<html") != 1 || !strings.Contains(body, "Something went wrong") {
		t.Errorf("got %d %s, want one error page", w.Code, body)
	}
}

func TestPart_RendersOneTemplate(t *testing.T) {
	w := httptest.NewRecorder()
	newPages(t).Part(w, httptest.NewRequest("GET", "/", nil), "page", "part", "<x>")
	if w.Body.String() != "<b>&lt;x&gt;</b>" {
		t.Errorf("got %s", w.Body)
	}
}

func TestAssets_AreImmutable(t *testing.T) {
	page := serve(t, httptest.NewRequest("GET", "/page", nil), ui.Form{}).Body.String()
	found := regexp.MustCompile(`(?:href|src)="(/assets/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(found) < 3 {
		t.Fatalf("got assets %v, want at least 3", found)
	}
	for _, match := range found {
		w := serve(t, httptest.NewRequest("GET", match[1], nil), nil)
		if w.Code != 200 || w.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" || w.Body.Len() == 0 {
			t.Errorf("%s: got %d %v, want 200 and immutable", match[1], w.Code, w.Header())
		}
	}
	if w := serve(t, httptest.NewRequest("GET", "/assets/style.css", nil), nil); w.Code != 404 {
		t.Errorf("without its digest: got %d, want 404", w.Code)
	}
}

func TestRender_NeedsNoInlineScriptOrStyle(t *testing.T) {
	form := ui.Form{Message: "x", Controls: []ui.Control{{Name: "a", Error: "b", Hint: "c"}}}
	page := serve(t, httptest.NewRequest("GET", "/page", nil), form).Body.String()
	if loose := regexp.MustCompile(`<style|\sstyle=|\son[a-z]+=|<script>|https?://`).FindString(page); loose != "" {
		t.Errorf("the page contains %q", loose)
	}
}

func TestForm_LeavesTheJudgementToTheSite(t *testing.T) {
	form := ui.Form{Controls: []ui.Control{
		{Kind: ui.KindText, Name: "login", Label: "Login", Value: "anna", Link: &ui.Link{Text: "Change", Path: "/login"}},
		{Name: "password", Label: "Your e-mail <b>", Type: "password"}, {Name: "again", Type: "password"},
		{Name: "phone", Hint: "Such as +7 495 123-45-67 for two-factor sign-in."}, {Name: "code", Label: "Code", Details: true}, {Name: "closed", Details: true, Folded: true},
	}}
	form.Focus()
	body := serve(t, httptest.NewRequest("GET", "/page", nil), form).Body.String()
	for _, want := range []string{
		" novalidate>", `<a href="/login">Change<span class="hidden">: Login</span></a>`, `spellcheck="false" autofocus>`,
		`Your <span class="unbroken">e-mail</span> &lt;b&gt;</label>`, `<span class="unbroken">+7 495 123-45-67</span>`, `<span class="unbroken">two-factor</span>`, `<details class="control" open>`, `<details class="control">`,
		`data-hide="Hide" hidden><span>Show</span>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("want %s in the page:\n%s", want, body)
		}
	}
	form.Message = "Wrong."
	form.Focus()
	if n := strings.Count(serve(t, httptest.NewRequest("GET", "/page", nil), form).Body.String(), "autofocus"); n != 1 {
		t.Errorf("with an error: got %d elements with the focus, want the error alone", n)
	}
}

func TestTabs_StayOnSubPages(t *testing.T) {
	tabs := []ui.Link{{Text: "A", Path: "/page"}, {Text: "B", Path: "/page/b"}, {Text: "C", Path: "/page/bc"}}
	for path, want := range map[string]string{
		"/page": `"/page" aria-current="page"`, "/page/other": `"/page" aria-current="true"`,
		"/page/b": `"/page/b" aria-current="page"`, "/page/b/sub": `"/page/b" aria-current="true"`, "/elsewhere": "",
	} {
		w := httptest.NewRecorder()
		newPages(t).Render(w, httptest.NewRequest("GET", path, nil), 200, "page", ui.Page{SubNav: tabs, Body: ui.Form{}})
		marked := regexp.MustCompile(`"/[a-z/]*" aria-current="[a-z]*"`).FindAllString(w.Body.String(), -1)
		if got := strings.Join(marked, " "); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	w := httptest.NewRecorder()
	newPages(t).Render(w, httptest.NewRequest("GET", "/elsewhere", nil), 200, "page", ui.Page{SubNav: tabs, Below: "/page/b", Body: ui.Form{}})
	if want := `"/page/b" aria-current="true"`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("below another page: want %s in:\n%s", want, w.Body)
	}
}

func TestRender_LivePagesLoadHTMX(t *testing.T) {
	for _, live := range []bool{true, false} {
		w := httptest.NewRecorder()
		newPages(t).Render(w, httptest.NewRequest("GET", "/", nil), 200, "page", ui.Page{Live: live, Body: ui.Form{}})
		if got := strings.Contains(w.Body.String(), "/assets/htmx.min."); got != live ||
			strings.Contains(w.Body.String(), `"allowEval":false`) != live ||
			strings.Contains(w.Body.String(), `hx-headers='{"Personal-Poll":"true"}'`) != live {
			t.Errorf("live %t: got %s", live, w.Body)
		}
	}
}

func TestLanguage_IsRemembered(t *testing.T) {
	for next, want := range map[string]string{"/page?a=b": "/page?a=b", "//evil.example": "/", "https://evil.example": "/"} {
		r := httptest.NewRequest("POST", "/language", strings.NewReader("language=ru&next="+next))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := serve(t, r, nil)
		if w.Code != 303 || w.Header().Get("Location") != want {
			t.Fatalf("got %d to %q, want 303 to %q", w.Code, w.Header().Get("Location"), want)
		}
		back := httptest.NewRequest("GET", "/", nil)
		back.Header.Set("Accept-Language", "de")
		back.AddCookie(w.Result().Cookies()[0])
		newPages(t).RememberedLanguage(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if got := r.Header.Values("Accept-Language"); len(got) != 1 || got[0] != "ru" {
				t.Errorf("got Accept-Language %q, want ru", got)
			}
		})).ServeHTTP(nil, back)
	}
}

func TestPrepared_RememberedLanguageAlsoBehindACall(t *testing.T) {
	pages, api := newPages(t), newAPI(t)
	var call personal.Call
	page := pages.Prepared(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { call = personal.CallFrom(r.Context()) }))
	for name, handler := range map[string]http.Handler{"alone": page, "behind a call": api.WithCall(page)} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Cookie", "language=ru")
		r.Header.Set("Accept-Language", "de, en")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if call.Locale != "ru" || call.Languages != "" || call.RequestID != w.Header().Get("X-Request-Id") {
			t.Errorf("%s: got %+v, want one call, in Russian", name, call)
		}
	}
}

func TestPages_OwnCookiesAreSecureOverHTTPS(t *testing.T) {
	pages := newPages(t)
	r := httptest.NewRequest("POST", "https://site.example/", strings.NewReader("language=ru"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	pages.LeaveNotice(w, r, "profile")
	pages.SwitchLanguage(w, r)
	want := []string{
		"__Host-notice=profile; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=Lax",
		"__Host-language=ru; Path=/; Max-Age=31536000; HttpOnly; Secure; SameSite=Lax",
	}
	if diff := cmp.Diff(want, w.Header().Values("Set-Cookie")); diff != "" {
		t.Errorf("Set-Cookie (-want +got):\n%s", diff)
	}
}

func TestNotice_IsShownOnce(t *testing.T) {
	w := httptest.NewRecorder()
	pages := newPages(t)
	pages.LeaveNotice(w, httptest.NewRequest("POST", "/", nil), "profile")
	r := httptest.NewRequest("GET", "/", nil)
	r.AddCookie(w.Result().Cookies()[0])
	w = httptest.NewRecorder()
	if got := pages.TakeNotice(w, r); got != "profile" || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("got %q, %v, want profile and a deleted cookie", got, w.Result().Cookies())
	}
	r = httptest.NewRequest("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: "notice", Value: "Made-Up"})
	if got := pages.TakeNotice(httptest.NewRecorder(), r); got != "" {
		t.Errorf("got %q, want none", got)
	}
}

func TestHandler_RefusesAddressesThatItWouldSendBack(t *testing.T) {
	for target, want := range map[string]int{
		"/page?a=%D0%AF":                         http.StatusOK,
		"/page?a=" + strings.Repeat("a", 4000):   http.StatusOK,
		"/page?a=" + strings.Repeat("a", 5000):   http.StatusRequestURITooLong,
		"/page" + strings.Repeat("/%D0%AF", 900): http.StatusRequestURITooLong,
		"/page?a=%ff":                            http.StatusBadRequest,
		"/page?%ff":                              http.StatusBadRequest,
		"/pa%ffge":                               http.StatusBadRequest,
	} {
		w := serve(t, httptest.NewRequest("GET", target, nil), ui.Form{})
		if w.Code != want {
			t.Errorf("%.20s: got status %d, want %d", target, w.Code, want)
		}
		if n := w.Body.Len(); n > 4<<10 {
			t.Errorf("%.20s: got a page of %d bytes, want 4 KiB at most", target, n)
		}
	}
}

// A link that a mail program or an application has not encoded, and a form of a browser's extension.
func TestPages_ReadQueriesAndFormsAsBrowsersWriteThem(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Query()["next"]) })
	handler := newPages(t).Handler(mux)
	for query, want := range map[string]string{
		"next=/a;b=c": "[/a;b=c]", "next=/a%3Bb": "[/a;b]", "next=/100%&x=%zz": "[/100%]", "next=a;b&next=c": "[a;b c]",
	} {
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, httptest.NewRequest("GET", "/page?"+query, nil)); w.Code != 200 || w.Body.String() != want {
			t.Errorf("%s: got %d %s, want %s", query, w.Code, w.Body, want)
		}
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader("password=100%;pass&login=anna"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	form, err := ui.ReadForm(httptest.NewRecorder(), r)
	if err != nil || form.Get("password") != "100%;pass" || form.Get("login") != "anna" {
		t.Errorf("got %v, %v, want both values", form, err)
	}
}

func TestReadForm_RefusesUnreadableBody(t *testing.T) {
	for _, body := range []string{"a=%ff", "%ff=a", strings.Repeat("a", 2<<20), strings.Repeat("a=&", 1000)} {
		r := httptest.NewRequestWithContext(context.Background(), "POST", "/?a=b", io.NopCloser(strings.NewReader(body)))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if _, err := ui.ReadForm(httptest.NewRecorder(), r); err == nil {
			t.Errorf("%.10q: got no error", body)
		}
	}
	r := httptest.NewRequest("POST", "/?a=b", strings.NewReader("c=d\r\ne"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if form, err := ui.ReadForm(httptest.NewRecorder(), r); err != nil || form.Get("a") != "" || form.Get("c") != "d\ne" {
		t.Errorf("got %v, %v, want the body with LF", form, err)
	}
}

// elsewhere are paths of requests, and of forms, that browsers would read as another site.
var elsewhere = []string{"//evil.example/page", "//evil.example/page?a=b", `/\evil.example/`, "///evil.example", "https://evil.example/", "evil.example"}

func TestRedirect_APostLeadsToNoOtherOrigin(t *testing.T) {
	for _, path := range elsewhere {
		w := httptest.NewRecorder()
		ui.Redirect(w, httptest.NewRequest("POST", "/page", nil), path)
		if to := w.Header().Get("Location"); to != "/" {
			t.Errorf("%s: got a redirect to %q, want /", path, to)
		}
	}
	w := httptest.NewRecorder()
	ui.Redirect(w, httptest.NewRequest("POST", "/page", nil), "/account?a=b")
	if to := w.Header().Get("Location"); to != "/account?a=b" {
		t.Errorf("got a redirect to %q, want the path", to)
	}
}

// Pages redirect by [ui.Redirect] alone, so that what holds for it holds for every page. The guard
// leads a GET to the site's own URL.
func TestRedirect_IsTheOnlyOne(t *testing.T) {
	for _, folder := range []string{"../..", "../../../host-sample"} {
		err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			redirects := strings.Count(string(source), "http.Redirect(") + strings.Count(string(source), `Set("Location"`)
			if want := map[string]int{"../../personalweb/guard.go": 1, "../../personalweb/ui/handler.go": 1}[path]; redirects != want {
				t.Errorf("%s: got %d redirects, want %d", path, redirects, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestPages_LinksToThemselvesStayOnTheSite(t *testing.T) {
	var layout []string
	o := set(t)
	o.Layout = func(w io.Writer, r *http.Request, c ui.Content) error {
		layout = append(layout, c.Path)
		_, err := io.WriteString(w, string(c.Body))
		return err
	}
	embedded, err := ui.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"//evil.example/page", "//evil.example/page?" + strings.Repeat("a", 2000)} {
		for _, pages := range []*ui.Pages{newPages(t), embedded} {
			w := httptest.NewRecorder()
			r := inLocale(httptest.NewRequest("GET", "/", nil), "en")
			r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
			pages.Problem(w, r, ui.Problem{Status: http.StatusServiceUnavailable, Retry: true})
			if body := w.Body.String(); strings.Contains(body, "evil.example") {
				t.Errorf("%.40s: want no link to another site in the page:\n%s", path, body)
			}
		}
	}
	for _, path := range layout {
		if path != "/" {
			t.Errorf("got path %q for the layout, want /", path)
		}
	}
}
