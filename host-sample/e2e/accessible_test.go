package e2e

import "testing"

// The pages that show user fields, of every type here. At all other pages look
// TestWalk_EveryAccountPage and TestWalk_EveryAdminPage.
var (
	publicPages  = []string{"/account/register"}
	visitorPages = []string{"/", "/demo", "/account"}
	adminPages   = []string{
		"/admin/users?show=a_choice&order=oldest", "/admin/users/new", "/admin/users/1", "/admin/fields", "/admin/fields/edit/a_choice",
	}
)

// In English on a desktop, in Russian on a phone in dark mode.
func TestPages_AreAccessibleInBothLanguages(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.putFields(t, everyType)
	s.registerWith(t, "anna", map[string]any{"a_text": "a", "an_answer": true})
	for language, l := range displays() {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
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
