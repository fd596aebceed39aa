package e2e

import "testing"

// The pages, for strangers, visitors and administrators.
var (
	strangersPages = []string{
		"/", "/account/sign-in", "/account/register", "/account/forgot", "/account/recover", "/account/email", "/reference",
	}
	visitorsPages = []string{
		"/", "/demo", "/account", "/account/password", "/account/new-email", "/account/sessions",
	}
	adminsPages = []string{
		"/admin/plugin", "/admin/users", "/admin/users/1", "/admin/users/1/delete", "/admin/fields", "/admin/fields/new",
		"/admin/fields/edit/a_choice", "/admin/fields/json", "/admin/mail", "/admin/events",
	}
)

func TestEveryPageIsAccessibleInEveryLanguage(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, everyType)
	s.registerWith(t, "anna", map[string]any{"a_text": "a", "an_answer": true})
	for _, language := range []string{"en", "ru"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			l := desk
			l.language = language
			s.wantPages(t, newTab(t, s.url, l), strangersPages)
			s.wantPages(t, s.visitor(t, "anna", l), visitorsPages)
			s.wantPages(t, s.administrator(t, l), adminsPages)
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

func TestErrorsArePagesToo(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := newTab(t, s.url, desk)
	for path, status := range map[string]int{"/nowhere": 404, "/admin/": 401, "/admin/nowhere": 404, "/account/sign-out": 405} {
		p.visit(path)
		p.wantStatus(status)
		p.wantAccessible()
	}
}
