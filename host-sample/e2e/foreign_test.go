package e2e

import (
	"html/template"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

func TestNoScriptReadsTheCookies(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	visitor, admin := newTab(t, s.url, desk), s.administrator(t, desk)
	visitor.signIn("anna", password)
	visitor.press("Русский")
	visitor.wantCookies(map[string]network.CookieSameSite{"account": network.CookieSameSiteLax, "language": network.CookieSameSiteLax})
	admin.wantCookies(map[string]network.CookieSameSite{"admin": network.CookieSameSiteStrict})
}

// wantCookies checks which cookies the browser holds, and that only requests by
// this site's pages bring them.
func (p *tab) wantCookies(want map[string]network.CookieSameSite) {
	p.t.Helper()
	if seen := get(p, chromedp.Evaluate[string]("document.cookie")); seen != "" {
		p.t.Errorf("scripts can read %s", seen)
	}
	held := get(p, answer(network.GetCookies, network.GetCookiesParams{})).Cookies
	for _, c := range held {
		if !c.HTTPOnly || c.SameSite != want[c.Name] {
			p.t.Errorf("%s: HttpOnly %v, SameSite %q", c.Name, c.HTTPOnly, c.SameSite)
		}
	}
	if len(held) != len(want) {
		p.t.Errorf("%d cookies, want %d", len(held), len(want))
	}
}

func TestWhatPagesOfOtherSitesPostIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.register(t, "anna")
	other := otherSite(t)
	visitor, admin := newTab(t, s.url, desk), s.administrator(t, desk)
	visitor.signIn("anna", password)
	for p, paths := range map[*tab][]string{
		visitor: {"/account", "/account/sign-in", "/account/sign-out", "/language"},
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
	admin.open("/admin/")
	admin.see("What runs")
}

// otherSite serves a page whose form posts to wherever ?to= says.
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
