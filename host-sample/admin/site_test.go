package admin_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func TestSignIn_LinkWorksOnceAndByPostOnly(t *testing.T) {
	b := open(t)
	visitor := b.stranger()
	code := b.sessions.NewCode()
	for range 2 {
		w := visitor.get("/admin/enter?code=" + code)
		if w.Code != http.StatusOK || len(w.Result().Cookies()) != 0 || !strings.Contains(w.Body.String(), code) {
			t.Fatalf("opening the link: got status %d and cookies %v, want 200, none and the code: %s", w.Code, w.Result().Cookies(), w.Body)
		}
	}
	values := url.Values{"code": {code}}
	w := visitor.post("/admin/enter", values)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/plugin" {
		t.Fatalf("posting the code: got status %d to %q, want 303 to /admin/plugin: %s", w.Code, w.Header().Get("Location"), w.Body)
	}
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("got cookie %v, want HttpOnly and SameSite=Strict", c)
	}
	if w := visitor.post("/admin/enter", values); w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 {
		t.Errorf("posting the code again: got status %d, want 403 and no cookie: %s", w.Code, w.Body)
	}
	visitor.cookies = []*http.Cookie{c}
	if w := visitor.get("/admin/"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/plugin" {
		t.Errorf("GET /admin/ after signing in: got status %d to %q, want 303 to /admin/plugin", w.Code, w.Header().Get("Location"))
	}
	visitor.page(t, "/admin/plugin")
	visitor.do(t, "/admin/leave", nil)
	if w := visitor.get("/admin/plugin"); w.Code != http.StatusUnauthorized {
		t.Errorf("after signing out: got status %d, want 401", w.Code)
	}
}

func TestSite_StrangersSeeAndChangeNothing(t *testing.T) {
	b := open(t)
	var requests []*http.Request
	for _, path := range []string{
		"/admin/", "/admin/plugin", "/admin/plugin/now", "/admin/plugin/versions", "/admin/plugin/totals", "/admin/plugin/traffic?since=0", "/admin/plugin/use",
		"/admin/fields", "/admin/fields/new", "/admin/fields/json", "/admin/mail", "/admin/events", "/admin/events/rows", "/admin/users", "/admin/users/1",
		"/admin/users/new", "/admin/users/delete?user=1",
		"/admin/users/1/events", "/admin/users/1/events/rows", "/admin/support?login=anna",
	} {
		requests = append(requests, httptest.NewRequest(http.MethodGet, path, nil))
	}
	for _, path := range []string{
		"/admin/leave", "/admin/plugin/use", "/admin/plugin/rollback", "/admin/plugin/remove", "/admin/plugin/install",
		"/admin/fields/new", "/admin/fields/json", "/admin/users/1", "/admin/users/1/disable", "/admin/users/1/delete",
		"/admin/users/new", "/admin/users/selected", "/admin/users/delete", "/admin/users/undo",
		"/admin/support/enable", "/admin/support/lift-limits",
	} {
		requests = append(requests, form(path, url.Values{"version": {"1.0.0"}}))
	}
	for _, r := range requests {
		w := b.stranger().send(r)
		if w.Code != http.StatusUnauthorized || w.Header().Get("HX-Refresh") != "true" || strings.Contains(w.Body.String(), "1.2.3") || !strings.Contains(w.Body.String(), "admin-link") {
			t.Errorf("%s %s: got status %d, want 401 and how to sign in: %s", r.Method, r.URL.Path, w.Code, w.Body)
		}
	}
	if len(b.manager.swaps)+len(b.catalogue.removed) != 0 {
		t.Errorf("requests without a session changed %v %v", b.manager.swaps, b.catalogue.removed)
	}
}

func TestSite_RefusesPostsOfForeignOriginsAndHostNames(t *testing.T) {
	b := open(t)
	for _, path := range []string{
		"/admin/plugin/use", "/admin/plugin/rollback", "/admin/plugin/remove", "/admin/plugin/install", "/admin/users/1/disable",
	} {
		r := form(path, url.Values{"version": {"1.3.0"}})
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if w := b.send(r); w.Code != http.StatusForbidden {
			t.Errorf("%s from a foreign origin: got status %d, want 403", path, w.Code)
		}
		r = form(path, url.Values{"version": {"1.3.0"}})
		r.Host = "evil.example"
		if w := b.send(r); w.Code != http.StatusUnauthorized {
			t.Errorf("%s by a foreign host name: got status %d, want 401", path, w.Code)
		}
	}
	for _, reason := range []string{"a page of another origin", "the host name is not one of --admin-host"} {
		if got := strings.Count(b.log.String(), reason); got != 5 {
			t.Errorf("got %d log entries with the reason %q, want 5:\n%s", got, reason, &b.log)
		}
	}
	if len(b.manager.swaps)+len(b.catalogue.removed) != 0 {
		t.Errorf("a refused post changed %v %v", b.manager.swaps, b.catalogue.removed)
	}
}

func TestSite_PagesAreNotCached(t *testing.T) {
	b := open(t)
	for _, path := range []string{
		"/admin/plugin", "/admin/fields", "/admin/fields/new", "/admin/fields/json", "/admin/mail", "/admin/events", "/admin/users", "/admin/users/1",
		"/admin/users/new", "/admin/users/delete?user=1", "/admin/support",
	} {
		if got := b.get(path).Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("GET %s: got Cache-Control %q, want no-store", path, got)
		}
	}
}

func TestForms_OnlySchemaAndUserFormsMayBeLarge(t *testing.T) {
	b := open(t)
	const usual, large = 64 << 10, 1 << 20
	for path, limit := range map[string]int{
		"/admin/users/1":        large,
		"/admin/users/1/email":  usual,
		"/admin/users/1/delete": usual,
		"/admin/users/new":      large,
		"/admin/users/selected": usual,
		"/admin/users/delete":   usual,
		"/admin/users/undo":     usual,
		"/admin/fields/json":    large,
		"/admin/fields/new":     large,
		"/admin/fields/move":    usual,
		"/admin/plugin/use":     usual,
	} {
		for over, refused := range map[int]bool{0: false, 1: true} {
			filler := url.Values{"filler": {strings.Repeat("x", limit+over-len("filler="))}}
			w := b.post(path, filler)
			if (w.Code == http.StatusRequestEntityTooLarge) != refused {
				t.Errorf("%s with %d bytes: got status %d, want 413: %t", path, limit+over, w.Code, refused)
			}
		}
	}
	unreadable := form("/admin/plugin/use", nil)
	unreadable.Body = io.NopCloser(strings.NewReader("version=%zz"))
	if w := b.send(unreadable); w.Code != http.StatusBadRequest {
		t.Errorf("an unreadable form: got status %d, want 400", w.Code)
	}
}
