package system

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cms-personal/personal/internal/mailtext"
	"github.com/cms-personal/personal/internal/testkit"
	"github.com/cms-personal/personal/internal/testkit/testdb"
	"github.com/cms-personal/personal/shared/plugins/manager"
)

// adminToken reads the token of the admin API.
func (s *system) adminToken(t testing.TB) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(s.data, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(token))
}

// admin calls the admin API with its token. Headers are pairs of name and value.
func (s *system) admin(t testing.TB, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	return s.web(t, method, "/admin/api/"+path, body, append([]string{"Authorization", "Bearer " + s.adminToken(t)}, headers...)...)
}

// putSchema replaces the schema of user fields.
func (s *system) putSchema(t testing.TB, schema string) {
	t.Helper()
	if got, body := s.admin(t, http.MethodPut, "user-fields", schema); got.StatusCode/100 != 2 {
		t.Fatalf("PUT user-fields: got %d %s", got.StatusCode, body)
	}
}

// pluginStatus is the part of GET /admin/api/plugin that tests read.
type pluginStatus struct {
	Active struct {
		Version    string   `json:"version"`
		Generation int      `json:"generation"`
		PID        int      `json:"pid"`
		State      string   `json:"state"`
		Warnings   []string `json:"warnings"`
		LastError  string   `json:"last_error"`

		UnknownSettings []manager.UnknownSetting `json:"unknown_settings"`
	} `json:"active"`
	Versions []struct {
		Version string `json:"version"`
		SHA256  string `json:"sha256"`
	} `json:"versions"`
}

func (s *system) plugin(t testing.TB) pluginStatus {
	t.Helper()
	got, body := s.admin(t, http.MethodGet, "plugin", "")
	var status pluginStatus
	if err := json.Unmarshal([]byte(body), &status); err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("GET plugin: got %d %s", got.StatusCode, body)
	}
	return status
}

// events returns the number of events of a type that the host has logged for an account.
func (s *system) events(t testing.TB, kind string, userID int64) int {
	t.Helper()
	return len(s.log.linesWith(fmt.Sprintf(`msg="account event" type=%s user_id=%d `, kind, userID)))
}

// disable disables an account in the database, without an event.
func disable(t testing.TB, database, login string) {
	t.Helper()
	if n := execute(t, database, "UPDATE personal_accounts SET disabled = (1 = 1) WHERE login = '"+login+"'"); n != 1 {
		t.Fatalf("%d accounts were disabled, want 1", n)
	}
}

// adminLink requests a link to the admin pages from the running host. It returns the
// link's path and fragment, and the code in it.
func (s *system) adminLink(t testing.TB) (path, code string) {
	t.Helper()
	out, err := exec.Command(testkit.Binaries(t).Host, "admin-link", "--data", s.data).Output()
	if err != nil {
		t.Fatalf("admin-link: %v", err)
	}
	path, ok := strings.CutPrefix(strings.TrimSpace(string(out)), named(s.url))
	if !ok {
		t.Fatalf("got %q of admin-link, want a URL of the host", out)
	}
	_, code, _ = strings.Cut(path, "code=")
	return path, code
}

// submit posts the form of a page, as a browser does.
func (s *system) submit(t testing.TB, path string, form url.Values, cookie string) (*http.Response, string) {
	t.Helper()
	return s.web(t, http.MethodPost, path, form.Encode(),
		"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Origin", s.url, "Cookie", cookie)
}

// enterAdmin signs an administrator in by a link and returns the cookie.
func (s *system) enterAdmin(t testing.TB) string {
	t.Helper()
	_, code := s.adminLink(t)
	got, body := s.submit(t, "/admin/enter", url.Values{"code": {code}}, "")
	cookies := got.Cookies()
	if got.StatusCode != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("POST enter: got %d %s", got.StatusCode, body)
	}
	return cookies[0].Name + "=" + cookies[0].Value
}

// testLoopbackName opens the admin pages by a loopback name, through a proxy that is not trusted.
func testLoopbackName(t *testing.T, s *system) {
	cookie := s.enterAdmin(t)
	for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP"} {
		_, code := s.adminLink(t)
		got, _ := s.web(t, http.MethodPost, "/admin/enter", url.Values{"code": {code}}.Encode(),
			"Content-Type", "application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin", "Origin", s.url, header, "192.0.2.7")
		page, _ := s.web(t, http.MethodGet, "/admin/plugin", "", "Cookie", cookie, header, "192.0.2.7")
		if got.StatusCode != http.StatusForbidden || page.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: got %d for the link and %d for a page, want 403 and 401", header, got.StatusCode, page.StatusCode)
		}
	}
	if got, _ := s.web(t, http.MethodGet, "/admin/plugin", "", "Cookie", cookie); got.StatusCode != http.StatusOK {
		t.Errorf("without a proxy: got %d, want 200", got.StatusCode)
	}
}

