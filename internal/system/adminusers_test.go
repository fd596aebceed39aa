package system

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit"
)

// adminPage gets a page as an administrator.
func (s *system) adminPage(t testing.TB, cookie, path string) string {
	t.Helper()
	response, body := s.web(t, http.MethodGet, path, "", "Cookie", cookie)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s answers %d %s", path, response.StatusCode, body)
	}
	return body
}

// adminDoes posts a form as an administrator.
func (s *system) adminDoes(t testing.TB, cookie, path string, form url.Values) {
	t.Helper()
	if response, body := s.submit(t, path, form, cookie); response.StatusCode != http.StatusSeeOther {
		t.Fatalf("POST %s answers %d %s", path, response.StatusCode, body)
	}
}

var revisionInput = regexp.MustCompile(`name="revision" value="([^"]*)"`)

func TestAdministratorsChangeFieldsAndUsersInTheBrowser(t *testing.T) {
	t.Parallel()
	testkit.Databases(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap + unthrottled + links})
		admin := s.enterAdmin(t)
		t.Run("a field that is added counts from the next request on", func(t *testing.T) { testAddedField(t, s, admin) })
		t.Run("a read-only field is set", func(t *testing.T) { testSetField(t, s, admin) })
		t.Run("who is disabled is kept out", func(t *testing.T) { testDisabledByPage(t, s, admin) })
		t.Run("who is deleted is gone", func(t *testing.T) { testDeletedByPage(t, s, admin) })
		t.Run("mails are read", func(t *testing.T) { testReadMail(t, s, admin) })
	})
}

func testAddedField(t *testing.T, s *system, admin string) {
	revision := revisionInput.FindStringSubmatch(s.adminPage(t, admin, "/admin/fields/new"))[1]
	s.adminDoes(t, admin, "/admin/fields/new", url.Values{
		"revision": {revision}, "rows": {"1"}, "do": {"save"}, "name": {"shoe_size"}, "type": {"enum"}, "label_en": {"Shoe size"},
		"option_0_value": {"large"}, "option_0_en": {"Large"}, "order": {"1"},
	})
	if _, body := s.web(t, http.MethodGet, "/api/v1/personal/fields/", ""); !strings.Contains(body, `"shoe_size"`) || !strings.Contains(body, "Large") {
		t.Errorf("fields/ answers %s", body)
	}
	s.post(t, "register/", applicant(params{"shoe_size": "tiny"})).wantFaults(t, "validation_failed", faults{"shoe_size": "not_in_list"})
	s.post(t, "register/", applicant(params{"shoe_size": "large"})).want(t, "")
}

func testSetField(t *testing.T, s *system, admin string) {
	u := s.newUser(t)
	path := fmt.Sprintf("/admin/users/%d", u.ID)
	if page := s.adminPage(t, admin, "/admin/users?search="+u.login); !strings.Contains(page, `href="`+path+`"`) {
		t.Errorf("who is searched for is not listed: %s", page)
	}
	s.adminDoes(t, admin, path, url.Values{"customer_number": {"K-7"}, "internal_note": {"secret"}, "shown:newsletter": {"false"}})
	profile := s.getAs(t, u.pair, "profile/").profile(t)
	if profile["customer_number"] != "K-7" {
		t.Errorf("the profile is %v", profile)
	}
	if page := s.adminPage(t, admin, path); !strings.Contains(page, "secret") {
		t.Error("the hidden field is not shown to administrators")
	}
	response, body := s.submit(t, path, url.Values{"phone": {"nonsense"}, "shown:newsletter": {"false"}}, admin)
	if response.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(body, `id="field-phone-error"`) {
		t.Errorf("a faulty phone answers %d", response.StatusCode)
	}
}

func testDisabledByPage(t *testing.T, s *system, admin string) {
	u := s.newUser(t)
	path := fmt.Sprintf("/admin/users/%d", u.ID)
	s.adminDoes(t, admin, path+"/disable", nil)
	s.getAs(t, u.pair, "profile/").want(t, "unauthenticated")
	s.post(t, "auth/", params{"login": u.login, "password": u.password}).want(t, "account_disabled")
	s.post(t, "auth/", params{"login": u.login, "password": "wrong wrong"}).want(t, "invalid_credentials")
	eventually(t, "the pages tell of it", func() bool {
		return strings.Contains(s.adminPage(t, admin, "/admin/events?type=user_disabled"), `href="`+path+`"`)
	})
	var failed string
	eventually(t, "and of the sign-in that failed", func() bool {
		failed = s.adminPage(t, admin, "/admin/events?type=sign_in_failed")
		return strings.Contains(failed, "127.0.0.1") && strings.Contains(failed, `href="`+path+`"`)
	})
	if strings.Contains(failed, u.login) {
		t.Errorf("the page tells what was typed:\n%s", failed)
	}
	s.adminDoes(t, admin, path+"/enable", nil)
	s.wantDead(t, "a session from before", u.pair)
	next := s.signIn(t, u)
	s.adminDoes(t, admin, path+"/sessions", nil)
	s.wantDead(t, "a session that was ended", next)
}

func testDeletedByPage(t *testing.T, s *system, admin string) {
	u := s.newUser(t)
	path := "/admin/users/" + strconv.FormatInt(u.ID, 10)
	if response, _ := s.submit(t, path+"/delete", url.Values{"login": {"another"}}, admin); response.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("with another login typed: %d", response.StatusCode)
	}
	s.adminDoes(t, admin, path+"/delete", url.Values{"login": {u.login}})
	s.wantDead(t, "the session of who was deleted", u.pair)
	if response, _ := s.web(t, http.MethodGet, path, "", "Cookie", admin); response.StatusCode != http.StatusNotFound {
		t.Errorf("the page of who was deleted: %d", response.StatusCode)
	}
	s.post(t, "register/", applicant(params{"login": u.login, "email": u.email})).want(t, "")
}

var mailLink = regexp.MustCompile(`href="(/admin/mail/message/[^"]*)"`)

func testReadMail(t *testing.T, s *system, admin string) {
	u := s.newUser(t)
	s.post(t, "recover/", params{"login": u.login}).want(t, "")
	token := s.mailTo(t, u.email).token(t)
	path := html.UnescapeString(mailLink.FindStringSubmatch(s.adminPage(t, admin, "/admin/mail"))[1])
	for _, below := range []string{"", "/html", "/source"} {
		if page := s.adminPage(t, admin, path+below); !strings.Contains(page, token) {
			t.Errorf("%s does not show the code of the mail", path+below)
		}
		if response, body := s.web(t, http.MethodGet, path+below, ""); response.StatusCode != http.StatusUnauthorized || strings.Contains(body, token) {
			t.Errorf("a stranger gets %s: %d", path+below, response.StatusCode)
		}
	}
}
