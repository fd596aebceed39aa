package system

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/cms-personal/personal/shared/personalhost"
	"github.com/cms-personal/personal/shared/personalpages"
)

// servePages serves the account pages of a module as a CMS does that gives all requests their call.
func servePages(t *testing.T, m *personalhost.Module) string {
	t.Helper()
	account, err := personalpages.New(m, personalpages.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pages := http.NewServeMux()
	pages.Handle("/account", account)
	pages.Handle("/account/", account)
	server := httptest.NewServer(m.Front(m.API().WithCall(pages)))
	t.Cleanup(server.Close)
	return server.URL
}

// page requests a page over HTTP/1.1 from this machine, or posts a form to it, and follows no redirect.
func page(t *testing.T, method, address, form, scheme, cookies string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for name, value := range map[string]string{"X-Forwarded-Proto": scheme, "Cookie": cookies} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response
}

// testHTTPS signs a user in on the account pages of a site that visitors use over HTTPS, and checks that
// the session is kept by a cookie for HTTPS, and taken from no other: another host of the domain
// can set that.
func testHTTPS(t *testing.T, site, scheme, login, password string) {
	t.Helper()
	in := page(t, http.MethodPost, site+"/account/sign-in", url.Values{"login": {login}, "password": {password}}.Encode(), scheme, "")
	if in.StatusCode != http.StatusSeeOther || len(in.Cookies()) == 0 {
		t.Fatalf("scheme %q: signing in: got %d and cookies %v", scheme, in.StatusCode, in.Cookies())
	}
	for _, c := range in.Cookies() {
		if !c.Secure || !strings.HasPrefix(c.Name, "__Host-") {
			t.Errorf("scheme %q: got the cookie %v, want one for HTTPS", scheme, c)
		}
	}
	session := in.Cookies()[0]
	for name, want := range map[string]int{"__Host-account": http.StatusOK, "account": http.StatusSeeOther} {
		shown := page(t, http.MethodGet, site+"/account", "", scheme, fmt.Sprintf("%s=%s", name, session.Value))
		if shown.StatusCode != want {
			t.Errorf("scheme %q: with the session in the cookie %s: got %d, want %d", scheme, name, shown.StatusCode, want)
		}
	}
}
