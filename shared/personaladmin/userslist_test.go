package personaladmin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
	"github.com/cms-personal/personal/shared/personal/personaltest"
)

// manyUsers is an administration with several users, which records the calls that change
// them.
type manyUsers struct {
	personaltest.Administration
	users []*personal.User
	errs  map[int64]error // of changes, by user
	done  []string
}

// newManyUsers has anna (9), boris (8, disabled), vera (7, without e-mail) and gleb (6,
// whose account is to be erased).
func newManyUsers() *manyUsers {
	p := &manyUsers{errs: map[int64]error{}, users: []*personal.User{
		{ID: 9, Login: "anna", Email: "anna@example.com", Created: second(1)},
		{ID: 8, Login: "boris", Email: "boris@example.com", Disabled: true},
		{ID: 7, Login: "vera", UnverifiedEmail: "vera@example.com"},
		{ID: 6, Login: "gleb", Email: "gleb@example.com", Disabled: true, EraseAt: second(9), TwoFactor: true},
	}}
	p.FindUsersFunc = func(context.Context, personal.FindUsersRequest) (personal.UserPage, error) {
		var page personal.UserPage
		for _, u := range p.users {
			page.Users = append(page.Users, *u)
		}
		return page, nil
	}
	find := func(id int64) (*personal.User, error) {
		if i := slices.IndexFunc(p.users, func(u *personal.User) bool { return u.ID == id }); i >= 0 {
			return p.users[i], nil
		}
		return &personal.User{}, personal.NewError(personal.CodeNotFound, nil)
	}
	p.UserFunc = func(_ context.Context, id int64) (personal.UserRecord, error) {
		u, err := find(id)
		return personal.UserRecord{User: *u}, err
	}
	p.UserSessionsFunc = func(context.Context, int64) ([]personal.Session, error) { return nil, nil }
	change := func(what string, change func(*personal.User)) func(context.Context, int64) error {
		return func(_ context.Context, id int64) error {
			p.done = append(p.done, fmt.Sprint(what, " ", id))
			u, err := find(id)
			if err == nil {
				err = p.errs[id]
			}
			if err == nil {
				change(u)
			}
			return err
		}
	}
	p.DisableUserFunc = change("disable", func(u *personal.User) { u.Disabled = true })
	p.EnableUserFunc = change("enable", func(u *personal.User) { u.Disabled = false })
	p.RevokeUserSessionsFunc = change("sign out", func(*personal.User) {})
	p.DeleteUserFunc = change("delete", func(gone *personal.User) {
		p.users = slices.DeleteFunc(p.users, func(u *personal.User) bool { return u == gone })
	})
	return p
}

func openMany(t *testing.T, p *manyUsers) (*browser, *recovery) {
	t.Helper()
	b, mails := open(t), &recovery{}
	b.users.Administration, b.users.Recovery = p, mails
	return b, mails
}

// follow posts a form that must succeed, and returns the page that it leads to and its path.
func (b *browser) follow(t *testing.T, path string, values url.Values) (page, at string) {
	t.Helper()
	w := b.post(path, values)
	if w.Code != http.StatusSeeOther {
		t.Fatalf("POST %s: got status %d, want 303: %s", path, w.Code, w.Body)
	}
	at = w.Header().Get("Location")
	return b.page(t, at), at
}

func selected(do string, ids ...string) url.Values { return url.Values{"do": {do}, "user": ids} }

var undoButton = regexp.MustCompile(`action="/admin/users/undo"><button[^>]* name="action" value="([^"]*)"`)

// undoOf returns what the undo button of a page sends, empty without one.
func undoOf(page string) string {
	if found := undoButton.FindStringSubmatch(page); found != nil {
		return found[1]
	}
	return ""
}

func TestUsersList_IsATableWithTheStateOfEach(t *testing.T) {
	b, _ := openMany(t, newManyUsers())
	page := b.page(t, "/admin/users?search=a&state=active&after=50")
	wantAll(t, page,
		"<caption>Users on this page: 4</caption>", `<th scope="col">E-mail</th>`, `<a href="/admin/users/9">anna</a>`,
		`<input type="checkbox" name="user" value="9">`, "Select <bdi>anna</bdi>",
		`<td class="email" title="anna@example.com"><bdi>anna@example.com</bdi></td>`, `<span class="badge">e-mail not confirmed</span>`,
		`<span class="badge good">active</span>`, `<span class="badge warn">disabled</span>`, "e-mail to be confirmed",
		`<span class="badge bad">erased on <time`, `<span class="badge">second factor</span>`,
	)
	// The days of the search are those of UTC: so are those that are shown, also with a script.
	wantAll(t, page, "Registered from (UTC)", "Registered until (UTC)", ` UTC</time>`)
	if shown, utc := strings.Count(page, "<time "), strings.Count(page, " data-utc>"); shown == 0 || shown != utc {
		t.Errorf("got %d times, %d of them in UTC, want all", shown, utc)
	}
	for name, want := range map[string]string{"search": "a", "state": "active", "after": "50"} {
		if got := hidden(page, name); got != want {
			t.Errorf("the form of the selected users: got %s %q, want %q", name, got, want)
		}
	}
}

