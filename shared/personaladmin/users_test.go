package personaladmin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
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

// fakeUsers is an administration with one user, number 42, and records the calls.
type fakeUsers struct {
	personaltest.Administration
	user     personal.UserRecord
	found    personal.FindUsersRequest
	updated  *personal.UpdateUserRequest
	emails   []personal.SetEmailRequest
	done     []string
	sessions []personal.Session
	err      error // of every call
}

func newUsers() *fakeUsers {
	name := "Anna"
	p := &fakeUsers{user: personal.UserRecord{
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
	p.RevokeUserSessionsFunc, p.DeleteUserFunc = do("revoke"), do("delete")
	p.RemoveTwoFactorFunc = func(ctx context.Context, r personal.RemoveTwoFactorRequest) error {
		return do(fmt.Sprintf("remove two-factor, keep other ways %t", r.KeepOtherWaysIn))(ctx, r.UserID)
	}
	p.RemoveOtherWaysInFunc = do("remove other ways")
	p.ResetAccessFunc = func(ctx context.Context, r personal.ResetAccessRequest) error {
		return do("reset to "+r.Email)(ctx, r.UserID)
	}
	p.UnlinkIdentityFunc = func(ctx context.Context, r personal.UnlinkIdentityRequest) error {
		return do(fmt.Sprintf("unlink %s at %s", r.Identity.Subject, r.Identity.Issuer))(ctx, r.UserID)
	}
	return p
}

func openUsers(t *testing.T, p *fakeUsers) *browser {
	t.Helper()
	b := open(t)
	b.users.Administration = p
	return b
}

func TestUsers_SearchIsPaged(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	page := b.page(t, "/admin/users?search=ann%26a&state=disabled&after=50")
	want := personal.FindUsersRequest{Search: "ann&a", State: personal.UserDisabled, After: 50, Limit: 50}
	if diff := cmp.Diff(want, p.found); diff != "" {
		t.Errorf("the search (-want +got):\n%s", diff)
	}
	wantAll(t, page,
		`href="/admin/users/42"`, "anna@example.com", `value="ann&amp;a"`, `<option value="disabled" selected>`,
		`href="/admin/users?after=41&amp;search=ann%26a&amp;state=disabled"`, `href="/admin/users?search=ann%26a&amp;state=disabled"`)
}

func TestUser_PageShowsAllData(t *testing.T) {
	p := newUsers()
	p.sessions = []personal.Session{{ID: "s1", Address: "192.0.2.7", Agent: script, Created: second(1), LastSeen: second(2)}}
	page := openUsers(t, p).page(t, "/admin/users/42")
	wantAll(t, page,
		"anna@example.com", "192.0.2.7", `name="customer_number" type="text" value="K-1"`, `id="field-internal_note"`, "\na\nb</textarea>",
		`<option value="kazan" selected>`, `href="/admin/users/42/events"`, `href="/admin/support?login=anna"`,
		`action="/admin/users/42/disable"`, `name="newsletter" type="checkbox" value="true" checked`)
	wantNone(t, page, "/enable")
	wantNoMarkup(t, page)
}

func TestUser_OnlyChangedFieldsAreSaved(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	values := shownValues(t, b.page(t, "/admin/users/42"))
	b.do(t, "/admin/users/42", values)
	if p.updated != nil {
		t.Errorf("saving the unchanged form: got the update %+v, want none", *p.updated)
	}
	p.user.Fields[0].Value = "changed by its user since"
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
		t.Errorf("the update (-want +got):\n%s", diff)
	}
}

func TestUser_FieldErrorIsShownAtItsControl(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	p.UpdateUserFunc = func(context.Context, personal.UpdateUserRequest) error {
		return personal.FieldErrors{"phone": personal.FieldErrorInvalidFormat}.Err()
	}
	values := shownValues(t, b.page(t, "/admin/users/42"))
	values.Set("phone", script)
	w := b.post("/admin/users/42", values)
	page := w.Body.String()
	if w.Code != http.StatusUnprocessableEntity || fieldError(page, "phone") == "" || hidden(page, "shown:phone") != "+7 900 000" {
		t.Errorf("got status %d, want 422, a field error and the value from before: %s", w.Code, page)
	}
	wantNoMarkup(t, page)
}

func TestUser_DisableEnableAndRevokeSessions(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	for path, want := range map[string]string{"disable": "disable", "enable": "enable", "sessions": "revoke"} {
		p.done = nil
		b.do(t, "/admin/users/42/"+path, nil)
		if len(p.done) != 1 || p.done[0] != want {
			t.Errorf("%s: got the calls %v, want %s", path, p.done, want)
		}
		if w := b.get("/admin/users/42/" + path); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: got status %d, want 405", path, w.Code)
		}
		if w := b.post("/admin/users/41/"+path, nil); w.Code != http.StatusNotFound {
			t.Errorf("%s of an unknown user: got status %d, want 404", path, w.Code)
		}
	}
	p.DisableUserFunc = func(ctx context.Context, _ int64) error {
		if got := personal.CallFrom(ctx).Administrator; got != "administrator" {
			t.Errorf("got the administrator %q in the call, want %q", got, "administrator")
		}
		return personal.NewError(personal.CodeUnavailable, nil)
	}
	if w := b.post("/admin/users/42/disable", nil); w.Code != http.StatusServiceUnavailable {
		t.Errorf("disabling without a plugin: got status %d, want 503", w.Code)
	}
	p.user.Disabled = true
	page := b.page(t, "/admin/users/42")
	wantAll(t, page, "/enable")
	wantNone(t, page, "/disable")
}

