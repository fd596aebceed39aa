package system

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

func TestSecureCookies_CookiesAndBrowsersRequireHTTPS(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testdb.SQLite(t), settings: cheap, flags: []string{"--secure-cookies"}})
	u := s.newUser(t)
	response, _ := s.submit(t, "/account/sign-in", url.Values{"login": {u.login}, "password": {u.password}}, "")
	if cookie := response.Header.Get("Set-Cookie"); !strings.HasPrefix(cookie, "__Host-account=") || !strings.Contains(cookie, "; Secure") {
		t.Errorf("got session cookie %q, want a secure one", cookie)
	}
	for _, path := range []string{"/", "/api/v1/personal/fields/"} {
		if response, _ := s.web(t, http.MethodGet, path, ""); response.Header.Get("Strict-Transport-Security") == "" {
			t.Errorf("GET %s: no Strict-Transport-Security", path)
		}
	}
	_, body := s.admin(t, http.MethodPost, "link", "")
	_, code, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(body), `"}`), "code=")
	response, _ = s.web(t, http.MethodPost, "/admin/enter", "code="+code, "Content-Type", "application/x-www-form-urlencoded")
	if cookie := response.Header.Get("Set-Cookie"); !strings.HasPrefix(cookie, "__Host-admin=") || !strings.Contains(cookie, "; Secure") {
		t.Errorf("got administrator's cookie %q, want a secure one", cookie)
	}
	for _, page := range []string{"/", "/account/sign-in", "/reference", "/no-such-page"} {
		response, _ = s.web(t, http.MethodPost, s.languageForm(t, page), "language=ru", "Content-Type", "application/x-www-form-urlencoded")
		if cookie := response.Header.Get("Set-Cookie"); !strings.HasPrefix(cookie, "__Host-language=") || !strings.Contains(cookie, "; Secure") {
			t.Errorf("page %s: got language cookie %q, want a secure one", page, cookie)
		}
	}
}

var languageAction = regexp.MustCompile(`<form class="languages" method="post" action="([^"]+)"`)

// languageForm returns where the form of a page that changes the language leads.
func (s *system) languageForm(t *testing.T, page string) string {
	t.Helper()
	_, body := s.web(t, http.MethodGet, page, "")
	found := languageAction.FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("the page %s has no form that changes the language:\n%s", page, body)
	}
	return found[1]
}

// testProxyScheme checks that cookies are for HTTPS alone if a trusted proxy reports HTTPS, and only
// then.
func testProxyScheme(t *testing.T, s *system, trusted bool) {
	u := s.newUser(t)
	form := url.Values{"login": {u.login}, "password": {u.password}}.Encode()
	response, _ := s.web(t, http.MethodPost, "/account/sign-in", form,
		"Content-Type", "application/x-www-form-urlencoded", "X-Forwarded-Proto", "https")
	cookie := response.Header.Get("Set-Cookie")
	if got := strings.HasPrefix(cookie, "__Host-account=") && strings.Contains(cookie, "; Secure"); got != trusted {
		t.Errorf("got session cookie %q, want Secure %t", cookie, trusted)
	}
	if got := response.Header.Get("Strict-Transport-Security") != ""; got != trusted {
		t.Errorf("got Strict-Transport-Security %t, want %t", got, trusted)
	}
	value, _, _ := strings.Cut(cookie, ";")
	for _, scheme := range []string{"https", "http", ""} { // a proxy's configuration may have changed
		if response, _ := s.web(t, http.MethodGet, "/account", "", "Cookie", value, "X-Forwarded-Proto",
			scheme); response.StatusCode != http.StatusOK {
			t.Errorf("scheme %q: got %d, want 200", scheme, response.StatusCode)
		}
	}
}
