package adminpages_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/host-sample/adminpages"
	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// plugin is an administration with one user, number 42, and what was asked of it.
type plugin struct {
	personaltest.Administration
	user     personal.UserRecord
	found    personal.FindUsersRequest
	updated  *personal.UpdateUserRequest
	emails   []personal.SetEmailRequest
	done     []string
	sessions []personal.Session
	err      error // of every call
}

func newPlugin() *plugin {
	name := "Anna"
	p := &plugin{user: personal.UserRecord{
		User: personal.User{ID: 42, Login: "anna", Name: &name, Email: "anna@example.com", Created: second(1), Updated: second(2), LastSeen: second(3)},
		Fields: []personal.ProfileField{
			{Name: "phone", Value: "+7 900 000"}, {Name: "city", Value: "kazan"}, {Name: "interests", Value: []string{"a", "b"}},
			{Name: "newsletter", Value: true}, {Name: "customer_number", Value: "K-1"}, {Name: "internal_note", Value: nil},
		},
	}}
	only := func(id int64) error {
		if p.err != nil {
			return p.err
		}
		if id != 42 {
			return personal.NewError(personal.CodeNotFound, nil)
		}
		return nil
	}
	do := func(what string) func(context.Context, int64) error {
		return func(_ context.Context, id int64) error {
			err := only(id)
			if err == nil {
				p.done = append(p.done, what)
			}
			return err
		}
	}
	p.FindUsersFunc = func(_ context.Context, r personal.FindUsersRequest) (personal.UserPage, error) {
		p.found = r
		return personal.UserPage{Users: []personal.User{p.user.User}, Next: 41}, p.err
	}
	p.UserFunc = func(_ context.Context, id int64) (personal.UserRecord, error) { return p.user, only(id) }
	p.UserSessionsFunc = func(_ context.Context, id int64) ([]personal.Session, error) { return p.sessions, only(id) }
	p.UpdateUserFunc = func(_ context.Context, r personal.UpdateUserRequest) error {
		p.updated = &r
		return only(r.UserID)
	}
	p.SetEmailFunc = func(_ context.Context, r personal.SetEmailRequest) error {
		p.emails = append(p.emails, r)
		return only(r.UserID)
	}
	p.DisableUserFunc, p.EnableUserFunc = do("disable"), do("enable")
	p.RevokeUserSessionsFunc, p.DeleteUserFunc = do("end"), do("delete")
	return p
}

func openUsers(t *testing.T, p *plugin) *browser {
	t.Helper()
	return open(t, func(o *adminpages.Options) { o.Users = p })
}

