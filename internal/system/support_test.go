package system

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cms-personal/personal/internal/testkit/testdb"
)

var (
	hiddenInputs = regexp.MustCompile(`<input type="hidden" name="(user|login|address)" value="([^"]*)">`)
	buttonAction = regexp.MustCompile(`action="(/admin/support/[^"]*)"`)
)

// decisive returns the decisive verdict of the page of support.
func decisive(t testing.TB, page string) string {
	t.Helper()
	_, verdict, found := strings.Cut(page, `<section class="card verdict`)
	if !found {
		t.Fatalf("the page has no verdict: %s", page)
	}
	verdict, _, _ = strings.Cut(verdict, "</section>")
	return html.UnescapeString(verdict)
}

// help presses the button beside the decisive verdict, and returns the page it leads to.
func (v *visitor) help(t testing.TB, page string) string {
	t.Helper()
	verdict := decisive(t, page)
	action := buttonAction.FindStringSubmatch(verdict)
	if action == nil {
		t.Fatalf("the verdict has no button: %s", verdict)
	}
	values := url.Values{}
	for _, found := range hiddenInputs.FindAllStringSubmatch(verdict, -1) {
		values.Set(found[1], found[2])
	}
	return v.get(t, v.post(t, action[1], values).Header.Get("Location"))
}

// TestSupportPage_ButtonHelpsTheUser finds why users cannot sign in, presses the button
// beside the reason, and signs in again.
func TestSupportPage_ButtonHelpsTheUser(t *testing.T) {
	t.Parallel()
	testdb.Database(t, func(t *testing.T, database string) {
		s := start(t, options{database: database, settings: cheap, flags: []string{"--trusted-proxy", "127.0.0.0/8"}})
		admin := s.visitor(t)
		_, code := s.adminLink(t)
		admin.post(t, "/admin/enter", url.Values{"code": {code}})
		u := s.newUser(t)
		ask := func(address string) string {
			return admin.get(t, "/admin/support?"+url.Values{"login": {u.login}, "address": {address}}.Encode())
		}
		signIn := func(address string) *response {
			return s.do(t, call{path: "auth/", header: from(address), params: params{"login": u.login, "password": u.password}})
		}

		s.guess(t, call{path: "auth/", header: from("192.0.2.1"), params: params{"login": u.login, "password": "wrong wrong"}},
			"invalid_credentials")
		signIn("192.0.2.1").want(t, "too_many_attempts")
		page := ask("192.0.2.1")
		if verdict := decisive(t, page); !strings.Contains(verdict, "Too many wrong passwords for") || !strings.Contains(verdict, "192.0.2.1") {
			t.Errorf("after wrong passwords: got %s, want the limit of guesses and the address", verdict)
		}
		if page := admin.help(t, page); !strings.Contains(page, "The limits of the account have been lifted.") {
			t.Errorf("lifting the limits: got no notice: %s", page)
		}
		signIn("192.0.2.1").want(t, "")

		disable(t, database, u.login)
		signIn("192.0.2.1").want(t, "account_disabled")
		if page := admin.help(t, ask("")); !strings.Contains(page, `action="/admin/support/disable"`) {
			t.Errorf("enabling: got no button that undoes it: %s", page)
		}
		signIn("192.0.2.1").want(t, "")

		unknown := unique()
		if verdict := decisive(t, admin.get(t, "/admin/support?login="+unknown)); !strings.Contains(verdict,
			`href="/admin/users/new?login=`+unknown+`"`) {
			t.Errorf("an unknown login: got %s, want a link that creates the user", verdict)
		}

		history := admin.get(t, "/admin/users/"+strconv.FormatInt(u.ID, 10)+"/events")
		for _, want := range []string{"Limits lifted", "Enabled", "by administrator", "Sign-in failed", "Registered"} {
			if !strings.Contains(history, want) {
				t.Errorf("the history lacks %q: %s", want, history)
			}
		}
		admin.send(t, http.StatusUnprocessableEntity, http.MethodGet, "/admin/support?login="+u.login+"&address=192.0.2.0/24", nil)
		if log := s.log.String(); strings.Contains(log, "/admin/support?") || strings.Contains(log, "login="+u.login) ||
			strings.Contains(log, "192.0.2.0/24") {
			t.Errorf("the log has what was asked: %s", log)
		}
	})
}
