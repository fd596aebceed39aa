package system

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/testkit"
)

// adminLink has the running host make a link to its admin pages and returns what
// follows the host in it, and the code in that.
func (s *system) adminLink(t testing.TB) (path, code string) {
	t.Helper()
	out, err := exec.Command(testkit.Binaries(t).Host, "admin-link", "--data", s.data).Output()
	if err != nil {
		t.Fatalf("admin-link: %v", err)
	}
	path, ok := strings.CutPrefix(strings.TrimSpace(string(out)), s.url)
	if !ok {
		t.Fatalf("admin-link prints %q", out)
	}
	_, code, _ = strings.Cut(path, "code=")
	return path, code
}

// submit posts a form of a page, as a browser does.
func (s *system) submit(t testing.TB, path string, form url.Values, cookie string) (*http.Response, string) {
	t.Helper()
	return s.web(t, http.MethodPost, path, form.Encode(),
		"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Origin", s.url, "Cookie", cookie)
}

// enterAdmin lets a browser in by a link and returns its cookie.
func (s *system) enterAdmin(t testing.TB) string {
	t.Helper()
	_, code := s.adminLink(t)
	response, body := s.submit(t, "/admin/enter", url.Values{"code": {code}}, "")
	cookies := response.Cookies()
	if response.StatusCode != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("entering answers %d %s", response.StatusCode, body)
	}
	return cookies[0].Name + "=" + cookies[0].Value
}

func TestTheAdminLinkIsSpentByOnePost(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testkit.SQLite(t), settings: cheap})
	if response, _ := s.web(t, http.MethodGet, "/admin/plugin", ""); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger gets %d", response.StatusCode)
	}
	path, code := s.adminLink(t)
	for range 2 {
		response, body := s.web(t, http.MethodGet, path, "")
		if response.StatusCode != http.StatusOK || len(response.Cookies()) != 0 || !strings.Contains(body, `method="post"`) {
			t.Fatalf("opening the link answers %d %s", response.StatusCode, body)
		}
	}
	form := url.Values{"code": {code}}
	response, _ := s.web(t, http.MethodPost, "/admin/enter", form.Encode(),
		"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example")
	if response.StatusCode != http.StatusForbidden || len(response.Cookies()) != 0 {
		t.Errorf("a page of another site gets %d", response.StatusCode)
	}
	response, _ = s.submit(t, "/admin/enter", form, "")
	if response.StatusCode != http.StatusSeeOther || len(response.Cookies()) != 1 {
		t.Fatalf("the post answers %d", response.StatusCode)
	}
	cookie := response.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("the cookie is %v", cookie)
	}
	if again, _ := s.submit(t, "/admin/enter", form, ""); again.StatusCode != http.StatusForbidden || len(again.Cookies()) != 0 {
		t.Errorf("a second post answers %d", again.StatusCode)
	}
	response, body := s.web(t, http.MethodGet, "/admin/plugin", "", "Cookie", cookie.Name+"="+cookie.Value)
	if response.StatusCode != http.StatusOK || !strings.Contains(html.UnescapeString(body), s.plugin(t).Active.Version) {
		t.Errorf("to who entered the page is %d %.500s", response.StatusCode, body)
	}
	if policy := response.Header.Get("Content-Security-Policy"); policy == "" || strings.Contains(policy, "unsafe") {
		t.Errorf("the policy is %q", policy)
	}
}

// chart is what the page's chart gets.
type chart struct {
	All struct {
		Requests []int `json:"requests"`
		Errors   []int `json:"errors"`
	} `json:"all"`
	Marks []struct {
		Kind    string `json:"kind"`
		Version string `json:"version"`
	} `json:"marks"`
}

func (s *system) chart(t testing.TB, cookie string) chart {
	t.Helper()
	response, body := s.web(t, http.MethodGet, "/admin/plugin/traffic?since=0", "", "Cookie", cookie)
	var c chart
	if err := json.Unmarshal([]byte(body), &c); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("the chart's numbers are %d %s", response.StatusCode, body)
	}
	return c
}

func (c chart) has(kind, version string) bool {
	for _, mark := range c.Marks {
		if mark.Kind == kind && mark.Version == version {
			return true
		}
	}
	return false
}

func sum(numbers []int) (total int) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// An administrator swaps by the page and rolls back, and sees on its chart that
// nobody noticed.
func TestAVersionIsSwappedByThePageWhileVisitorsAreServed(t *testing.T) {
	t.Parallel()
	const newer = "1.1.0"
	s := start(t, options{database: testkit.SQLite(t), settings: cheap + unthrottled})
	s.install(t, testkit.PluginVersion(t, newer), newer)
	older := s.plugin(t).Active.Version
	cookie := s.enterAdmin(t)

	var visitors sync.WaitGroup
	stop, failures := make(chan struct{}), make(chan error, 4)
	for range 4 {
		u := s.newUser(t)
		visitors.Go(func() {
			if err := s.live(u, stop, func(time.Duration) {}); err != nil {
				failures <- err
			}
		})
	}
	change := func(path string, form url.Values, kind, version string) {
		t.Helper()
		if response, body := s.submit(t, "/admin/plugin/"+path, form, cookie); response.StatusCode != http.StatusSeeOther || response.Header.Get("Location") != "/admin/plugin" {
			t.Fatalf("%s answers %d %s", path, response.StatusCode, body)
		}
		eventually(t, version+" serves", func() bool { return s.plugin(t).Active.Version == version })
		eventually(t, "the chart marks it", func() bool { return s.chart(t, cookie).has(kind, version) })
	}
	change("use", url.Values{"version": {newer}}, "switched", newer)
	if _, page := s.web(t, http.MethodGet, "/admin/plugin", "", "Cookie", cookie); !strings.Contains(html.UnescapeString(page), "Roll back to "+older) {
		t.Error("the page offers no way back while the new version is on trial")
	}
	change("rollback", nil, "rolled_back", older)

	close(stop)
	visitors.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	if c := s.chart(t, cookie); sum(c.All.Requests) == 0 || sum(c.All.Errors) != 0 {
		t.Errorf("the chart shows %d requests and %d errors", sum(c.All.Requests), sum(c.All.Errors))
	}
}