func TestUsersAreFoundPageByPage(t *testing.T) {
	p := newPlugin()
	b := openUsers(t, p)
	page := b.page(t, "/admin/users?search=ann%26a&state=disabled&after=50")
	want := personal.FindUsersRequest{Search: "ann&a", State: personal.UserDisabled, After: 50}
	if diff := cmp.Diff(want, p.found); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{
		`href="/admin/users/42"`, "anna@example.com", `value="ann&amp;a"`, `<option value="disabled" selected>`,
		`href="/admin/users?after=41&amp;search=ann%26a&amp;state=disabled"`, `href="/admin/users?search=ann%26a&amp;state=disabled"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
}

func TestASearchThatIsRefusedIsExplainedAtItsControl(t *testing.T) {
	p := newPlugin()
	p.err = personal.FieldErrors{"search": personal.FieldErrorTooLong}.Err()
	w := openUsers(t, p).get("/admin/users?search=x")
	if page := w.Body.String(); w.Code != http.StatusUnprocessableEntity || faultAt(page, "search") == "" {
		t.Errorf("%d %s", w.Code, page)
	}
}

func TestAUsersPageShowsEverything(t *testing.T) {
	p := newPlugin()
	p.sessions = []personal.Session{{ID: "s1", Address: "192.0.2.7", Agent: script, Created: second(1), LastSeen: second(2)}}
	page := openUsers(t, p).page(t, "/admin/users/42")
	for _, want := range []string{
		"anna@example.com", "192.0.2.7", `name="customer_number" type="text" value="K-1"`, `id="field-internal_note"`, "\na\nb</textarea>",
		`<option value="kazan" selected>`, `href="/admin/events?user=42"`, `action="/admin/users/42/disable"`, `name="newsletter" type="checkbox" value="true" checked`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(page, "/enable") {
		t.Error("who is active can be enabled")
	}
	wantNoMarkup(t, page)
}

func TestOnlyWhatWasChangedOnThePageIsSaved(t *testing.T) {
	p := newPlugin()
	b := openUsers(t, p)
	values := shownValues(t, b.page(t, "/admin/users/42"))
	b.do(t, "/admin/users/42", values)
	if p.updated != nil {
		t.Errorf("nothing was changed, yet %+v was saved", *p.updated)
	}
	p.user.Fields[0].Value = "changed by its user meanwhile"
	values.Set("customer_number", "K-2")
	values.Set("internal_note", "late\r\npayer")
	values.Set("interests", "a\r\nc")
	values.Set("city", "")
	values.Set("name", "")
	values.Del("newsletter")
	b.do(t, "/admin/users/42", values)
	want := personal.UpdateUserRequest{UserID: 42, Fields: map[string]personal.Input{
		"customer_number": personal.Text("K-2"), "internal_note": personal.Text("late\npayer"), "city": {}, "name": {},
		"interests": {Kind: personal.InputList, List: []string{"a", "c"}}, "newsletter": personal.Text("false"),
	}}
	if diff := cmp.Diff(want, *p.updated); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsWrongWithAUsersFieldIsSaidBesideItAndStaysAsTyped(t *testing.T) {
	p := newPlugin()
	b := openUsers(t, p)
	p.UpdateUserFunc = func(context.Context, personal.UpdateUserRequest) error {
		return personal.FieldErrors{"phone": personal.FieldErrorInvalidFormat}.Err()
	}
	values := shownValues(t, b.page(t, "/admin/users/42"))
	values.Set("phone", script)
	w := b.post("/admin/users/42", values)
	page := w.Body.String()
	if w.Code != http.StatusUnprocessableEntity || faultAt(page, "phone") == "" || hidden(page, "shown:phone") != "+7 900 000" {
		t.Errorf("%d %s", w.Code, page)
	}
	wantNoMarkup(t, page)
}

func TestUsersAreDisabledEnabledAndSignedOut(t *testing.T) {
	p := newPlugin()
	b := openUsers(t, p)
	for path, want := range map[string]string{"disable": "disable", "enable": "enable", "sessions": "end"} {
		p.done = nil
		b.do(t, "/admin/users/42/"+path, nil)
		if len(p.done) != 1 || p.done[0] != want {
			t.Errorf("%s did %v", path, p.done)
		}
		if w := b.get("/admin/users/42/" + path); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", path, w.Code)
		}
		if w := b.post("/admin/users/41/"+path, nil); w.Code != http.StatusNotFound {
			t.Errorf("%s of nobody: %d", path, w.Code)
		}
	}
	p.user.Disabled = true
	if page := b.page(t, "/admin/users/42"); !strings.Contains(page, "/enable") || strings.Contains(page, "/disable") {
		t.Error("who is disabled cannot be enabled")
	}
}

func TestAUserIsDeletedOnceHisLoginHasBeenTyped(t *testing.T) {
	p := newPlugin()
	b := openUsers(t, p)
	if page := b.page(t, "/admin/users/42/delete"); !strings.Contains(page, "type the login: anna") {
		t.Error(page)
	}
	for _, login := range []string{"", "ann", "Anna"} {
		w := b.post("/admin/users/42/delete", url.Values{"login": {login}})
		if w.Code != http.StatusUnprocessableEntity || faultAt(w.Body.String(), "login") == "" || p.done != nil {
			t.Errorf("%q: %d, did %v", login, w.Code, p.done)
		}
	}
	b.do(t, "/admin/users/42/delete", url.Values{"login": {"anna"}})
	if len(p.done) != 1 || p.done[0] != "delete" {
		t.Errorf("did %v", p.done)
	}
}

func TestNamesOfUsersAreNeverMarkup(t *testing.T) {
	p := newPlugin()
	name := script
	p.user.Login, p.user.Name, p.user.Email = script, &name, script
	p.user.Fields[0].Value, p.user.Fields[5].Value = script, script
	b := openUsers(t, p)
	for _, path := range []string{"/admin/users?search=" + url.QueryEscape(script), "/admin/users/42", "/admin/users/42/delete"} {
		wantNoMarkup(t, b.page(t, path))
	}
}

func TestWithoutThePluginThePagesOfUsersSaySoAndTheOthersGoOn(t *testing.T) {
	p := newPlugin()
	b := openUsers(t, p)
	for _, test := range []struct {
		err         error
		status      int
		text, retry string
	}{
		{&personal.Error{Code: personal.CodeUnavailable, RetryAfter: time.Second}, 503, "does not answer", "1"},
		{personal.NewError(personal.CodeNotFound, nil), 501, "Use a newer one", ""},
		{errors.New("a secret"), 500, "Something went wrong", ""},
	} {
		p.err = test.err
		for _, path := range []string{"/admin/users", "/admin/users/42", "/admin/users/42/delete"} {
			w := b.get(path)
			page := w.Body.String()
			if w.Code != test.status || !strings.Contains(page, test.text) || strings.Contains(page, "a secret") || w.Header().Get("Retry-After") != test.retry {
				t.Errorf("%s: %d %s", path, w.Code, page)
			}
			if again := fmt.Sprintf(`href="%s">Try again`, path); strings.Contains(page, again) != (test.retry != "") {
				t.Errorf("%s: trying again is offered wrongly", path)
			}
			if !strings.Contains(page, `href="/admin/fields"`) {
				t.Errorf("%s leads nowhere", path)
			}
		}
		if w := b.post("/admin/users/42/disable", nil); w.Code != test.status {
			t.Errorf("disabling: %d", w.Code)
		}
		b.page(t, "/admin/fields")
		b.page(t, "/admin/events")
	}
	p.err = nil
	for _, id := range []string{"41", "0", "-1", "x", "99999999999999999999"} {
		if w := b.get("/admin/users/" + id); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no such user") {
			t.Errorf("user %s: %d", id, w.Code)
		}
	}
}
