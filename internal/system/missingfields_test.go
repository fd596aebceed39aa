package system

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// Schemas for users who have none of their fields.
const (
	withCountry = `[{"name":"country","type":"text","required":true,"default":"Latvia"}]`
	withStreet  = `[{"name":"country","type":"text","required":true,"default":"Latvia"},{"name":"street","type":"text","required":true,"max_length":20}]`
)

// testMissingFields makes the schema stricter in the three ways that administrators can
// choose, and has a user fill in what is missing.
func testMissingFields(t *testing.T, s *system, admin string) {
	s.putSchema(t, `[]`)
	u := s.newUser(t)
	wantMissing := func(when string, want ...string) {
		t.Helper()
		var got []string
		if r := s.getAs(t, u.pair, "profile/").want(t, ""); r.Data["missing_fields"] != nil {
			r.read(t, "missing_fields", &got)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: got missing fields %q, want %q", when, got, want)
		}
	}
	found := struct {
		Accounts, Violations, Fillable int
		AtLeast                        bool `json:"at_least"`
		Examples                       []struct {
			UserID int64 `json:"user_id"`
			Login  string
			Fields map[string]string
		}
	}{}
	refused := func(method, path string, status int, fillable bool) {
		t.Helper()
		got, body := s.admin(t, method, path, map[bool]string{true: withCountry, false: withStreet}[fillable])
		err := json.Unmarshal([]byte(body), &found)
		if err != nil || got.StatusCode != status || found.Accounts < 1 || found.Violations != found.Accounts || found.AtLeast ||
			(found.Fillable == found.Accounts) != fillable || len(found.Examples) == 0 || found.Examples[0].Fields["country"] != "required" {
			t.Fatalf("%s %s: got %d %s, want %d and that every user lacks a country", method, path, got.StatusCode, body, status)
		}
	}
	refused(http.MethodPost, "user-fields/rehearsal", http.StatusOK, true)
	refused(http.MethodPut, "user-fields?violations=refuse", http.StatusConflict, false)
	if _, schema := s.admin(t, http.MethodGet, "user-fields", ""); schema != `[]` {
		t.Fatalf("got schema %s saved, want none", schema)
	}
	wantMissing("after a refusal")

	if got, body := s.admin(t, http.MethodPut, "user-fields?violations=default", withCountry); got.StatusCode != http.StatusOK ||
		body != withCountry {
		t.Fatalf("PUT user-fields?violations=default: got %d %s", got.StatusCode, body)
	}
	eventually(t, "the default is filled in", func() bool {
		_, body := s.admin(t, http.MethodGet, "user-fields/fill", "")
		return strings.Contains(body, `"state":"done"`)
	})
	wantMissing("after filling in")
	if got := s.getAs(t, u.pair, "profile/").profile(t)["country"]; got != "Latvia" {
		t.Errorf("got country %v, want the default", got)
	}
	if page := s.adminPage(t, admin, "/admin/fields"); !strings.Contains(page, "defaults were filled in") {
		t.Error("the page of the user fields does not show that the defaults were filled in")
	}
	if got, body := s.admin(t, http.MethodPut, "user-fields?violations=refuse", withCountry); got.StatusCode != http.StatusOK {
		t.Errorf("PUT user-fields?violations=refuse without violations: got %d %s", got.StatusCode, body)
	}

	// On the pages, the administrator sees the numbers first.
	proposed := url.Values{"source": {withStreet}, "revision": {revisionInput.FindStringSubmatch(s.adminPage(t, admin,
		"/admin/fields/json"))[1]}}
	got, page := s.submit(t, "/admin/fields/json", proposed, admin)
	if got.StatusCode != http.StatusOK || !strings.Contains(page, html.EscapeString(withStreet)) ||
		!strings.Contains(page, "Nothing is saved yet") {
		t.Fatalf("POST json: got %d %s, want the page that asks", got.StatusCode, page)
	}
	wantMissing("before the choice")
	proposed.Set("violations", "ask")
	s.adminSubmit(t, admin, "/admin/fields/choose", proposed)
	wantMissing("after the choice", "street")

	cookie := s.enter(t, u)
	got, _ = s.web(t, http.MethodGet, "/demo/complete", "", "Cookie", cookie)
	ask := got.Header.Get("Location")
	if got.StatusCode != http.StatusSeeOther || !strings.HasPrefix(ask, "/account/complete?") {
		t.Fatalf("the page for complete profiles: got %d to %q, want the page that asks", got.StatusCode, ask)
	}
	_, page = s.web(t, http.MethodGet, ask, "", "Cookie", cookie)
	if !strings.Contains(page, `name="street"`) || strings.Contains(page, `name="country"`) {
		t.Errorf("want a form for the missing field alone:\n%s", page)
	}
	if got, page = s.submit(t, ask, url.Values{"street": {strings.Repeat("x", 21)}},
		cookie); got.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("an invalid value: got %d %s, want 422", got.StatusCode, page)
	}
	if got, _ = s.submit(t, ask, url.Values{"street": {"Brivibas 1"}}, cookie); got.StatusCode != http.StatusSeeOther ||
		got.Header.Get("Location") != "/demo/complete" {
		t.Errorf("a valid value: got %d to %q, want the page that the user opened", got.StatusCode, got.Header.Get("Location"))
	}
	if got, page = s.web(t, http.MethodGet, "/demo/complete", "", "Cookie", cookie); got.StatusCode != http.StatusOK {
		t.Errorf("with a complete profile: got %d %s, want 200", got.StatusCode, page)
	}
	wantMissing("with a complete profile")
}