func TestUser_PagesShowTheStateOfEmailAndDeletion(t *testing.T) {
	for name, test := range map[string]struct {
		change       func(*personal.User)
		want, wantOn []string // on both pages, and on the user's
		wantIn       string   // on the list
	}{
		"not confirmed": {wantOn: []string{"anna@example.com (not confirmed)"}, wantIn: `<span class="badge good">active</span> <span class="badge">e-mail not confirmed</span>`},
		"confirmed":     {change: func(u *personal.User) { u.EmailVerified = true }, wantOn: []string{"anna@example.com (confirmed)"}, wantIn: "<bdi>anna@example.com</bdi></td>"},
		"without":       {change: func(u *personal.User) { u.Email = "" }, want: []string{"—"}},
		"waiting": {
			change: func(u *personal.User) { u.Email, u.UnverifiedEmail = "", "waiting@example.com" },
			wantOn: []string{"waiting@example.com (must be confirmed before the first sign-in)"},
			wantIn: "<bdi>waiting@example.com</bdi></td>",
		},
		"deleted by the user": {
			change: func(u *personal.User) { u.Disabled, u.EraseAt = true, second(9) },
			want:   []string{`<span class="badge bad">erased on <time data-day datetime="` + second(9).Format("2006-01-02T15:04:05Z")},
			wantOn: []string{"To be erased", "If you enable it, the deletion is undone.", "/admin/users/42/enable"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newUsers()
			if test.change != nil {
				test.change(&p.user.User)
			}
			b := openUsers(t, p)
			wantAll(t, b.page(t, "/admin/users"), append(test.want, test.wantIn)...)
			wantAll(t, b.page(t, "/admin/users/42"), append(test.want, test.wantOn...)...)
		})
	}
}

func TestUser_DeletionNeedsTheLogin(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	wantAll(t, b.page(t, "/admin/users/42/delete"), "type the login: anna")
	for _, login := range []string{"", "ann", "Anna"} {
		w := b.post("/admin/users/42/delete", url.Values{"login": {login}})
		if w.Code != http.StatusUnprocessableEntity || fieldError(w.Body.String(), "login") == "" || p.done != nil {
			t.Errorf("with login %q: got status %d and calls %v, want 422, a field error and none", login, w.Code, p.done)
		}
	}
	b.do(t, "/admin/users/42/delete", url.Values{"login": {"anna"}})
	if len(p.done) != 1 || p.done[0] != "delete" {
		t.Errorf("with the correct login: got the calls %v, want delete", p.done)
	}
}

func TestUsers_TextsAreEscaped(t *testing.T) {
	p := newUsers()
	name := script
	p.user.Login, p.user.Name, p.user.Email = script, &name, script
	p.user.Fields[0].Value, p.user.Fields[5].Value = script, script
	b := openUsers(t, p)
	for _, path := range []string{"/admin/users?search=" + url.QueryEscape(script), "/admin/users/42", "/admin/users/42/delete"} {
		wantNoMarkup(t, b.page(t, path))
	}
}

