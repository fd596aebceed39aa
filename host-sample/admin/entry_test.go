package admin

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personal/personaltest"
	"github.com/cms-personal/personal/shared/personaladmin"
	"github.com/cms-personal/personal/shared/personalhttp"
)

// openEntry returns the entry of a site, and its sessions.
func openEntry(t *testing.T) (http.Handler, *Sessions) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	api, err := personalhttp.New(&personaltest.Service{}, personalhttp.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	sessions := NewSessions()
	e, err := NewEntry(EntryOptions{Guard: NewGuard(sessions, api, personaladmin.NewAccessLog(log), "example.com"), API: api, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/admin/", e)
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		if _, err := e.Admit(r); err != nil {
			e.Refuse(w, r)
		}
	})
	return api.WithCall(mux), sessions
}

func send(h http.Handler, method, path string, values url.Values, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestEntry_LinkWorksOnceAndByPostOnly(t *testing.T) {
	h, sessions := openEntry(t)
	code := sessions.NewCode()
	for range 2 {
		w := send(h, "GET", "/admin/enter", nil) // browsers do not send the code, which follows a #
		if w.Code != http.StatusOK || len(w.Result().Cookies()) != 0 || !strings.Contains(w.Body.String(), `<input id="code" name="code"`) {
			t.Fatalf("opening the link: got status %d and cookies %v, want 200, none and a field for the code: %s", w.Code, w.Result().Cookies(), w.Body)
		}
	}
	values := url.Values{"code": {code}}
	w := send(h, "POST", "/admin/enter", values)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin" {
		t.Fatalf("posting the code: got status %d to %q, want 303 to /admin: %s", w.Code, w.Header().Get("Location"), w.Body)
	}
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
		t.Errorf("got cookie %v, want HttpOnly and SameSite=Strict", c)
	}
	if w := send(h, "POST", "/admin/enter", values); w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 ||
		!strings.Contains(w.Body.String(), "host-sample admin-link") {
		t.Errorf("posting the code again: got status %d, want 403, no cookie and the command: %s", w.Code, w.Body)
	}
	if w := send(h, "GET", "/page", nil, c); w.Code != http.StatusOK {
		t.Errorf("after signing in: got status %d, want 200", w.Code)
	}
	if w := send(h, "POST", "/admin/leave", nil, c); w.Code != http.StatusSeeOther {
		t.Errorf("signing out: got status %d, want 303", w.Code)
	}
	for method, path := range map[string]string{"GET": "/page", "POST": "/admin/leave"} {
		if w := send(h, method, path, nil, c); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "host-sample admin-link") {
			t.Errorf("%s after signing out: got status %d, want 401 and the command: %s", path, w.Code, w.Body)
		}
	}
}

func TestEntry_RefusesPostsOfForeignOrigins(t *testing.T) {
	h, sessions := openEntry(t)
	for _, path := range []string{"/admin/enter", "/admin/leave"} {
		r := httptest.NewRequest("POST", path, strings.NewReader(url.Values{"code": {sessions.NewCode()}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 {
			t.Errorf("%s: got status %d, want 403 and no cookie", path, w.Code)
		}
	}
}