// printedLink is part of the link that a host prints, on a terminal only.
const printedLink = "/admin/enter#code="

// testNoAdminLink checks that a host without a terminal prints no link, but the command for one.
func testNoAdminLink(t *testing.T, s *system) {
	eventually(t, "the host prints its addresses", func() bool { return strings.Contains(s.log.String(), "Try it:") })
	if log := s.log.String(); strings.Contains(log, printedLink) || !strings.Contains(log, "admin-link --data "+s.data) {
		t.Errorf("got %s, want no link but the command that prints one", log)
	}
}

// chart is the data of the page's chart.
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
	got, body := s.web(t, http.MethodGet, "/admin/plugin/traffic?since=0", "", "Cookie", cookie)
	var c chart
	if err := json.Unmarshal([]byte(body), &c); err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("GET of the chart data: got %d %s", got.StatusCode, body)
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

// TestAdminPages_SwapWhileUsersAreServed swaps and rolls back on the plugin page. Its
// chart marks both, and shows no errors.
func TestAdminPages_SwapWhileUsersAreServed(t *testing.T) {
	t.Parallel()
	s, newer := startWithTwo(t)
	older := s.plugin(t).Active.Version
	cookie := s.enterAdmin(t)

	var users sync.WaitGroup
	stop, failures := make(chan struct{}), make(chan error, 4)
	for range 4 {
		u := s.newUser(t)
		users.Go(func() {
			if err := s.live(u, stop, pause, func(time.Duration) {}); err != nil {
				failures <- err
			}
		})
	}
	change := func(path string, form url.Values, kind, version string) {
		t.Helper()
		if got, body := s.submit(t, "/admin/plugin/"+path, form, cookie); got.StatusCode != http.StatusSeeOther ||
			got.Header.Get("Location") != "/admin/plugin" {
			t.Fatalf("POST %s: got %d %s", path, got.StatusCode, body)
		}
		eventually(t, version+" serves", func() bool { return s.plugin(t).Active.Version == version })
		eventually(t, "the chart marks "+kind+" "+version, func() bool { return s.chart(t, cookie).has(kind, version) })
	}
	change("use", url.Values{"version": {newer}}, "switched", newer)
	if _, page := s.web(t, http.MethodGet, "/admin/plugin", "", "Cookie", cookie); !strings.Contains(html.UnescapeString(page),
		"Roll back to "+older) {
		t.Error("the page offers no rollback during the bake")
	}
	change("rollback", nil, "rolled_back", older)

	close(stop)
	users.Wait()
	close(failures)
	for err := range failures {
		t.Error(err)
	}
	if c := s.chart(t, cookie); sum(c.All.Requests) == 0 || sum(c.All.Errors) != 0 {
		t.Errorf("the chart shows %d requests and %d errors, want requests and no errors", sum(c.All.Requests), sum(c.All.Errors))
	}
}

// adminPage returns a page as an administrator sees it.
func (s *system) adminPage(t testing.TB, cookie, path string) string {
	t.Helper()
	got, body := s.web(t, http.MethodGet, path, "", "Cookie", cookie)
	if got.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: got %d %s", path, got.StatusCode, body)
	}
	return body
}

// adminSubmit posts a form as an administrator and checks that it succeeds.
func (s *system) adminSubmit(t testing.TB, cookie, path string, form url.Values) {
	t.Helper()
	if got, body := s.submit(t, path, form, cookie); got.StatusCode != http.StatusSeeOther {
		t.Fatalf("POST %s: got %d %s", path, got.StatusCode, body)
	}
}

var revisionInput = regexp.MustCompile(`name="revision" value="([^"]*)"`)

func TestAdminPages_FieldsAndUsers(t *testing.T) {
	t.Parallel()
	s := start(t, options{database: testdb.SQLite(t), settings: cheap + unthrottled + links})
	admin := s.enterAdmin(t)
	t.Run("added field counts from the next request on", func(t *testing.T) { testAddedField(t, s, admin) })
	t.Run("read-only field is set", func(t *testing.T) { testSetField(t, s, admin) })
	t.Run("mails are shown", func(t *testing.T) { testReadMail(t, s, admin) })
	t.Run("default of a required field is filled in", func(t *testing.T) { testFilledField(t, s) }) // last: it ends with another schema
}