func TestUsers_PluginFailureLeavesOtherPages(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	for _, test := range []struct {
		err         error
		status      int
		text, retry string
	}{
		{&personal.Error{Code: personal.CodeUnavailable, RetryAfter: time.Second}, 503, "The plugin is not responding", "1"},
		{errors.New("a secret"), 500, "Something went wrong", ""},
	} {
		p.err = test.err
		for _, path := range []string{"/admin/users", "/admin/users/42", "/admin/users/42/delete"} {
			w := b.get(path)
			page := w.Body.String()
			if w.Code != test.status || !strings.Contains(page, test.text) || strings.Contains(page, "a secret") ||
				w.Header().Get("Retry-After") != test.retry {
				t.Errorf("%s: got status %d, want %d, %q and no cause: %s", path, w.Code, test.status, test.text, page)
			}
			if again := fmt.Sprintf(`href="%s">Try again`, path); strings.Contains(page, again) != (test.retry != "") {
				t.Errorf("%s: got the link to try again: %t, want %t", path, test.retry == "", test.retry != "")
			}
			wantAll(t, page, `href="/admin/fields"`) // the navigation
		}
		if w := b.post("/admin/users/42/disable", nil); w.Code != test.status {
			t.Errorf("disabling: got status %d, want %d", w.Code, test.status)
		}
		b.page(t, "/admin/fields")
		b.page(t, "/admin/events")
	}
	p.err = nil
	for _, id := range []string{"41", "0", "-1", "x", "99999999999999999999"} {
		if w := b.get("/admin/users/" + id); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no such user") {
			t.Errorf("user %s: got status %d, want 404", id, w.Code)
		}
	}
	for path, back := range map[string]string{
		"/admin/users/41": `href="/admin/users">Users</a>`, "/admin/users/41/nowhere": `href="/admin/users">Users</a>`,
		"/admin/nowhere": `href="/admin/`, "/admin/events/nowhere": `href="/admin/events">Events</a>`,
	} {
		w := b.get(path)
		wantAll(t, w.Body.String(), `class="wide"`, "<h1>Not found</h1>", `<a class="button quiet" `+back)
		wantNone(t, w.Body.String(), "front page")
	}
}

// recovery records the requested mails and the address of the last caller.
type recovery struct {
	requests []personal.RecoverRequest
	caller   netip.Addr
	err      error
}

func (r *recovery) Recover(ctx context.Context, request personal.RecoverRequest) error {
	r.requests, r.caller = append(r.requests, request), personal.CallFrom(ctx).Address
	return r.err
}

func TestUserEmail_OnlyAChangedAddressIsSaved(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	values := shownValues(t, b.page(t, "/admin/users/42"))
	p.user.Email = "changed@by.its.user.example"
	b.do(t, "/admin/users/42/email", values)
	for _, email := range []string{"anna@example.org", ""} {
		values.Set("email", email)
		b.do(t, "/admin/users/42/email", values)
	}
	want := []personal.SetEmailRequest{{UserID: 42, Email: "anna@example.org"}, {UserID: 42}}
	if diff := cmp.Diff(want, p.emails); diff != "" {
		t.Errorf("the requests (-want +got):\n%s", diff)
	}
}

func TestUserEmail_ErrorIsShownAtItsControl(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		status int
		want   string
	}{
		"invalid address":           {personal.FieldErrors{"email": personal.FieldErrorInvalidFormat}.Err(), 422, "like anna@example.com"},
		"taken address":             {&personal.Error{Code: personal.CodeAlreadyExists, FieldErrors: personal.FieldErrors{"email": personal.FieldErrorTaken}}, 409, "Another account has this e-mail address"},
		"address that is the login": {personal.FieldErrors{"email": personal.FieldErrorRequired}.Err(), 422, "fill"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newUsers()
			p.SetEmailFunc = func(context.Context, personal.SetEmailRequest) error { return test.err }
			b := openUsers(t, p)
			values := shownValues(t, b.page(t, "/admin/users/42"))
			values.Set("email", script)
			w := b.post("/admin/users/42/email", values)
			page := w.Body.String()
			if w.Code != test.status || !strings.Contains(fieldError(page, "email"), test.want) ||
				hidden(page, "shown:email") != "anna@example.com" {
				t.Errorf("got status %d, want %d and the field error %q: %s", w.Code, test.status, test.want, page)
			}
			wantNoMarkup(t, page)
		})
	}
}

