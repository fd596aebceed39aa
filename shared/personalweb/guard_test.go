package personalweb_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personalweb"
)

func TestGuard_RefusesPostsOfOtherOrigins(t *testing.T) {
	var code personal.Code
	guard, err := personalweb.Guard(func(w http.ResponseWriter, _ *http.Request, err error) {
		code = personal.CodeOf(err)
		w.WriteHeader(http.StatusForbidden)
	}, "https://www.example.com")
	if err != nil {
		t.Fatal(err)
	}
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
			r := httptest.NewRequest(tt.method, "http://site.example/account", nil)
			for name, value := range tt.headers {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			page.ServeHTTP(w, r)
			if w.Code != tt.want || (code == personal.CodeCrossOrigin) != (tt.want == 403) {
				t.Errorf("got %d %q, want %d", w.Code, code, tt.want)
			}
		})
	}
}

func TestGuard_InvalidOriginIsAnError(t *testing.T) {
	if _, err := personalweb.Guard(nil, "www.example.com"); err == nil {
		t.Error("got no error")
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
