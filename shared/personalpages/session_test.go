package personalpages_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cms-personal/personal/shared/personal"
)

func TestAccountPages_RedirectToSignIn(t *testing.T) {
	b := newBrowser(t, newModule())
	for _, path := range pages[1] {
		b.get(path+"?a=b").leads(t, "/account/sign-in?next="+strings.ReplaceAll(path, "/", "%2F")+"%3Fa%3Db")
	}
	b.get("/account/sign-in?next=%2Fdemo").shows(t, 200, "Please sign in to continue.")
	b.post("/account", "name", "x").leads(t, "/account/sign-in?next=%2Faccount")
	b.post("/account/sessions/end", "id", "2").leads(t, "/account/sign-in?next=%2Faccount")
	for from, want := range map[string]string{
		"http://example.com/demo?a=b": "%2Fdemo%3Fa%3Db", "https://evil.example/demo": "%2Faccount", "http://example.com//evil.example": "%2Faccount",
	} {
		b.send("POST", "/account", nil, "Referer", from).leads(t, "/account/sign-in?next="+want)
	}
}

func TestSignIn_SaysWhyItIsShown(t *testing.T) {
	const first, ended = "Please sign in to continue.", "Your session has ended. Please sign in again."
	for name, c := range map[string]struct{ hash, path, want string }{
		"a link, at the first visit":        {"", "/account/sign-in?next=%2Fdemo", first},
		"the account, at the first visit":   {"", "/account", first},
		"a link, after a session":           {hash("3"), "/account/sign-in?next=%2Fdemo", ended},
		"the account, after a session":      {hash("3"), "/account", ended},
		"a link, in another tab, signed in": {second, "/account/sign-in?next=%2Fdemo", ""},
		"no link":                           {"", "/account/sign-in", ""},
	} {
		b := newBrowser(t, newModule())
		if c.hash != "" {
			b.hold(c.hash, 0)
		}
		page := b.get(c.path)
		if to := page.Header.Get("Location"); to != "" {
			page = b.get(to)
		}
		for _, text := range []string{first, ended} {
			if got := strings.Contains(page.body, text); got != (text == c.want) {
				t.Errorf("%s: the page says %q: %t", name, text, got)
			}
		}
	}
}

// A browser that keeps no cookies, or is told to send them over HTTPS only, comes back from a sign-in without any.
func TestSignIn_SaysThatTheBrowserKeepsNoCookie(t *testing.T) {
	const text = "your browser blocks the cookies of this site"
	for name, c := range map[string]struct {
		from, cookie string
		want         bool
	}{
		"from the sign-in":                          {from: "/account/sign-in?next=%2Fdemo", want: true},
		"from the page for the code":                {from: "/account/sign-in/code", want: true},
		"from a registration":                       {from: "/account/register", want: true},
		"from another page":                         {from: "/demo"},
		"from no page":                              {},
		"from a change of language at the sign-in":  {from: "/account/sign-in", cookie: "language"},
		"from the sign-in of a program nearby":      {from: "/other/sign-in"},
		"with what is left of a session that ended": {from: "/account/sign-in", cookie: "account"},
	} {
		b := newBrowser(t, newModule())
		if c.cookie != "" {
			b.hold(hash("3"), 0)
			b.jar["account"].Name = c.cookie
		}
		from := ""
		if c.from != "" {
			from = "http://example.com" + c.from
		}
		page := b.get("/account/sign-in?next=%2Faccount", "Referer", from)
		if got := strings.Contains(page.body, text); got != c.want {
			t.Errorf("%s: the page says so: %t", name, got)
		}
	}
}