func testAddedField(t *testing.T, s *system, admin string) {
	revision := revisionInput.FindStringSubmatch(s.adminPage(t, admin, "/admin/fields/new"))[1]
	s.adminSubmit(t, admin, "/admin/fields/new", url.Values{
		"revision": {revision}, "rows": {"1"}, "do": {"save"}, "name": {"shoe_size"}, "type": {"enum"}, "label_en": {"Shoe size"},
		"option_0_value": {"large"}, "option_0_en": {"Large"}, "order": {"1"},
	})
	if _, body := s.web(t, http.MethodGet, "/api/v1/personal/fields/", ""); !strings.Contains(body, `"shoe_size"`) ||
		!strings.Contains(body, "Large") {
		t.Errorf("fields/: got %s, want the added field", body)
	}
	s.post(t, "register/", applicant(params{"shoe_size": "tiny"})).wantFields(t, "validation_failed", fieldErrors{"shoe_size": "not_in_list"})
	s.post(t, "register/", applicant(params{"shoe_size": "large"})).want(t, "")
}

func testSetField(t *testing.T, s *system, admin string) {
	u := s.newUser(t)
	path := fmt.Sprintf("/admin/users/%d", u.ID)
	if page := s.adminPage(t, admin, "/admin/users?search="+u.login); !strings.Contains(page, `href="`+path+`"`) {
		t.Errorf("the search does not list the user: %s", page)
	}
	s.adminSubmit(t, admin, path, url.Values{"customer_number": {"K-7"}, "internal_note": {"secret"}, "shown:newsletter": {"false"}})
	profile := s.getAs(t, u.pair, "profile/").profile(t)
	if profile["customer_number"] != "K-7" {
		t.Errorf("got profile %v, want the customer number K-7", profile)
	}
	if page := s.adminPage(t, admin, path); !strings.Contains(page, "secret") {
		t.Error("the hidden field is not shown")
	}
	got, body := s.submit(t, path, url.Values{"phone": {"nonsense"}, "shown:newsletter": {"false"}}, admin)
	if got.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(body, `id="field-phone-error"`) {
		t.Errorf("invalid phone: got %d, want 422 with a field error", got.StatusCode)
	}
}

var mailLink = regexp.MustCompile(`href="(/admin/mail/message/[^"]*)"`)

func testReadMail(t *testing.T, s *system, admin string) {
	u := s.newUser(t)
	s.awaitJobs(t) // the first mail of the list is that of the recovery
	s.post(t, "recover/", params{"login": u.login}).want(t, "")
	token := s.mailTo(t, mailtext.Recovery, u.email).token(t)
	path := html.UnescapeString(mailLink.FindStringSubmatch(s.adminPage(t, admin, "/admin/mail"))[1])
	for _, below := range []string{"", "/html", "/source"} {
		if page := s.adminPage(t, admin, path+below); !strings.Contains(page, token) {
			t.Errorf("%s does not show the token of the mail", path+below)
		}
		if got, body := s.web(t, http.MethodGet, path+below, ""); got.StatusCode != http.StatusUnauthorized || strings.Contains(body, token) {
			t.Errorf("%s without a cookie: got %d, want 401", path+below, got.StatusCode)
		}
	}
}

// testFilledField requires a field that no user has, and has its default filled in.
func testFilledField(t *testing.T, s *system) {
	const withCountry = `[{"name":"country","type":"text","required":true,"default":"Latvia"}]`
	s.putSchema(t, `[]`)
	u := s.newUser(t)
	if got, body := s.admin(t, http.MethodPost, "user-fields/rehearsal", withCountry); got.StatusCode != http.StatusOK ||
		!strings.Contains(body, `"fields":{"country":"required"}`) || strings.Contains(body, `"fillable":0`) {
		t.Errorf("POST user-fields/rehearsal: got %d %s, want that users lack a country, which can be filled in", got.StatusCode, body)
	}
	if got, body := s.admin(t, http.MethodPut, "user-fields?violations=default", withCountry); got.StatusCode != http.StatusOK {
		t.Fatalf("PUT user-fields?violations=default: got %d %s", got.StatusCode, body)
	}
	eventually(t, "the default is filled in", func() bool {
		_, body := s.admin(t, http.MethodGet, "user-fields/fill", "")
		return strings.Contains(body, `"state":"done"`)
	})
	if got := s.getAs(t, u.pair, "profile/").profile(t)["country"]; got != "Latvia" {
		t.Errorf("got country %v, want the default", got)
	}
}
