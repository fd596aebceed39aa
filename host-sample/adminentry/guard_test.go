package adminentry

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// visit sends a request to a guarded page: 200 for administrators, 401 for others.
func visit(g *Guard, url string, cookies []*http.Cookie) int {
	r := httptest.NewRequest(http.MethodGet, url, nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	g.Require(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }),
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }),
	).ServeHTTP(w, r)
	return w.Code
}

// enter spends a code and returns the cookies it brings.
func enter(t *testing.T, e *Entry, g *Guard, url string) []*http.Cookie {
	t.Helper()
	w := httptest.NewRecorder()
	if !g.Enter(w, httptest.NewRequest(http.MethodPost, url, nil), e.NewCode()) {
		t.Fatal("a fresh code lets nobody in")
	}
	return w.Result().Cookies()
}

func TestOnlyWhoEnteredIsLetThrough(t *testing.T) {
	for url, name := range map[string]string{"http://127.0.0.1:8080/admin/": "admin", "https://cms.example/admin/": "__Host-admin"} {
		e := New()
		g := NewGuard(e, "CMS.example")
		if got := visit(g, url, nil); got != http.StatusUnauthorized {
			t.Errorf("a stranger gets %d", got)
		}
		cookies := enter(t, e, g, url)
		c := cookies[0]
		if c.Name != name || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || c.Secure != (name != "admin") {
			t.Errorf("cookie %v", c)
		}
		if got := visit(g, url, cookies); got != http.StatusOK {
			t.Errorf("an administrator gets %d", got)
		}
		r := httptest.NewRequest(http.MethodPost, url, nil)
		r.AddCookie(c)
		g.Leave(httptest.NewRecorder(), r)
		if got := visit(g, url, cookies); got != http.StatusUnauthorized {
			t.Errorf("who has left gets %d", got)
		}
	}
}

func TestOpeningALinkSpendsNothing(t *testing.T) {
	e := New()
	g := NewGuard(e)
	code := e.NewCode()
	if g.Enter(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/", nil), code) {
		t.Error("a GET lets somebody in")
	}
	if _, ok := e.Redeem(code); !ok {
		t.Error("the code was spent")
	}
}

func TestOtherNamesAreRefused(t *testing.T) {
	e := New()
	g := NewGuard(e, "cms.example")
	for name, tt := range map[string]struct {
		url  string
		want int
	}{
		"the site's own name":        {"http://cms.example:8080/", http.StatusOK},
		"its name in capitals":       {"http://CMS.example/", http.StatusOK},
		"loopback":                   {"http://127.0.0.9:1/", http.StatusOK},
		"loopback in IPv6":           {"http://[::1]:8080/", http.StatusOK},
		"loopback by name":           {"http://localhost/", http.StatusOK},
		"another name":               {"http://evil.example/", http.StatusUnauthorized},
		"another address":            {"http://192.0.2.1/", http.StatusUnauthorized},
		"a name that begins like it": {"http://cms.example.evil/", http.StatusUnauthorized},
	} {
		cookies := enter(t, e, g, "http://cms.example/")
		if got := visit(g, tt.url, cookies); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
		if got := g.Enter(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, tt.url, nil), e.NewCode()); got != (tt.want == http.StatusOK) {
			t.Errorf("%s: a code lets in: %v", name, got)
		}
	}
}