func TestSignIn_ReturnsToRequestedPage(t *testing.T) {
	for next, want := range map[string]string{
		"":                                 "/account",
		"?next=%2Fdemo%3Fa%3Db":            "/demo?a=b",
		"?next=https%3A%2F%2Fevil.example": "/account",
		"?next=%2F%2Fevil.example":         "/account",
		"?next=%2F%5Cevil.example":         "/account",
	} {
		b := newBrowser(t, newModule())
		b.get("/account/sign-in"+next).shows(t, 200, `autocomplete="username"`, `autocomplete="current-password"`)
		b.post("/account/sign-in"+next, "login", "anna", "password", "correct horse").leads(t, want)
		b.get("/account").shows(t, 200, "You are signed in.", "anna")
		if b.get("/account"); strings.Contains(b.get("/account").body, "You are signed in.") {
			t.Error("the notice is shown twice")
		}
	}
}

func TestSignIn_EndsPreviousSession(t *testing.T) {
	for name, tt := range map[string]struct {
		path, password string
		want           string // the requests in order
	}{
		"a sign-in":            {path: "/account/sign-in", want: "open, end " + second},
		"a registration":       {path: "/account/register", want: "open, end " + second},
		"a sign-in that fails": {path: "/account/sign-in", password: "wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModule()
			b := newBrowser(t, m)
			b.hold(second, 0)
			b.post(tt.path, "login", "anna", "password", "correct horse"+tt.password)
			if in := strings.Contains(b.jar["account"].Value, first); in != (tt.password == "") {
				t.Errorf("got the cookie %v, the new hash: %t", b.jar["account"], in)
			}
			var requests []string
			for _, call := range m.calls {
				if r, ok := call.(personal.LogoutRequest); ok {
					requests = append(requests, "end "+r.Credentials.UserHash)
					continue
				}
				requests = append(requests, "open")
			}
			if got := strings.Join(requests, ", "); got != tt.want {
				t.Errorf("got requests %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRefresh_OldCredentials(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.hold(first, time.Minute)
	b.get("/account")
	if m.refresh != 0 {
		t.Fatal("credentials were refreshed before their time")
	}
	b.hold(first, 6*time.Minute)
	b.get("/account").shows(t, 200)
	if m.refresh != 1 || !strings.Contains(b.jar["account"].Value, second) {
		t.Fatalf("got %d refreshes and cookie %s, want 1 and the new hash", m.refresh, b.jar["account"].Value)
	}
	// If the page used the new hash, and its response were lost, the browser's old
	// hash would count as stolen.
	if used := strings.Join(m.used, " "); strings.Contains(used, second) {
		t.Errorf("got profile requests with %s, want the old hash only", used)
	}
}

func TestOutage_KeepsCookie(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.hold(first, time.Hour)
	m.down = true
	for _, path := range pages[1] {
		a := b.get(path)
		a.shows(t, 503, "Temporarily unavailable", "Try again", `class="button" href="`+path+`"`, "Sign out")
		if a.Header.Get("Retry-After") != "3" {
			t.Errorf("%s: got Retry-After %q, want 3", path, a.Header.Get("Retry-After"))
		}
	}
	b.get("/").shows(t, 200, "Sign out")
	b.get("/account/register").shows(t, 503, "Try again")
	b.post("/account/sign-out").shows(t, 503)
	a := b.post("/account/sign-in", "login", "anna", "password", "correct horse")
	a.shows(t, 503, "not available at the moment", `value="anna"`)
	if a.Header.Get("Retry-After") == "" || strings.Contains(a.body, "correct horse") {
		t.Errorf("got %v:\n%s, want Retry-After and no password", a.Header, a.body)
	}
	if b.jar["account"] == nil {
		t.Error("the cookie was deleted")
	}
}

func TestOutage_KeepsTypedValues(t *testing.T) {
	m := newModule()
	m.fields = []personal.Field{{Name: "city", Type: personal.TypeText}}
	b := newBrowser(t, m)
	b.get("/account/register").shows(t, 200)
	b.hold(first, 0)
	shown := b.get("/account").hidden()
	m.down = true
	for path, typed := range map[string][]string{
		"/account/register":  {"login", "petrova", "email", "typed@example.com", "name", "Anna P.", "city", "Kazan"},
		"/account":           {"name", "Anna P.", "city", "Kazan"},
		"/account/new-email": {"email", "typed@example.com"},
		"/account/password":  nil,
	} {
		form := append(slices.Clone(typed), "password", "a secret", "old_password", "a secret", "confirm_password", "a secret")
		a := b.post(path, append(form, shown...)...)
		a.shows(t, 503, "not available at the moment", "Try again in 3 s", `action="`+path+`"`)
		for i := 1; i < len(typed); i += 2 {
			a.shows(t, 503, `value="`+typed[i]+`"`)
		}
		if a.Header.Get("Retry-After") != "3" || strings.Contains(a.body, "a secret") {
			t.Errorf("%s: got %v:\n%s, want Retry-After and no password", path, a.Header, a.body)
		}
	}
	again := b.post("/account", append([]string{"name", "", "city", "Kazan"}, shown...)...).hidden()
	m.down = false
	b.post("/account", append([]string{"name", "", "city", "Kazan"}, again...)...).leads(t, "/account")
	if diff := cmp.Diff([]map[string]personal.Input{{"city": personal.Text("Kazan")}}, m.updates); diff != "" {
		t.Errorf("updates after the outage (-want +got):\n%s", diff)
	}
}

func TestForm_ShowsWhenToRetry(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		time.Second: "Try again in 1 s.", 119 * time.Second: "in 119 s.", 2 * time.Minute: "in 2 min.", time.Hour + time.Second: "in 61 min.",
		8*time.Hour - time.Second: "in 8 h.",
	} {
		m := newModule()
		m.AuthorizeFunc = func(context.Context, personal.AuthorizeRequest) (personal.SignedIn, error) {
			return personal.SignedIn{}, &personal.Error{Code: personal.CodeTooManyAttempts, RetryAfter: wait}
		}
		newBrowser(t, m).post("/account/sign-in", "login", "anna", "password", "x").shows(t, 429, "Too many attempts", want)
	}
}

func TestSession_EndedKeepsCookie(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.hold(hash("x"), 0)
	b.get("/demo").leads(t, "/account/sign-in?next=%2Fdemo")
	b.get("/").shows(t, 200, "Sign in")
	if b.jar["account"] == nil {
		t.Error("the cookie was deleted: a late response could sign out a new session")
	}
}

func TestSessions_ListAndRevoke(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.hold(first, 0)
	b.get("/account/sessions").shows(t, 200, "Chrome · Linux", "this device", "2 Jan 2026, 03:04 UTC", "&lt;script&gt;", "192.0.2.1")
	b.post("/account/sessions/end", "id", "2").leads(t, "/account/sessions")
	b.get("/account/sessions").shows(t, 200, "The session has been ended.")
	b.post("/account/sign-out", "all", "true").leads(t, "/")
	b.get("/").shows(t, 200, "You are signed out.", "Sign in")
	credentials := personal.Credentials{UserID: 42, UserHash: first}
	if diff := cmp.Diff([]any{
		personal.RevokeSessionRequest{Credentials: credentials, ID: "2"}, personal.LogoutRequest{Credentials: credentials, All: true},
	}, m.calls); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	b.hold(hash("x"), 0) // a session that has ended
	b.post("/account/sign-out").leads(t, "/")
	if b.jar["account"] != nil {
		t.Error("the cookie was not deleted")
	}
}

func TestSessions_OnlyOneHasNoOthersToEnd(t *testing.T) {
	m := newModule()
	list := m.SessionsFunc
	m.SessionsFunc = func(ctx context.Context, c personal.Credentials) ([]personal.Session, error) {
		all, err := list(ctx, c)
		return all[:1], err
	}
	b := newBrowser(t, m)
	b.audit.AuditEntriesFunc = func(context.Context, personal.AuditEntriesRequest) (personal.AuditPage, error) {
		return personal.AuditPage{Entries: make([]personal.AuditEntry, 2)}, nil
	}
	b.post("/account/sign-in", "login", "anna", "password", "correct horse").leads(t, "/account")
	page := b.get("/account")
	page.shows(t, 200, "Your last sign-in")
	page.lacks(t, "everywhere")
	page = b.get("/account/sessions")
	page.shows(t, 200, "this device", "<time data-ago datetime=")
	page.lacks(t, "everywhere")
}

func TestSignIn_ShowsTheOneBefore(t *testing.T) {
	entry := func(day int, address string) personal.AuditEntry {
		return personal.AuditEntry{Event: personal.Event{Time: time.Date(2026, 1, day, 3, 4, 5, 0, time.UTC), Address: address}}
	}
	for name, tt := range map[string]struct {
		entries []personal.AuditEntry
		err     error
		want    bool
	}{
		"of a thief who has signed out": {entries: []personal.AuditEntry{entry(9, "192.0.2.9"), entry(7, "203.0.113.7")}, want: true},
		"none":                          {entries: []personal.AuditEntry{entry(9, "192.0.2.9")}},
		"unknown":                       {err: personal.NewError(personal.CodeUnavailable, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBrowser(t, newModule())
			var asked []personal.AuditEntriesRequest
			b.audit.AuditEntriesFunc = func(_ context.Context, r personal.AuditEntriesRequest) (personal.AuditPage, error) {
				asked = append(asked, r)
				return personal.AuditPage{Entries: tt.entries}, tt.err
			}
			b.post("/account/sign-in", "login", "anna", "password", "correct horse").leads(t, "/account")
			page := b.get("/account")
			page.shows(t, 200, "You are signed in.")
			if tt.want {
				page.shows(t, 200, "Your last sign-in", "7 Jan 2026, 03:04 UTC", "203.0.113.7", `action="/account/sessions/end-others"`)
			} else if strings.Contains(page.body, "Your last sign-in") {
				t.Errorf("got a last sign-in, want none:\n%s", page.body)
			}
			if again := b.get("/account"); strings.Contains(again.body, "Your last sign-in") {
				t.Error("the last sign-in is shown twice")
			}
			want := []personal.AuditEntriesRequest{{UserID: 42, Type: personal.EventSignedIn, Limit: 2}}
			if diff := cmp.Diff(want, asked); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// The audit log does not check who asks, and visitors can make up cookies.
func TestSignIn_OfSomeoneElseIsNotShown(t *testing.T) {
	m := newModule()
	b := newBrowser(t, m)
	b.audit.AuditEntriesFunc = func(context.Context, personal.AuditEntriesRequest) (personal.AuditPage, error) {
		t.Error("the audit log was read for a visitor who is not signed in")
		return personal.AuditPage{}, nil
	}
	for _, down := range []bool{false, true} {
		m.down = down
		for _, path := range []string{"/", "/account"} {
			b.hold(hash("x"), 0)
			b.jar["notice"] = &http.Cookie{Name: "notice", Value: "auth"}
			b.get(path)
		}
	}
}

func TestSessions_EndOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want func(reply)
	}{
		"they are ended":     {nil, func(r reply) { r.leads(t, "/account/sessions") }},
		"they are not ended": {personal.NewError(personal.CodeUnavailable, nil), func(r reply) { r.shows(t, 503, "not available at the moment") }},
		"this one has ended": {personal.NewError(personal.CodeUnauthenticated, nil), func(r reply) { r.leads(t, "/account/sign-in?next=%2Faccount") }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModule()
			m.RevokeOtherSessionsFunc = func(context.Context, personal.Credentials) error { return tt.err }
			b := newBrowser(t, m)
			b.hold(first, 0)
			b.get("/account/sessions").shows(t, 200, "Sign out everywhere else")
			tt.want(b.post("/account/sessions/end-others"))
			if tt.err == nil {
				b.get("/account/sessions").shows(t, 200, "You are signed out everywhere else.")
			}
		})
	}
}
