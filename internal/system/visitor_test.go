package system

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

// visitor uses the pages of the site as a browser does. It follows no redirects.
type visitor struct {
	site   *system
	client *http.Client
}

func (s *system) visitor(t testing.TB) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := newClient()
	client.Jar = jar
	t.Cleanup(client.CloseIdleConnections)
	return &visitor{site: s, client: client}
}

// send requests a page, or posts a form to it, and checks the status. Headers are
// pairs of name and value.
func (v *visitor) send(t testing.TB, want int, method, path string, form url.Values, headers ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, v.site.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := v.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != want {
		t.Fatalf("%s %s: got %d, want %d:\n%s", method, path, response.StatusCode, want, body)
	}
	policy := response.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("%s %s: got Content-Security-Policy %q", method, path, policy)
	}
	if strings.Contains(string(body), "<script>") {
		t.Errorf("%s %s: input of a user became markup:\n%s", method, path, body)
	}
	return response, string(body)
}

func (v *visitor) get(t testing.TB, path string, headers ...string) string {
	t.Helper()
	_, body := v.send(t, http.StatusOK, http.MethodGet, path, nil, headers...)
	return body
}

func (v *visitor) post(t testing.TB, path string, form url.Values) *http.Response {
	t.Helper()
	response, _ := v.send(t, http.StatusSeeOther, http.MethodPost, path, form)
	return response
}

func TestSecureCookies_CookiesAndBrowsersRequireHTTPS(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testdb.SQLite(t), settings: cheap, flags: []string{"--secure-cookies"}})
	u := s.newUser(t)
	response := s.visitor(t).post(t, "/account/sign-in", url.Values{"login": {u.login}, "password": {u.password}})
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
