package personalweb_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personalhttp"
	"github.com/cms-personal/personal/shared/personalweb"
)

func TestGuard_RefusesPostsOfOtherOrigins(t *testing.T) {
	var code personal.Code
	var log bytes.Buffer
	options := personalhttp.Options{Origins: []string{"https://www.example.com"}, Log: slog.New(slog.NewTextHandler(&log, nil))}
	api, err := personalhttp.New(&personaltest.Service{}, options)
	if err != nil {
		t.Fatal(err)
	}
	guard := personalweb.Guard(api,
		func(w http.ResponseWriter, _ *http.Request, err error) {
			code = personal.CodeOf(err)
			w.WriteHeader(http.StatusForbidden)
		})
	page := guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for condition, tt := range map[string]struct {
		method  string
		headers map[string]string
		want    int
	}{
		"another site":              {"POST", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"another host of the site":  {"POST", map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		"another origin, no fetch":  {"POST", map[string]string{"Origin": "https://evil.example"}, 403},
		"an opaque origin":          {"POST", map[string]string{"Origin": "null"}, 403},
		"the same origin":           {"POST", map[string]string{"Sec-Fetch-Site": "same-origin"}, 204},
		"the same host, no fetch":   {"POST", map[string]string{"Origin": "https://site.example"}, 204},
		"behind a proxy":            {"POST", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://www.example.com"}, 204},
		"a program, not a browser":  {"POST", nil, 204},
		"a link from another site":  {"GET", map[string]string{"Sec-Fetch-Site": "cross-site"}, 204},
		"a delete of another site":  {"DELETE", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"an address that was typed": {"POST", map[string]string{"Sec-Fetch-Site": "none"}, 204},
	} {
		t.Run(condition, func(t *testing.T) {
			code = ""
			log.Reset()
			r := httptest.NewRequest(tt.method, "http://site.example/account", nil)
			for name, value := range tt.headers {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			page.ServeHTTP(w, r)
			if w.Code != tt.want || (code == personal.CodeCrossOrigin) != (tt.want == 403) {
				t.Errorf("got %d %q, want %d", w.Code, code, tt.want)
			}
			hinted := strings.Contains(log.String(), "code=cross_origin") && strings.Contains(log.String(), "Referrer-Policy: no-referrer")
			if hinted != (tt.want == 403) {
				t.Errorf("got the log %q, want the hint: %t", log.String(), tt.want == 403)
			}
		})
	}
}

func TestGuard_LeadsFromPlainHTTPToTheSite(t *testing.T) {
	api := newAPI(t, personalhttp.Options{URL: "https://www.example.com/account", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	guard := personalweb.Guard(api, func(w http.ResponseWriter, r *http.Request, err error) {
		x := api.ErrorResponse(r, err)
		http.Error(w, x.Message, x.Status)
	})
	served := false
	page := guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }))
	send := func(method, scheme string, cookies ...*http.Cookie) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://site.example/page?a=b", nil)
		r.RemoteAddr = "10.0.0.1:99"
		r.Header.Set("X-Forwarded-Proto", scheme)
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		served = false
		page.ServeHTTP(w, r)
		return w
	}
	for method, want := range map[string]int{"GET": 303, "HEAD": 303, "POST": 403, "DELETE": 403} {
		for scheme, want := range map[string]int{"http": want, "https": 200, "": 200} {
			w := send(method, scheme)
			if w.Code != want || served != (want == 200) {
				t.Errorf("%s, a proxy sends %q: got %d, served %t, want %d", method, scheme, w.Code, served, want)
			}
			const to = "https://www.example.com/page?a=b"
			switch {
			case want == 303 && (w.Header().Get("Location") != to || w.Header().Get("Cache-Control") != "no-store"):
				t.Errorf("%s: got %v, want an uncached redirect to %s", method, w.Header(), to)
			case want == 403 && !strings.Contains(w.Body.String(), "Please open "+to):
				t.Errorf("%s: got %s, want a sentence with %s", method, w.Body, to)
			}
		}
	}
	// A browser that uses HTTPS, but not as far as the proxy says, would be led for ever.
	led := send("GET", "http").Result().Cookies()
	if len(led) != 1 || led[0].Name != "__Host-https" || !led[0].Secure {
		t.Fatalf("got cookies %v, want one that browsers send over HTTPS only", led)
	}
	for _, method := range []string{"GET", "POST"} {
		if w := send(method, "http", led...); w.Code != 200 || !served {
			t.Errorf("%s, led before: got %d, want 200", method, w.Code)
		}
	}
	planted := &http.Cookie{Name: "https", Value: "yes"} // by another host of the domain
	if w := send("GET", "http", planted); w.Code != 303 {
		t.Errorf("GET with a cookie without the prefix: got %d, want 303", w.Code)
	}
}

// What a browser has kept since the site had no HTTPS could be sent without encryption.
func TestGuard_DeletesCookiesOfPlainHTTP(t *testing.T) {
	page := personalweb.Guard(newAPI(t, personalhttp.Options{}), nil, "account", "proof")(http.NotFoundHandler())
	for url, want := range map[string][]string{
		"https://site.example/": {"account=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"}, "http://site.example/": nil,
	} {
		r := httptest.NewRequest("GET", url, nil)
		r.Header.Set("Cookie", "account=1; __Host-account=2; own=3")
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		if diff := cmp.Diff(want, w.Header().Values("Set-Cookie")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", url, diff)
		}
	}
}

// guardedPage is a page for some users, of a site with user fields.
type guardedPage struct {
	schema  personal.Schema
	profile []personal.ProfileField // of its visitor
	log     bytes.Buffer
	page    func(personalhttp.RequireOption) http.Handler
	code    personal.Code // of the last rejection
}

func newGuardedPage(t *testing.T, fields ...personal.Field) *guardedPage {
	p := &guardedPage{schema: personal.Schema{Revision: "1", Fields: fields}}
	service := &personaltest.Service{ProfileFunc: func(context.Context, personal.Credentials) (personal.Profile, error) {
		return personal.Profile{Fields: p.profile}, nil
	}}
	api, err := personalhttp.New(service, personalhttp.Options{
		Log:        slog.New(slog.NewTextHandler(&p.log, nil)),
		UserFields: func(context.Context) (personal.Schema, error) { return p.schema, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	session, err := personalweb.NewSession(api, service, personalweb.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	reject := func(w http.ResponseWriter, r *http.Request, err error) {
		x := api.ErrorResponse(r, err)
		p.code = x.Code
		w.WriteHeader(x.Status)
	}
	p.page = func(option personalhttp.RequireOption) http.Handler {
		ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		return api.RequireUser(ok, personalhttp.WithExtractor(session.Credentials), personalhttp.WithErrorHandler(reject), option)
	}
	return p
}

// get requests the page as a signed-in user.
func (p *guardedPage) get(option personalhttp.RequireOption) (status int) {
	p.code = ""
	w := httptest.NewRecorder()
	p.page(option).ServeHTTP(w, holding(http.MethodGet, ann, 0))
	return w.Code
}

// role is a field that only administrators set.
func role() personal.Field {
	options := []personal.Option{{Value: "editor"}, {Value: "chief"}, {Value: "author"}}
	return personal.Field{Name: "role", Type: personal.TypeEnum, Options: options, ReadOnly: true}
}

func TestRequireField_PassesUsersWithTheValue(t *testing.T) {
	p := newGuardedPage(t, role(), personal.Field{Name: "staff", Type: personal.TypeBoolean, ReadOnly: true},
		personal.Field{Name: "city", Type: personal.TypeText})
	editors := personalweb.RequireField("role", "editor", "chief")
	for condition, tt := range map[string]struct {
		option personalhttp.RequireOption
		fields []personal.ProfileField
		want   int
	}{
		"an editor":                           {editors, []personal.ProfileField{{Name: "city", Value: "riga"}, {Name: "role", Value: "editor"}}, 204},
		"the other value":                     {editors, []personal.ProfileField{{Name: "role", Value: "chief"}}, 204},
		"another value":                       {editors, []personal.ProfileField{{Name: "role", Value: "author"}}, 403},
		"another field with the value":        {editors, []personal.ProfileField{{Name: "city", Value: "editor"}, {Name: "role"}}, 403},
		"no value":                            {editors, []personal.ProfileField{{Name: "role"}}, 403},
		"no such field, or a hidden one":      {editors, nil, 403},
		"no value where the empty one passes": {personalweb.RequireField("role", ""), []personal.ProfileField{{Name: "role"}}, 403},
		"no values demanded":                  {personalweb.RequireField("role"), []personal.ProfileField{{Name: "role", Value: "editor"}}, 403},
		"a boolean":                           {personalweb.RequireField("staff", "true"), []personal.ProfileField{{Name: "staff", Value: true}}, 204},
		"a boolean that is false":             {personalweb.RequireField("staff", "true"), []personal.ProfileField{{Name: "staff", Value: false}}, 403},
	} {
		t.Run(condition, func(t *testing.T) {
			p.profile = tt.fields
			if got := p.get(tt.option); got != tt.want || (p.code == personal.CodeRefused) != (tt.want == 403) {
				t.Errorf("got %d %q, want %d", got, p.code, tt.want)
			}
		})
	}
	w := httptest.NewRecorder()
	if p.page(editors).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page", nil)); w.Code != http.StatusUnauthorized ||
		p.code != personal.CodeUnauthenticated {
		t.Errorf("a visitor: got %d %q, want 401", w.Code, p.code)
	}
}

// A field that users can set is no role, whatever it says. One log line for each schema says so.
func TestRequireField_RefusesEveryoneUnlessTheFieldIsReadOnly(t *testing.T) {
	writable, hidden, invalid := role(), role(), role()
	writable.ReadOnly, hidden.Hidden, invalid.Options = false, true, nil
	for condition, fields := range map[string][]personal.Field{
		"users can set it":       {writable},
		"hidden":                 {hidden},
		"there is no such field": nil,
		"the fields are invalid": {invalid},
	} {
		t.Run(condition, func(t *testing.T) {
			p := newGuardedPage(t, fields...)
			p.profile = []personal.ProfileField{{Name: "role", Value: "editor"}}
			editors := personalweb.RequireField("role", "editor")
			wantLines := func(want int) {
				t.Helper()
				if got := strings.Count(p.log.String(), "a page refuses everyone"); got != want {
					t.Errorf("got %d lines in the log, want %d:\n%s", got, want, &p.log)
				}
			}
			for range 3 {
				if got := p.get(editors); got != 403 || p.code != personal.CodeRefused {
					t.Errorf("got %d %q, want 403 refused", got, p.code)
				}
			}
			wantLines(1)
			p.schema.Revision = "2"
			p.get(editors)
			wantLines(2)
			p.schema = personal.Schema{Revision: "3", Fields: []personal.Field{role()}}
			if got := p.get(editors); got != 204 {
				t.Errorf("a field that is read-only since: got %d, want 204", got)
			}
			wantLines(2)
		})
	}
}

func TestLocalPath_RejectsOtherSites(t *testing.T) {
	for path, want := range map[string]string{
		"/account": "/account", "/account?a=b": "/account?a=b", "": "-", "account": "-", "//evil.example": "-", `/\evil.example`: "-",
		"https://evil.example/": "-", "javascript:alert(1)": "-", "/\t/evil.example": "-", "/\n": "-", "///evil.example": "-",
	} {
		if got := personalweb.LocalPath(path, "-"); got != want {
			t.Errorf("LocalPath(%q) = %q, want %q", path, got, want)
		}
	}
}