func TestUsersList_FiltersReachTheSearch(t *testing.T) {
	day := func(text string) time.Time {
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	p := newManyUsers()
	b, _ := openMany(t, p)
	_, err := b.fields.PutFields([]personal.Field{
		{Name: "role", Type: personal.TypeEnum, ReadOnly: true, Label: personal.LocalText{"en": script}, Options: []personal.Option{
			{Value: "editor", Label: personal.LocalText{"en": "Editor"}}, {Value: "x"},
		}},
		{Name: "club", Type: personal.TypeBoolean}, {Name: "city", Type: personal.TypeText},
	}, b.fields.Get().Schema.Revision)
	if err != nil {
		t.Fatal(err)
	}
	var got personal.FindUsersRequest
	p.FindUsersFunc = func(_ context.Context, r personal.FindUsersRequest) (personal.UserPage, error) {
		got = r
		u := *p.users[0]
		u.Fields, u.LastSignIn = []personal.ProfileField{{Name: "role", Value: "editor"}}, second(5)
		return personal.UserPage{Users: []personal.User{u}, Next: 3}, nil
	}
	page := b.page(t, "/admin/users?since=2026-01-02&until=2026-02-03&is=role%3Deditor&show=role&order=oldest&state=two_factor&after=50")
	want := personal.FindUsersRequest{
		State: personal.UserTwoFactor, Since: day("2026-01-02"), Until: day("2026-02-04"), Field: "role", Value: "editor", Fields: []string{"role"},
		Oldest: true, After: 50, Limit: 50,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the search (-want +got):\n%s", diff)
	}
	wantAll(t, page, `<details class="more" open>`, `<option value="role=editor" selected>`, `<option value="club=true">club: Yes</option>`,
		"<bdi>Editor</bdi></td>", `<time data-ago datetime="`+second(5).Format(time.RFC3339), "is=role%3Deditor&amp;order=oldest&amp;show=role")
	wantNone(t, page, `value="city=`)
	wantNoMarkup(t, page)
	if got := hidden(page, "is"); got != "role=editor" {
		t.Errorf("the form of the selected users: got is %q, want the filter", got)
	}
}

func TestUsersList_FaultyFiltersAreShownAtTheirControls(t *testing.T) {
	p := newManyUsers()
	b, _ := openMany(t, p)
	if w := b.get("/admin/users?since=yesterday"); w.Code != http.StatusUnprocessableEntity || fieldError(w.Body.String(), "since") == "" ||
		strings.Contains(w.Body.String(), "<table") {
		t.Errorf("got status %d, want 422 and an error at the day", w.Code)
	}
	p.FindUsersFunc = func(context.Context, personal.FindUsersRequest) (personal.UserPage, error) {
		return personal.UserPage{}, personal.FieldErrors{"search": personal.FieldErrorTooLong, "until": personal.FieldErrorMismatch}.Err()
	}
	w := b.get("/admin/users?search=x&until=2026-01-02")
	for _, name := range []string{"search", "until"} {
		if w.Code != http.StatusUnprocessableEntity || fieldError(w.Body.String(), name) == "" {
			t.Errorf("got status %d, want 422 and an error of %s", w.Code, name)
		}
	}
}

func TestUsersList_EmptyStatesHelp(t *testing.T) {
	p := newManyUsers()
	p.users = nil
	b, _ := openMany(t, p)
	for path, test := range map[string]struct{ want, not []string }{
		"/admin/users": {[]string{"There are no users yet", `href="/admin/users/new">Add the first user`}, []string{"/admin/support?login=", "<table"}},
		"/admin/users?search=" + url.QueryEscape(script): {
			[]string{"Nothing matches “<bdi>" + escapedScript, `href="/admin/users/new?login=%3Cscript%3E`, `href="/admin/support?login=%3Cscript%3E`},
			[]string{"<script>alert", "There are no users yet"},
		},
		"/admin/users?state=disabled": {[]string{"No users found", `href="/admin/users">Show all users`}, []string{"There are no users yet"}},
		"/admin/users?after=7":        {[]string{"No users found", `href="/admin/users">First page`}, []string{"There are no users yet"}},
	} {
		page := b.page(t, path)
		wantAll(t, page, test.want...)
		wantNone(t, page, test.not...)
	}
}

func TestSelectedUsers_EachIsHandledForItself(t *testing.T) {
	p := newManyUsers()
	p.errs[8] = personal.NewError(personal.CodeInternal, nil)
	b, _ := openMany(t, p)
	values := selected("sign_out", "9", "7", "8", "5", "9")
	values.Set("search", "a&b")
	values.Set("after", "50")
	page, at := b.follow(t, "/admin/users/selected", values)
	if diff := cmp.Diff([]string{"sign out 9", "sign out 8", "sign out 7", "sign out 5"}, p.done); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if at != "/admin/users?after=50&search=a%26b" {
		t.Errorf("got led to %s, want the page of the list", at)
	}
	wantAll(t, page, `role="alert"`, "Users signed out everywhere: 2 of 4. This cannot be undone.",
		`<a href="/admin/users/8"><bdi>boris</bdi></a>: `, `<a href="/admin/users/5">id 5</a>: there is no such user any more`)
	if undoOf(page) != "" {
		t.Error("got an undo button after signing out, want none")
	}
	wantNone(t, b.page(t, "/admin/users"), "Signed out everywhere: ")
}

func TestSelectedUsers_RecoveryMailsNeedAnAddress(t *testing.T) {
	b, mails := openMany(t, newManyUsers())
	page, _ := b.follow(t, "/admin/users/selected", selected("recovery", "9", "8", "7"))
	if diff := cmp.Diff([]personal.RecoverRequest{{Email: "anna@example.com"}}, mails.requests); diff != "" || mails.caller.IsValid() {
		t.Errorf("got the caller %v, want none; the requests (-want +got):\n%s", mails.caller, diff)
	}
	wantAll(t, page, "1 of 3. Addresses", "><bdi>boris</bdi></a>: the user is disabled or has no e-mail",
		"><bdi>vera</bdi></a>: the user is disabled or has no e-mail")
}

func TestSelectedUsers_UnresponsivePluginIsAskedOnce(t *testing.T) {
	p := newManyUsers()
	p.errs[8] = personal.NewError(personal.CodeUnavailable, nil)
	b, _ := openMany(t, p)
	page, _ := b.follow(t, "/admin/users/selected", selected("disable", "9", "8", "7", "6"))
	if diff := cmp.Diff([]string{"disable 9", "disable 8"}, p.done); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	wantAll(t, page, "Users disabled: 1 of 4.", "><bdi>boris</bdi></a>: The plugin is not responding",
		">id 7</a>: The plugin is not responding")
	p.done = nil
	b.follow(t, "/admin/users/undo", url.Values{"action": {undoOf(page)}})
	if diff := cmp.Diff([]string{"enable 9"}, p.done); diff != "" {
		t.Errorf("calls of the undo (-want +got):\n%s", diff)
	}
}

// Otherwise undo would leave out a user who was changed.
func TestSelectedUsers_UserThatCannotBeReadIsNotChanged(t *testing.T) {
	p := newManyUsers()
	read := p.UserFunc
	p.UserFunc = func(ctx context.Context, id int64) (personal.UserRecord, error) {
		if id == 7 {
			return personal.UserRecord{}, personal.NewError(personal.CodeUnavailable, nil)
		}
		return read(ctx, id)
	}
	b, _ := openMany(t, p)
	page, _ := b.follow(t, "/admin/users/selected", selected("disable", "9", "7"))
	if diff := cmp.Diff([]string{"disable 9"}, p.done); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	wantAll(t, page, "Users disabled: 1 of 2.", ">id 7</a>: The plugin is not responding")
}

func TestSelectedUsers_InvalidRequestsChangeNothing(t *testing.T) {
	p := newManyUsers()
	b, _ := openMany(t, p)
	var many []string
	for id := range personal.MaxUserLimit + 1 {
		many = append(many, fmt.Sprint(id+1))
	}
	for name, values := range map[string]url.Values{
		"no action": selected("", "9"), "unknown action": selected("praise", "9"), "action of one user": selected("two_factor", "9"), "no number": selected("disable", "x"),
		"too many": selected("disable", many...),
	} {
		if w := b.post("/admin/users/selected", values); w.Code != http.StatusBadRequest {
			t.Errorf("%s: got status %d, want 400", name, w.Code)
		}
	}
	page, _ := b.follow(t, "/admin/users/selected", selected("disable"))
	wantAll(t, page, `class="notice bad"`, "no user is selected")
	if len(p.done) > 0 {
		t.Errorf("got the calls %v, want none", p.done)
	}
}

func TestUndo_RestoresOnlyWhatTheActionChanged(t *testing.T) {
	for name, test := range map[string]struct {
		path   string
		values url.Values
		back   string
		want   []string // calls of the undo
	}{
		"disable several": {"/admin/users/selected", selected("disable", "9", "8", "7", "6"), "/admin/users", []string{"enable 9", "enable 7"}},
		"enable several":  {"/admin/users/selected", selected("enable", "9", "8", "7", "6"), "/admin/users", []string{"disable 8"}},
		"disable one":     {"/admin/users/9/disable", nil, "/admin/users/9", []string{"enable 9"}},
		"enable one":      {"/admin/users/8/enable", nil, "/admin/users/8", []string{"disable 8"}},
		"disabled before": {"/admin/users/8/disable", nil, "/admin/users/8", nil},
		"was leaving":     {"/admin/users/6/enable", nil, "/admin/users/6", nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := newManyUsers()
			b, _ := openMany(t, p)
			page, _ := b.follow(t, test.path, test.values)
			key := undoOf(page)
			if (key != "") != (test.want != nil) {
				t.Fatalf("got an undo button: %t, want %t", key != "", test.want != nil)
			}
			if key == "" {
				return
			}
			p.done = nil
			values := url.Values{"action": {key}, "user": {"5"}, "next": {"//example.org"}}
			again, at := b.follow(t, "/admin/users/undo", values)
			if diff := cmp.Diff(test.want, p.done); diff != "" || at != test.back {
				t.Errorf("got led to %s, want %s; calls (-want +got):\n%s", at, test.back, diff)
			}
			if undoOf(again) == "" || undoOf(again) == key {
				t.Error("want the undo to have its own undo")
			}
			page, _ = b.follow(t, "/admin/users/undo", values)
			wantAll(t, page, "Nothing was undone")
			if diff := cmp.Diff(test.want, p.done); diff != "" {
				t.Errorf("after the second undo: calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUndo_IsOfTheAdministratorsOwnLastAction(t *testing.T) {
	p := newManyUsers()
	b, _ := openMany(t, p)
	page, _ := b.follow(t, "/admin/users/9/disable", nil)
	other := b.another()
	p.done = nil
	said, _ := other.follow(t, "/admin/users/undo", url.Values{"action": {undoOf(page)}})
	wantAll(t, said, "Nothing was undone")
	b.follow(t, "/admin/users/7/disable", nil)
	for _, key := range []string{undoOf(page), "", "x"} {
		said, _ := b.follow(t, "/admin/users/undo", url.Values{"action": {key}})
		wantAll(t, said, "Nothing was undone")
	}
	if diff := cmp.Diff([]string{"disable 7"}, p.done); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	foreign := form("/admin/users/undo", url.Values{"action": {undoOf(page)}})
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	if w := b.send(foreign); w.Code != http.StatusForbidden {
		t.Errorf("from another site: got status %d, want 403", w.Code)
	}
}

func TestSelectedUsers_DeletionNeedsTheirNumber(t *testing.T) {
	p := newManyUsers()
	p.users[0].Login = script
	b, _ := openMany(t, p)
	values := selected("delete", "9", "8", "5")
	values.Set("search", "a")
	page, at := b.follow(t, "/admin/users/selected", values)
	if at != "/admin/users/delete?search=a&user=9&user=8&user=5" {
		t.Errorf("got led to %s", at)
	}
	wantAll(t, page, "Delete users: 2", "type the number of users: 2", "boris@example.com", "This cannot be undone.",
		`href="/admin/users?search=a"`)
	wantNoMarkup(t, page)
	var ids []string
	for _, found := range hiddenInput.FindAllStringSubmatch(page, -1) {
		if found[1] == "user" {
			ids = append(ids, found[2])
		}
	}
	if diff := cmp.Diff([]string{"9", "8"}, ids); diff != "" {
		t.Errorf("the users in the form (-want +got):\n%s", diff)
	}
	for _, count := range []string{"", "3", "two"} {
		w := b.post("/admin/users/delete", url.Values{"user": ids, "count": {count}})
		if w.Code != http.StatusUnprocessableEntity || fieldError(w.Body.String(), "count") == "" || len(p.done) > 0 {
			t.Errorf("with %q: got status %d and calls %v, want 422, a field error and none", count, w.Code, p.done)
		}
	}
	page, at = b.follow(t, "/admin/users/delete", url.Values{"user": ids, "count": {"2"}, "search": {"a"}})
	wantAll(t, page, "Users deleted: 2 of 2. This cannot be undone.")
	if undoOf(page) != "" || at != "/admin/users?search=a" || len(p.users) != 2 {
		t.Errorf("got led to %s with %d users left and the undo %q, want the list, 2 and none", at, len(p.users), undoOf(page))
	}
	if page, _ := b.follow(t, "/admin/users/selected", selected("delete")); !strings.Contains(page, "no user is selected") {
		t.Error("without users: want a notice")
	}
}

func TestNewUser_FieldsAreSentAndInvitationIsTheDefault(t *testing.T) {
	p := newManyUsers()
	var created []personal.CreateUserRequest
	p.CreateUserFunc = func(_ context.Context, r personal.CreateUserRequest) (int64, error) {
		created = append(created, r)
		return 9, nil
	}
	b, _ := openMany(t, p)
	page := b.page(t, "/admin/users/new?login=petr")
	wantAll(t, page, `name="login" type="text" value="petr"`, `name="mail:invite" type="checkbox" value="true" checked`,
		`name="customer_number"`, `name="internal_note"`)
	values := shownValues(t, page)
	values.Set("email", "petr@example.com")
	values.Set("name", "Petr")
	values.Set("internal_note", "late payer")
	values.Set("mail:language", "ru")
	page, at := b.follow(t, "/admin/users/new", values)
	if at != "/admin/users/9" || !strings.Contains(page, "an invitation is being sent") {
		t.Errorf("got led to %s, want the new user's page with a notice", at)
	}
	values.Del("mail:invite")
	page, _ = b.follow(t, "/admin/users/new", values)
	wantAll(t, page, "They have no password yet.")
	want := personal.CreateUserRequest{
		Login: "petr", Email: "petr@example.com", Invite: true, Locale: "ru",
		Fields: map[string]personal.Input{"name": personal.Text("Petr"), "internal_note": personal.Text("late payer")},
	}
	without := want
	without.Invite = false
	if diff := cmp.Diff([]personal.CreateUserRequest{want, without}, created); diff != "" {
		t.Errorf("the requests (-want +got):\n%s", diff)
	}
	page = b.page(t, "/admin/users/new?login="+url.QueryEscape("petr@example.com"))
	wantAll(t, page, `name="email" type="email" value="petr@example.com"`, `name="login" type="text" value=""`)
}

func TestNewUser_ErrorsAreShownAtTheirControls(t *testing.T) {
	p := newManyUsers()
	b, _ := openMany(t, p)
	values := url.Values{"login": {script}, "email": {"x"}, "phone": {"nonsense"}, "mail:language": {"ru"}}
	for name, test := range map[string]struct {
		err    error
		status int
		fields []string
	}{
		"invalid": {personal.FieldErrors{"email": personal.FieldErrorInvalidFormat, "phone": personal.FieldErrorInvalidFormat}.Err(), 422, []string{"email", "phone"}},
		"taken":   {&personal.Error{Code: personal.CodeAlreadyExists, FieldErrors: personal.FieldErrors{"login": personal.FieldErrorTaken}}, 409, []string{"login"}},
	} {
		p.CreateUserFunc = func(context.Context, personal.CreateUserRequest) (int64, error) { return 0, test.err }
		w := b.post("/admin/users/new", values)
		page := w.Body.String()
		for _, field := range test.fields {
			if w.Code != test.status || fieldError(page, field) == "" {
				t.Errorf("%s: got status %d, want %d and an error of %s", name, w.Code, test.status, field)
			}
		}
		wantAll(t, page, `<option value="ru" selected>`, `value="nonsense"`)
		wantNone(t, page, `name="mail:invite" type="checkbox" value="true" checked`)
		wantNoMarkup(t, page)
	}
	p.CreateUserFunc = func(context.Context, personal.CreateUserRequest) (int64, error) {
		return 0, personal.NewError(personal.CodeUnavailable, nil)
	}
	if w := b.post("/admin/users/new", values); w.Code != http.StatusServiceUnavailable {
		t.Errorf("got status %d, want 503", w.Code)
	}
}