func TestUserEmail_FailuresAreShown(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	change := url.Values{"email": {"anna@example.org"}}
	if w := b.post("/admin/users/41/email", change); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "no such user") {
		t.Errorf("an unknown user: got status %d, want 404: %s", w.Code, w.Body)
	}
	p.SetEmailFunc = func(context.Context, personal.SetEmailRequest) error {
		return personal.NewError(personal.CodeUnavailable, nil)
	}
	if w := b.post("/admin/users/42/email", change); w.Code != http.StatusServiceUnavailable {
		t.Errorf("an unavailable plugin: got status %d, want 503", w.Code)
	}
}

func TestUserRecovery_RequestHasNoAdministratorAddress(t *testing.T) {
	p, mails := newUsers(), &recovery{}
	b := openUsers(t, p)
	b.users.Recovery = mails
	const button = `action="/admin/users/42/recovery"`
	wantAll(t, b.page(t, "/admin/users/42"), button)
	b.do(t, "/admin/users/42/recovery", nil)
	if diff := cmp.Diff([]personal.RecoverRequest{{Email: "anna@example.com"}}, mails.requests); diff != "" || mails.caller.IsValid() {
		t.Errorf("got the caller %v, want none; the requests (-want +got):\n%s", mails.caller, diff)
	}
	mails.err = &personal.Error{Code: personal.CodeTooManyAttempts}
	if w := b.post("/admin/users/42/recovery", nil); w.Code != http.StatusTooManyRequests {
		t.Errorf("at the rate limit: got status %d, want 429", w.Code)
	}
	if w := b.post("/admin/users/41/recovery", nil); w.Code != http.StatusNotFound {
		t.Errorf("an unknown user: got status %d, want 404", w.Code)
	}

	mails.requests = nil
	for name, change := range map[string]func(*personal.User){
		"disabled":       func(u *personal.User) { u.Disabled = true },
		"without e-mail": func(u *personal.User) { u.Email = "" },
	} {
		user := p.user
		change(&p.user.User)
		if strings.Contains(b.page(t, "/admin/users/42"), button) {
			t.Errorf("user %s: got the button of the recovery mail, want none", name)
		}
		b.do(t, "/admin/users/42/recovery", nil)
		p.user = user
	}
	if len(mails.requests) > 0 {
		t.Errorf("users without e-mail or disabled: got the requests %v, want none", mails.requests)
	}
}

func TestUserTwoFactor_RemovalAsksFirst(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	const link = `href="/admin/users/42/two-factor"`
	if page := b.page(t, "/admin/users/42"); strings.Contains(page, link) {
		t.Errorf("without a second factor: got the link, want none: %s", page)
	}
	wantNone(t, b.page(t, "/admin/users/42/two-factor"), "button danger")
	p.user.TwoFactor = true
	wantAll(t, b.page(t, "/admin/users/42"), link, "the user signs in with the password and a code")
	wantAll(t, b.page(t, "/admin/users/42/two-factor"), "docs/helping-users.md", `action="/admin/users/42/two-factor"`,
		`<a class="button quiet" href="/admin/users/42">Cancel</a>`)
	if len(p.done) > 0 {
		t.Errorf("got %v before the confirmation, want nothing", p.done)
	}
	b.do(t, "/admin/users/42/two-factor", nil)
	if diff := cmp.Diff([]string{"remove two-factor, keep other ways false"}, p.done); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if w := b.post("/admin/users/41/two-factor", nil); w.Code != http.StatusNotFound {
		t.Errorf("an unknown user: got status %d, want 404", w.Code)
	}
}

// withPasskeys gives the user two passkeys.
func (p *fakeUsers) withPasskeys() {
	p.user.Passkeys = []personal.Passkey{
		{ID: "8", Name: script, Created: second(4), BackedUp: true}, {ID: "7", Name: "Phone", Created: second(1), LastUsed: second(5)},
	}
}

