package system

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
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

// hashIn returns the session hash in a cookie.
func hashIn(cookie string) string {
	parts := strings.Split(cookie, ".")
	if len(parts) != 3 {
		return ""
	}
	return parts[1]
}

// pair returns the session in the browser's cookie.
func (v *visitor) pair(t testing.TB) (p pair) {
	t.Helper()
	home, err := url.Parse(v.site.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range v.client.Jar.Cookies(home) {
		if c.Name == "account" {
			if _, err := fmt.Sscanf(c.Value, "%d.", &p.ID); err != nil {
				t.Fatalf("got the session cookie %s: %v", c.Value, err)
			}
			p.Hash = hashIn(c.Value)
			return p
		}
	}
	t.Fatal("the browser has no session cookie")
	return p
}

var pairCookie = regexp.MustCompile(`^account=[1-9][0-9]*\.[A-Za-z0-9_-]{43}\.[0-9]+; Path=/; Max-Age=[0-9]+; HttpOnly; SameSite=Lax$`)

// testVisitorPages registers, changes and recovers an account on the pages alone.
func testVisitorPages(t *testing.T, s *system) {
	const evil = `"><script>alert(1)</script>`
	s.putSchema(t, `[{"name":"motto","type":"text","label":{"en":"Motto <script>alert(2)</script>"}},{"name":"interests","type":"tags"}]`)
	v, login := s.visitor(t), unique()
	email := login + "@mail.example"

	v.get(t, "/account/register")
	registered := v.post(t, "/account/register", url.Values{
		"login": {login}, "email": {email}, "password": {"correct horse 7"}, "confirm_password": {"correct horse 7"},
		"name": {evil}, "motto": {evil}, "interests": {"engines\r\n" + evil},
	})
	if cookie := registered.Header.Get("Set-Cookie"); !pairCookie.MatchString(cookie) {
		t.Errorf("got session cookie %q", cookie)
	}
	profile := v.get(t, "/account")
	for _, want := range []string{"&lt;script&gt;alert(1)", "Motto &lt;script&gt;alert(2)", "Your account has been created.", "engines\n"} {
		if !strings.Contains(profile, want) {
			t.Errorf("the profile page lacks %q:\n%s", want, profile)
		}
	}
	v.get(t, "/account/confirm?next=%2Faccount%2Fpassword")
	proved := v.post(t, "/account/confirm?next=%2Faccount%2Fpassword", url.Values{"password": {"correct horse 7"}})
	if to := proved.Header.Get("Location"); to != "/account/password" {
		t.Errorf("the confirmation leads to %q, want /account/password", to)
	}
	for _, path := range []string{"/", "/demo", "/account/password", "/account/new-email", "/account/sessions", "/account/forgot"} {
		v.get(t, path)
	}
	if page := v.get(t, "/account", "Accept-Language", "ru"); !strings.Contains(page, "Профиль") {
		t.Errorf("the profile page is not in Russian:\n%s", page)
	}

	t.Run("form of another site is refused", func(t *testing.T) {
		for _, path := range []string{"/account", "/account/sign-out", "/account/sign-in"} {
			v.send(t, http.StatusForbidden, http.MethodPost, path, url.Values{"name": {"Mallory"}, "all": {"true"}}, "Sec-Fetch-Site", "cross-site")
			v.send(t, http.StatusForbidden, http.MethodPost, path, url.Values{"name": {"Mallory"}}, "Sec-Fetch-Site", "", "Origin",
				"https://evil.example")
		}
		if page := v.get(t, "/account"); strings.Contains(page, "Mallory") {
			t.Error("the name was changed")
		}
	})
	t.Run("one session is ended", func(t *testing.T) {
		other := s.visitor(t)
		to := other.post(t, "/account/sign-in?next=%2Fdemo", url.Values{"login": {email}, "password": {"correct horse 7"}})
		if to.Header.Get("Location") != "/demo" {
			t.Errorf("signing in redirects to %q, want /demo", to.Header.Get("Location"))
		}
		page := v.get(t, "/account/sessions")
		ids := regexp.MustCompile(`name="id" value="([0-9]+)"`).FindAllStringSubmatch(page, -1)
		if len(ids) != 1 {
			t.Fatalf("got %d other sessions, want 1:\n%s", len(ids), page)
		}
		v.post(t, "/account/sessions/end", url.Values{"id": {ids[0][1]}})
		other.send(t, http.StatusSeeOther, http.MethodGet, "/demo", nil)
		v.get(t, "/demo")
	})
	t.Run("recovery link sets a new password", func(t *testing.T) {
		guest, before := s.visitor(t), v.pair(t)
		guest.post(t, "/account/forgot", url.Values{"login": {login}})
		token := s.mailTo(t, mailtext.Recovery, email).token(t)
		for range 3 { // mail scanners open links repeatedly
			guest.get(t, "/account/recover")
		}
		v.get(t, "/demo")
		guest.post(t, "/account/recover", url.Values{"token": {token}, "password": {recovered}, "confirm_password": {recovered}})
		v.send(t, http.StatusSeeOther, http.MethodGet, "/demo", nil)
		v.post(t, "/account/sign-in", url.Values{"login": {login}, "password": {recovered}})
		v.get(t, "/demo")
		if v.pair(t).Hash == before.Hash {
			t.Error("the session hash has not changed")
		}
	})
	t.Run("signing out ends the session", func(t *testing.T) {
		p := v.pair(t)
		s.wantAlive(t, "the session of the page", p)
		v.post(t, "/account/sign-out", url.Values{})
		s.wantDead(t, "the session of the page", p)
		v.send(t, http.StatusSeeOther, http.MethodGet, "/account", nil)
	})
	for _, secret := range []string{"correct horse 7", recovered} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log has the password %q", secret)
		}
	}
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

// TestSessionRefresh_ByPagesSignsNoUserOut requests pages with a session cookie that is
// due for a refresh.
func TestSessionRefresh_ByPagesSignsNoUserOut(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testdb.SQLite(t), settings: cheap + unthrottled + "[session]\ngrace = \"1s\"\n"})
	u := s.newUser(t)
	aged := func(hash string) string { return fmt.Sprintf("account=%d.%s.1", u.ID, hash) }
	// show requests a page and returns the cookie that it sets, if any.
	show := func(t testing.TB, cookie string) string {
		response, _ := s.web(t, http.MethodGet, "/demo", "", "Cookie", cookie)
		if response.StatusCode != http.StatusOK {
			t.Errorf("got %d, want 200", response.StatusCode)
		}
		next, _, _ := strings.Cut(response.Header.Get("Set-Cookie"), ";")
		return next
	}
	t.Run("response was lost before the grace period", func(t *testing.T) {
		began := time.Now()
		lost := show(t, aged(u.Hash))
		if lost == "" || strings.Contains(lost, u.Hash) {
			t.Fatalf("got cookie %q, want one with another hash", lost)
		}
		outlast(began, 2*time.Second) // beyond the grace period
		if again := show(t, aged(u.Hash)); hashIn(again) != hashIn(lost) {
			t.Errorf("the second time: got cookie %q, want the hash of %q", again, lost)
		}
	})
	t.Run("parallel tabs", func(t *testing.T) {
		other := s.signIn(t, u)
		var tabs sync.WaitGroup
		got := make([]string, 8)
		for i := range got {
			tabs.Go(func() { got[i] = show(t, aged(other.Hash)) })
		}
		tabs.Wait()
		for _, cookie := range got {
			if hashIn(cookie) != hashIn(got[0]) {
				t.Errorf("tabs got cookies %q and %q, want the same hash", cookie, got[0])
			}
			show(t, cookie)
		}
	})
}
