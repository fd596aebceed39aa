package e2e

import "testing"

// The pages that need no session, one of a user, and one of an administrator. Of the account
// pages they are those with user fields, of every type here: TestWalk_EveryAccountPage looks at
// all of them.
var (
	publicPages = []string{
		"/account/register", "/reference", "/admin/enter?code=x",
	}
	visitorPages = []string{"/", "/demo", "/account"}
	adminPages   = []string{
		"/admin/overview", "/admin/plugin", "/admin/users", "/admin/users?show=a_choice&order=oldest", "/admin/users?search=nobody", "/admin/users/new", "/admin/users/delete?user=1",
		"/admin/users/1", "/admin/users/1/delete", "/admin/users/1/events", "/admin/support", "/admin/support?login=anna",
		"/admin/fields", "/admin/fields/new", "/admin/fields/edit/a_choice", "/admin/fields/json", "/admin/mail", "/admin/events",
	}
)

func TestPages_AreAccessibleInBothLanguages(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, everyType)
	s.registerWith(t, "anna", map[string]any{"a_text": "a", "an_answer": true})
	for _, language := range []string{"en", "ru"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			l := desktop
			l.language = language
			s.wantPages(t, newTab(t, s.url, l), publicPages)
			s.wantPages(t, s.visitor(t, "anna", l), visitorPages)
			s.wantPages(t, s.administrator(t, l), adminPages)
		})
	}
}

func (s *site) wantPages(t *testing.T, p *tab, paths []string) {
	t.Helper()
	for _, path := range paths {
		p.open(path)
		p.wantAccessible()
	}
}

func TestErrorPages_AreAccessible(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := newTab(t, s.url, desktop)
	for path, status := range map[string]int{"/nowhere": 404, "/admin/": 401, "/admin/nowhere": 404, "/account/sign-out": 405} {
		p.visit(path)
		p.wantStatus(status)
		p.wantAccessible()
	}
}