func TestUserTwoFactor_RemovalKeepsOtherWaysOnRequest(t *testing.T) {
	p := newUsers()
	p.user.TwoFactor = true
	b := openUsers(t, p)
	const keep = `name="keep_other_ways_in" type="checkbox"`
	wantNone(t, b.page(t, "/admin/users/42/two-factor"), keep)
	p.withPasskeys()
	wantAll(t, b.page(t, "/admin/users/42/two-factor"), keep, "passkeys: 2, links with other services: 0.")
	b.do(t, "/admin/users/42/two-factor", url.Values{"keep_other_ways_in": {"true"}})
	if diff := cmp.Diff([]string{"remove two-factor, keep other ways true"}, p.done); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestUserIdentities_AreUnlinked(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	const form = `action="/admin/users/42/identities"`
	wantNone(t, b.page(t, "/admin/users/42"), form)
	p.user.Identities = []personal.LinkedIdentity{
		{Identity: personal.Identity{Issuer: "https://op.example", Subject: script}, Linked: second(4), LastUsed: second(5)},
		{Identity: personal.Identity{Issuer: "https://idp.example", Subject: "a b"}, Linked: second(1)},
	}
	wantAll(t, b.page(t, "/admin/users/42"), form, `name="issuer" value="https://idp.example"`, `name="subject" value="a b"`)
	_, list, _ := strings.Cut(b.page(t, "/admin/users/42"), "<bdi>https://op.example</bdi>")
	used, unused, _ := strings.Cut(list, "<bdi>https://idp.example</bdi>")
	wantAll(t, used, second(4).Format(time.RFC3339), "Last used: <time", second(5).Format(time.RFC3339))
	wantAll(t, unused, "Last used: —")
	wantNoMarkup(t, b.page(t, "/admin/users/42"))
	identity := url.Values{"issuer": {"https://idp.example"}, "subject": {"a b"}}
	b.do(t, "/admin/users/42/identities", identity)
	if diff := cmp.Diff([]string{"unlink a b at https://idp.example"}, p.done); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	wantAll(t, b.page(t, "/admin/users/42"), "The other service is unlinked.")
	p.UnlinkIdentityFunc = func(context.Context, personal.UnlinkIdentityRequest) error {
		return personal.NewError(personal.CodeLastWayIn, nil)
	}
	b.post("/admin/users/42/identities", identity)
	wantAll(t, b.page(t, "/admin/users/42"), `role="alert"`, "could not sign in any more: reset the access instead")
}

func TestUserPasskeys_AreListed(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	p.withPasskeys()
	page := b.page(t, "/admin/users/42")
	_, list, _ := strings.Cut(page, "<bdi>&lt;script")
	first, last, _ := strings.Cut(list, "<bdi>Phone</bdi>")
	wantAll(t, first, second(4).Format(time.RFC3339), "Backed up:", "Last used: —")
	wantAll(t, last, second(1).Format(time.RFC3339), second(5).Format(time.RFC3339), "Not backed up:")
	wantNoMarkup(t, page)
}

func TestUserOtherWays_RemovalAsksFirst(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	const link = `href="/admin/users/42/ways-in"`
	wantNone(t, b.page(t, "/admin/users/42"), link)
	wantNone(t, b.page(t, "/admin/users/42/ways-in"), "button danger")
	p.withPasskeys()
	p.user.Identities = []personal.LinkedIdentity{{Identity: personal.Identity{Issuer: "https://op.example", Subject: "a"}, Linked: second(4)}}
	wantAll(t, b.page(t, "/admin/users/42"), link)
	wantAll(t, b.page(t, "/admin/users/42/ways-in"), "docs/helping-users.md", "passkeys: 2, links with other services: 1.",
		"without a password they need a recovery mail", `action="/admin/users/42/ways-in"`)
	if len(p.done) > 0 {
		t.Errorf("got %v before the confirmation, want nothing", p.done)
	}
	b.do(t, "/admin/users/42/ways-in", nil)
	if diff := cmp.Diff([]string{"remove other ways"}, p.done); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if w := b.post("/admin/users/41/ways-in", nil); w.Code != http.StatusNotFound {
		t.Errorf("an unknown user: got status %d, want 404", w.Code)
	}
}

// What would lock the user out is refused, and their page says what to do first.
func TestUserOtherWays_LastWayInIsExplained(t *testing.T) {
	p := newUsers()
	p.withPasskeys()
	lastWayIn := personal.NewError(personal.CodeLastWayIn, nil)
	p.RemoveOtherWaysInFunc = func(context.Context, int64) error { return lastWayIn }
	p.RemoveTwoFactorFunc = func(context.Context, personal.RemoveTwoFactorRequest) error { return lastWayIn }
	for _, path := range []string{"ways-in", "two-factor"} {
		b := openUsers(t, p)
		w := b.post("/admin/users/42/"+path, nil)
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/users/42" {
			t.Fatalf("%s: got %d to %s, want 303 to the user's page", path, w.Code, w.Header().Get("Location"))
		}
		wantAll(t, b.page(t, "/admin/users/42"), `role="alert"`, "could not sign in any more: reset the access instead")
	}
}

