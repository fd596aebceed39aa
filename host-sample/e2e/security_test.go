package e2e

import (
	"encoding/json"
	"html/template"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

func TestCookies_ScriptsCannotReadThem(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	visitor, admin := newTab(t, s.url, desktop), s.administrator(t, desktop)
	visitor.signIn("anna", password)
	visitor.press("Русский")
	visitor.wantCookies(map[string]network.CookieSameSite{"account": network.CookieSameSiteLax, "language": network.CookieSameSiteLax,
		"proof": network.CookieSameSiteStrict})
	admin.wantCookies(map[string]network.CookieSameSite{"admin": network.CookieSameSiteStrict})
}

// wantCookies checks the cookies of the browser: scripts cannot read them, and other
// sites cannot send them.
func (p *tab) wantCookies(want map[string]network.CookieSameSite) {
	p.t.Helper()
	if seen := get(p, chromedp.Evaluate[string]("document.cookie")); seen != "" {
		p.t.Errorf("got document.cookie %q, want none", seen)
	}
	held := get(p, call(network.GetCookies, network.GetCookiesParams{})).Cookies
	for _, c := range held {
		if !c.HTTPOnly || c.SameSite != want[c.Name] {
			p.t.Errorf("%s: got HttpOnly %v and SameSite %q, want true and %q", c.Name, c.HTTPOnly, c.SameSite, want[c.Name])
		}
	}
	if len(held) != len(want) {
		p.t.Errorf("got %d cookies, want %d", len(held), len(want))
	}
}

func TestCrossSitePosts_AreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	other := otherSite(t)
	visitor, admin := newTab(t, s.url, desktop), s.administrator(t, desktop)
	visitor.signIn("anna", password)
	for p, paths := range map[*tab][]string{
		visitor: {"/account", "/account/sign-in", "/account/sign-out", "/account/language"},
		admin:   {"/admin/plugin/use", "/admin/leave"},
	} {
		p.expect(other.URL)
		for _, path := range paths {
			p.do(chromedp.Navigate(other.URL + "?to=" + s.url + path))
			p.press("Win a prize")
			p.wantStatus(http.StatusForbidden)
			p.see("The request came from a page of another site")
		}
	}
	visitor.open("/account")
	visitor.wantValues(map[string]string{"Name": ""})
	admin.open("/admin/plugin")
	admin.see("Running now")
}

// otherSite serves a page with a form that posts to the URL in ?to=.
func otherSite(t *testing.T) *httptest.Server {
	page := template.Must(template.New("").Parse(`<!doctype html><title>Prizes</title><link rel="icon" href="data:,">
		<form method="post" action="{{.}}"><input name="name" value="Mallory"><input name="language" value="ru"><button>Win a prize</button></form>`))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := page.Execute(w, r.FormValue("to")); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// evil are texts that have an effect if they become markup.
var evil = []string{
	`<script>alert(1)</script>`,
	`"><img src=x onerror=alert(2)>`,
	`'-alert(3)-'`,
	`</textarea><svg onload=alert(4)>`,
	`{{alert(5)}}`,
}

// evilFields returns user fields with such texts as labels.
func evilFields(t *testing.T) []byte {
	t.Helper()
	label := func(i int) map[string]string { return map[string]string{"en": evil[i]} }
	schema, err := json.Marshal([]map[string]any{
		{"name": "first", "type": "text", "label": label(0)},
		{"name": "second", "type": "long_text", "label": label(1)},
		{"name": "third", "type": "enum", "label": label(2), "options": []any{map[string]any{"value": evil[0], "label": label(1)}}},
		{"name": "fourth", "type": "tags", "label": label(3)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestMarkup_TextsOfUsersAreEscapedForAdministrators(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, evilFields(t))
	s.registerWith(t, "anna", map[string]any{"name": evil[0], "first": evil[1], "second": evil[3], "third": evil[0], "fourth": evil})
	status, _, err := s.api("auth", map[string]any{"login": "anna", "password": password}, "User-Agent", evil[0])
	if err != nil || status != 200 {
		t.Fatal(status, err)
	}
	p := s.administrator(t, desktop)
	for path, texts := range map[string][]string{
		"/admin/users":   {evil[0]},
		"/admin/users/1": {evil[0], evil[1], evil[2], evil[3]},
		"/admin/fields":  {evil[0], evil[1], evil[2], evil[3]},
	} {
		p.open(path)
		for _, text := range texts {
			p.see(text)
		}
		p.wantNoMarkup()
	}
	for _, path := range []string{
		"/admin/fields/edit/first", "/admin/fields/edit/third", "/admin/fields/json",
		"/admin/users?search=%22%3E%3Cscript%3Ealert(7)%3C/script%3E", "/admin/events?text=%22%3E%3Cscript%3Ealert(8)%3C/script%3E",
		"/admin/users/1/events", "/admin/support?login=1", "/admin/support?login=%22%3E%3Cscript%3Ealert(9)%3C/script%3E",
	} {
		p.open(path)
		p.wantNoMarkup()
	}
	p.open("/admin/users/1")
	p.wantValues(map[string]string{"Name": evil[0], evil[0]: evil[1], evil[1]: evil[3], evil[2]: evil[0]})
}

// wantNoMarkup checks that no text became an element. A script that ran fails the test
// at its end, by its dialog.
func (p *tab) wantNoMarkup() {
	p.t.Helper()
	const made = `document.querySelectorAll("[src=x], [onerror], [onload], script:not([src]), svg").length`
	if n := get(p, chromedp.Evaluate[int](made)); n != 0 {
		p.t.Errorf("got %d elements from texts, want none", n)
	}
}