func TestUserReset_AsksForTheEmail(t *testing.T) {
	p := newUsers()
	b := openUsers(t, p)
	wantAll(t, b.page(t, "/admin/users/42"), `href="/admin/users/42/reset"`)
	page := b.page(t, "/admin/users/42/reset")
	wantAll(t, page, "docs/incident-response.md", `action="/admin/users/42/reset"`, `name="email" type="email"`)
	wantNone(t, page, p.user.Email)
	if len(p.done) > 0 {
		t.Errorf("got %v before the confirmation, want nothing", p.done)
	}
	b.do(t, "/admin/users/42/reset", url.Values{"email": {"ada@new.example"}})
	if diff := cmp.Diff([]string{"reset to ada@new.example"}, p.done); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	wantAll(t, b.page(t, "/admin/users/42"), "The access is reset.")
	p.ResetAccessFunc = func(context.Context, personal.ResetAccessRequest) error {
		return &personal.Error{Code: personal.CodeAlreadyExists, FieldErrors: personal.FieldErrors{"email": personal.FieldErrorTaken}}
	}
	w := b.post("/admin/users/42/reset", url.Values{"email": {"eve@example.com"}})
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), `value="eve@example.com"`) {
		t.Errorf("a taken e-mail: got %d, want 409 and the form as it was typed", w.Code)
	}
	if w := b.post("/admin/users/41/reset", url.Values{"email": {"ada@new.example"}}); w.Code != http.StatusNotFound {
		t.Errorf("an unknown user: got status %d, want 404", w.Code)
	}
}

func TestUser_OneSessionCanBeEnded(t *testing.T) {
	p := newUsers()
	p.sessions = []personal.Session{{
		ID: "s1", Address: "192.0.2.7", Agent: "Mozilla/5.0 (Windows NT 10.0) Chrome/141.0 Safari/537.36", Created: second(1), LastSeen: second(2), Method: personal.MethodPasskey,
	}}
	var got []personal.RevokeUserSessionRequest
	p.RevokeUserSessionFunc = func(_ context.Context, r personal.RevokeUserSessionRequest) error {
		got = append(got, r)
		return nil
	}
	b := openUsers(t, p)
	wantAll(t, b.page(t, "/admin/users/42"), "<bdi>Chrome · Windows</bdi>", "with a passkey", `action="/admin/users/42/sessions/end"`)
	b.do(t, "/admin/users/42/sessions/end", url.Values{"id": {"s1"}})
	wantAll(t, b.page(t, "/admin/users/42"), "The session has been ended.")
	if want := []personal.RevokeUserSessionRequest{{UserID: 42, ID: "s1"}}; !slices.Equal(got, want) {
		t.Errorf("got the calls %v, want %v", got, want)
	}
}

func TestUser_OnlyWhatCannotBeUndoneIsRed(t *testing.T) {
	b := openUsers(t, newUsers())
	page := b.page(t, "/admin/users/42")
	red := regexp.MustCompile(`class="button danger[^>]*>([^<]*)<`).FindAllStringSubmatch(page, -1)
	if len(red) != 1 || red[0][1] != "Delete …" {
		t.Errorf("got the red buttons %q, want only the deletion", red)
	}
}
